"""Errors of reports. The step turns them into a termination message and an exit status."""

from steelyard.errors import SteelyardError


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
