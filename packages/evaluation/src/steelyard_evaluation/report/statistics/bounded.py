"""Interval and test of a mean of independent values on a scale, which hold whatever the distribution of the values.

`comparison.differences` calls it for differences that are not only -1, 0 and 1: gains may be small and frequent, losses
great and rare, and a sample may show none of the losses. A test that flips signs takes such gains for certain.
"""

from dataclasses import dataclass

import numpy as np

from steelyard_evaluation.report.statistics.clusters import TAIL, Floats

_NEWTON_STEPS = 100
_MOST_DISTINCT = 10_000
"""Most distinct values; more are rounded to as many steps of the scale, which moves no bound by a thousandth of it."""
_NEAR_ZERO = 3e-3
"""Size of the signed root below which the saddlepoint formula loses its digits, and its limit is used."""


@dataclass(frozen=True)
class BoundedMean:
    """The 95 % interval of a mean, and the two-sided p value of a true mean of 0: below 0.05 where 0 lies outside."""

    low: float
    high: float
    p: float


def estimate_bounded_mean(values: Floats, low: float, high: float) -> BoundedMean:
    """Return the interval of Gaffke, and the p value that goes with it, for independent values from `low` to `high`.

    Gaffke (2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
    variable", Mathematical Methods of Statistics 14:451-467): the chance that a mean of the values and of one more at
    the end of the scale, with random weights (Dirichlet's), is on the other side of a hypothetical mean. For values at
    both ends it is the interval of Clopper and Pearson; it is never narrower than that of Anderson (Learned-Miller and
    Thomas 2020, arXiv:1905.06208).
    """
    distinct, times = _distinct(values, low, high)
    mean = float(values.mean())
    # In the order of the opposite values: then the opposite comparison has the same p value to the last digit.
    opposite, opposite_times = -distinct[::-1], times[::-1]
    above, below = _chance(distinct, times, low, 0.0), _chance(opposite, opposite_times, -high, 0.0)
    return BoundedMean(
        _lower_bound(distinct, times, low, mean),
        -_lower_bound(opposite, opposite_times, -high, -mean),
        min(1.0, 2 * min(above, below)),
    )


def least_significant_mean(values: Floats, width: float) -> float | None:
    """Return the least mean that is significantly above 0 for differences with the spread of `values`; None where none
    is. The differences lie between -`width` and `width`.
    """
    from scipy.optimize import brentq

    distinct, counts = _distinct(values - values.mean(), -width, width)

    def excess(shift: float) -> float:
        return _chance(distinct + shift, counts, -width, 0.0) - (1 - TAIL)

    if excess(width) > 0:
        return None
    least: float = brentq(excess, 0.0, width, xtol=1e-4 * width)
    return least


def _distinct(values: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the distinct values and how often each occurs; of very many, steps of the scale."""
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size > _MOST_DISTINCT:
        step = (high - low) / _MOST_DISTINCT
        distinct, counts = np.unique(low + step * np.round((values - low) / step), return_counts=True)
    return distinct, counts.astype(np.float64)


def _chance(distinct: Floats, counts: Floats, low: float, mean: float) -> float:
    """Return Gaffke's p value of a true mean of at most `mean`."""
    return negative_chance(np.append(distinct, low) - mean, np.append(counts, 1.0))


def _lower_bound(distinct: Floats, counts: Floats, low: float, mean: float) -> float:
    from scipy.optimize import brentq

    if mean <= low:
        return low
    n = float(counts.sum())
    spread = float(np.sqrt((counts * (distinct - mean) ** 2).sum())) / n
    # Near the bound the saddlepoint is quick to find; at the end of the scale it takes a hundred steps.
    reach = 2 * spread + (mean - low) / n
    while reach < mean - low and _chance(distinct, counts, low, mean - reach) > 1 - TAIL:
        reach *= 1.5
    bound: float = brentq(
        lambda guess: _chance(distinct, counts, low, guess) - (1 - TAIL),
        max(low, mean - reach),
        mean,
        xtol=1e-6 * reach,
    )
    return bound


def negative_chance(values: Floats, counts: Floats) -> float:
    """Return the chance that a sum of exponential variables, `counts` of them times each value, is not above 0.

    It is the saddlepoint approximation of Lugannani and Rice (1980, Advances in Applied Probability 12:475-490), which
    is off by less than a twentieth of the chance, and makes it larger rather than smaller.
    """
    from scipy.special import ndtr

    if values.min() >= 0:
        return 0.0 if values.max() > 0 else 1.0
    if values.max() <= 0:
        return 1.0
    point = _saddlepoint(values, counts)
    rest = 1 - point * values
    ratio = values / rest
    curvature = float((counts * ratio**2).sum())
    root = float(np.sign(point) * np.sqrt(max(0.0, 2 * float((counts * np.log(rest)).sum()))))
    if abs(root) < _NEAR_ZERO:
        skew = 2 * float((counts * ratio**3).sum()) / curvature / float(np.sqrt(curvature))
        return 0.5 + skew / (6 * float(np.sqrt(2 * np.pi)))
    density = float(np.exp(-root * root / 2) / np.sqrt(2 * np.pi))
    chance = float(ndtr(root)) + density * (1 / root - 1 / (point * float(np.sqrt(curvature))))
    return float(min(1.0, max(0.0, chance)))


def _saddlepoint(values: Floats, counts: Floats) -> float:
    """Return where the cumulant function of the sum, -Σ counts log(1 - s values), is least: by Newton's steps, inside
    the interval where it exists.
    """
    low, high, point = 1 / float(values.min()), 1 / float(values.max()), 0.0
    for _ in range(_NEWTON_STEPS):
        ratio = values / (1 - point * values)
        # Not by `@`: its threads wait for each other where cores are shared.
        weighted = counts * ratio
        slope, curvature = float(weighted.sum()), float((weighted * ratio).sum())
        low, high = (low, point) if slope > 0 else (point, high)
        step = point - slope / curvature
        if not low < step < high:
            step = (low + high) / 2
        # In standard deviations of the sum: what is less changes no digit that is shown.
        if abs(step - point) * curvature**0.5 <= 1e-9:
            return step
        point = step
    return point
