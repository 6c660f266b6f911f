"""Errors of reports. The step turns them into a termination message and an exit status."""

from steelyard_common.errors import SteelyardError, UsageError


class ReportFailed(SteelyardError):
    """Failure to make a report: `code` becomes the condition's reason, `row` names the row.

    `permanent` is true if another attempt would fail in the same way.
    """

    def __init__(self, code: str, message: str, *, permanent: bool = True, row: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.permanent = permanent
        self.row = row


class NotInstalled(UsageError):
    """A program or rubric that the scores need is not installed here: that says nothing about the report."""


class RubricFailed(ReportFailed):
    """Failure of a rubric's own code by another error than the one that says a row cannot be scored.

    `ours` is true for a rubric of Steelyard.
    """

    def __init__(self, message: str, error: BaseException, *, ours: bool) -> None:
        # What it failed for may have passed, such as a want of memory.
        super().__init__("CannotScore", message, permanent=False)
        self.error = error
        self.ours = ours


class RowFault(UsageError):
    """Rows that cannot be asked, or cannot be scored whatever is answered; the message says why."""
