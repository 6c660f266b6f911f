"""Errors of analyses. The step turns them into a termination message and an exit status."""

from steelyard_common.errors import SteelyardError

METHOD_FAILED = "MethodFailed"
METHOD_MISSING = "MethodMissing"
METHOD_TRIES = 2
"""Attempts of a method whose own code fails: what it failed for may have passed, such as a want of memory."""
SAID = 1000
"""Characters of an error's own words where the place of the error stands behind them."""


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
    return AnalysisFailed(METHOD_MISSING, message)
