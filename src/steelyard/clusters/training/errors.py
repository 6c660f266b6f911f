"""Errors in what a person asks of a training job, each in one line that says what would be right."""

from steelyard.errors import SteelyardError, UsageError


class BadJob(UsageError):
    """The job cannot be made as it is asked for."""


class NoSuchJob(UsageError):
    """No job has this name, or more than one has it."""


class JobDeleted(SteelyardError):
    """The job was deleted while the caller waited for it."""


class WaitedTooLong(SteelyardError):
    """The job had not ended in the time given."""
