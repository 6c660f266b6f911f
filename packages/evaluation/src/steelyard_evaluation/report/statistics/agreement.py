"""Agreement of an interval with a test: the interval leaves out 0 exactly where the p value is below 0.05."""

from steelyard_evaluation.report.statistics.clusters import LEVEL, Z_TAIL, student_quantile
from steelyard_evaluation.report.statistics.intervals import Estimate


def make_consistent(
    estimate: Estimate, p: float, freedom: float | None = None, *, exact: bool = False
) -> tuple[float | None, float | None, float]:
    """Return the bounds and the p value of a difference, after the more careful of interval and test has decided.

    The p value is the larger one of the test's and the one at which the interval would end at 0, by the quantiles of
    the normal distribution or of Student's (`freedom`); that of an `exact` test, which keeps every level, only where it
    is below 0.05 and the interval holds 0. An interval is extended to 0 where the test does not rule it out. Both
    changes make a difference less certain: the interval holds the true value no less often, and the test finds a
    difference where there is none no more often.
    """
    from scipy.special import ndtr, stdtr

    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return low, high, p
    reach = value - low if value > 0 else high - value
    holds_zero = low <= 0 <= high
    if reach > 0 and not (exact and (p >= 1 - LEVEL or not holds_zero)):
        quantile = Z_TAIL if freedom is None else student_quantile(freedom)
        distance = -quantile * abs(value) / reach
        p = max(p, 2 * float(ndtr(distance) if freedom is None else stdtr(freedom, distance)))
    if holds_zero:
        p = max(p, 1 - LEVEL)  # rounding of the quantile
    if p >= 1 - LEVEL:
        return min(low, 0.0), max(high, 0.0), p
    return low, high, p
