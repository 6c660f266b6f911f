"""Errors of analyses. The step turns them into a termination message and an exit status."""

from steelyard.errors import SteelyardError

METHOD_FAILED = "MethodFailed"
"""Code of a failure of the method's own code, which gets a second try."""


class AnalysisFailed(SteelyardError):
    """Failure of an analysis: `code` becomes the condition's reason.

    `permanent` is true if another attempt would fail in the same way.
    """

    def __init__(self, code: str, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.permanent = permanent


def output_invalid(message: str) -> AnalysisFailed:
    """Return the error of an output that is not what the method promises."""
    return AnalysisFailed("OutputInvalid", message)


def method_missing(message: str) -> AnalysisFailed:
    """Return the error of a function, a rubric or a notebook that does not exist."""
    return AnalysisFailed("MethodMissing", message)
