"""The root of the errors that a user is meant to read: one line that says what is wrong and what would be right.

Also whose fault an error is, an engine's or its input's: consumers end for the first and put aside one record for the
second. The border of each engine decides it, where the cause is still known.
"""


class SteelyardError(Exception):
    """A failure with a message for the user; `exit_code` is what the command line exits with."""

    exit_code = 1


class EngineError(Exception):
    """Base of what an engine (log, view, accounts, storage) raises when it fails or must not be used: no single record
    is to blame, and a process that meets it ends or waits.
    """


class ContentError(EngineError):
    """Base of an engine's refusals of what it was given, while the engine itself is well."""


def is_engine_failure(error: BaseException) -> bool:
    """Return whether an engine has failed. Anything else that a step raises is the fault of the record it worked on.

    An OSError that no border has translated comes from the machine: a disk, a socket, a descriptor.
    """
    return isinstance(error, EngineError | OSError) and not isinstance(error, ContentError)


class Refused(SteelyardError, EngineError):
    """A file or an engine is not what it should be, and a person has to decide: a new start alone helps nothing."""

    exit_code = 3


class UsageError(SteelyardError):
    """A request of the user that cannot be fulfilled as it stands."""

    exit_code = 2
