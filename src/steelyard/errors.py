"""The root of the errors that a user is meant to read: one line that says what is wrong and what would be right."""


class SteelyardError(Exception):
    """A failure with a message for the user; `exit_code` is what the command line exits with."""

    exit_code = 1


class UsageError(SteelyardError):
    """What was asked for cannot be done as asked."""

    exit_code = 2
