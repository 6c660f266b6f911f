"""What can go wrong with a training job that a person asked for, in one line that says what would be right."""

from steelyard.errors import SteelyardError, UsageError


class BadJob(UsageError):
    """The job cannot be made as it is asked for."""


class NoSuchJob(UsageError):
    """There is no job of that name, or more than one."""


class JobDeleted(SteelyardError):
    """The job was deleted while somebody waited for it."""


class WaitedTooLong(SteelyardError):
    """The job had not ended in the time given."""
