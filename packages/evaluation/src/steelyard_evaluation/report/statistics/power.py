"""Smallest difference that an evaluation of this size can detect: 5 % significance, two-sided, 80 % power.

`scoring.summarise` puts it into a report, `comparison` into the comparison of two systems.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from steelyard_evaluation.report.results import Metric
from steelyard_evaluation.report.statistics.bounded import least_significant_mean
from steelyard_evaluation.report.statistics.clusters import Z_TAIL
from steelyard_evaluation.report.statistics.exact_power import (
    POWER,
    Z_POWER,
    least_paired,
    least_unpaired,
)
from steelyard_evaluation.report.statistics.groups import difference_from_rest
from steelyard_evaluation.report.statistics.intervals import Estimate, Floats, Scale, mean
from steelyard_evaluation.report.wording import count_noun, decimal

CORRELATION = 0.5
"""Assumed correlation of the scores of two systems on the same questions, where only one system was evaluated."""
FEWEST_CLUSTERS = 6
"""Fewest clusters with which the permutation test can find anything: 2 of 2^6 choices of signs are less than 5 %."""


@dataclass(frozen=True)
class Detectable:
    """The least true differences that are significant in 80 of 100 comparisons."""

    paired: float
    """Difference from another system that is asked the same questions."""
    unpaired: float | None
    """Difference from another system that is asked as many other questions; None where none can be detected."""
    alpha: float = 0.05
    power: float = POWER
    correlation: float = CORRELATION


@lru_cache(maxsize=8)  # a report says them in a sentence and in numbers
def detectable(
    estimate: Estimate, questions: int, clusters: int | None = None, *, binary: bool = False, scale: Scale
) -> Detectable | None:
    """Return the least detectable differences from another system; None where there are none, or they are unknown.

    For answers that are right or wrong (`binary`), one to each question, they follow from the exact tests at the
    observed share; for other scores from the standard error, which is that of a paired difference if the scores
    correlate by a half, and from how far the interval of a difference reaches.
    """
    units = questions if clusters is None else clusters
    if clusters is not None and clusters < FEWEST_CLUSTERS:
        return None
    if binary and is_exact(estimate, questions, clusters):
        return _detectable_shares(estimate)
    error = spread(estimate, binary)
    if error is None or units < FEWEST_CLUSTERS:
        return None
    width = scale[1] - scale[0]
    spread_of_units = error * float(np.sqrt(units))
    steps = _normal_sample(spread_of_units, units)
    paired = (
        least_mean(steps, error, width)
        if clusters is None
        else least_mean_of_clusters(steps, error, width, clusters, partial(_low_of_mean, width=width))
    )
    if paired is None:
        return None
    # Two values, because no other distribution on a scale can have every spread that scores on it can have.
    middle = (scale[0] + scale[1]) / 2
    sides = middle + np.where(np.arange(2 * units) % 2, 1, -1) * min(spread_of_units, width / 2)
    reach = difference_from_rest(sides, np.arange(2 * units) < units, np.arange(2 * units), scale)[0].high
    unpaired = (reach or width) + _power_quantile(clusters) * float(np.sqrt(2)) * error
    # No less than paired: Welch's test takes means of few scores for more certain than the interval of pairs does.
    unpaired = max(paired, unpaired)
    return Detectable(paired, unpaired if unpaired <= width else None)


def is_exact(estimate: Estimate, questions: int, clusters: int | None) -> bool:
    """Return whether a comparison of right and wrong answers is by McNemar's test: one answer to each question."""
    return clusters is None and estimate.n == questions


def _normal_sample(spread: float, size: int) -> Floats:
    """Return the quantiles of a normal variable with mean 0 and this standard deviation."""
    from scipy.special import ndtri

    values = ndtri((np.arange(size) + 0.5) / size)
    return np.asarray(spread / values.std() * values, dtype=np.float64)


def _detectable_shares(estimate: Estimate) -> Detectable | None:
    """Return the differences that the exact tests detect with this number of questions."""
    value, n = estimate.value, estimate.n
    if value is None or estimate.low is None:
        return None
    # A share of 0 or 1 has no spread: then half a question counts as answered the other way.
    share = min(1 - 0.5 / n, max(0.5 / n, value)) if n > 0 else 0.5
    paired, unpaired = least_paired(n, share, CORRELATION), least_unpaired(n, share)
    return None if paired is None else Detectable(paired, unpaired)


def spread(estimate: Estimate, share: bool = False) -> float | None:
    """Return the standard error; of a share, or where all values are equal, the one that the interval implies."""
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return None
    implied = (estimate.high - estimate.low) / (2 * Z_TAIL)
    return implied if share else estimate.error or implied


def least_mean(steps: Floats, error: float, width: float) -> float | None:
    """Return the least true mean difference that 80 of 100 comparisons find; None if there is none.

    `steps` are differences with the spread that was seen, one for each question; `error` is the standard error of their
    mean.
    """
    least = least_significant_mean(steps, width)
    if least is None or least + Z_POWER * error > width:
        return None
    return least + Z_POWER * error


def least_mean_of_clusters(
    steps: Floats, error: float, width: float, clusters: int, low_of: Callable[[Floats], float]
) -> float | None:
    """Return the same for questions in clusters; `low_of` gives the lower end of the interval of differences."""
    needed, low, high = _power_quantile(clusters) * error, 0.0, width
    for _ in range(20):
        middle = (low + high) / 2
        significant = low_of(steps - steps.mean() + middle - needed) > 0
        low, high = (low, middle) if significant else (middle, high)
    return high if high < width else None


def _low_of_mean(steps: Floats, width: float) -> float:
    """Return the lower end of the interval of a mean of clusters."""
    return mean(np.clip(steps, -width, width), np.arange(steps.size), (-width, width)).low or 0.0


def _power_quantile(clusters: int | None) -> float:
    """Return Student's quantile of the power where there are clusters, else the normal one."""
    from scipy.special import stdtrit

    return Z_POWER if clusters is None else float(stdtrit(clusters - 1, POWER))


def power_line(
    lead: Metric, questions: int, clusters: int | None = None, *, binary: bool = False
) -> str | None:
    """Return the sentence for people: `400 questions can detect a difference of 2.1 points …`."""
    if lead.estimate.low is None:
        return None
    least = detectable(lead.estimate, questions, clusters, binary=binary, scale=_read_scale(lead))
    size = count_noun(questions, "question")
    if least is None:
        return f"{size} cannot detect any difference with 80 % power at a significance level of 5 %."
    others = (
        ""
        if least.unpaired is None
        else f", and of {difference(least.unpaired, lead.unit, lead.scale)} between systems asked different ones"
    )
    exact = binary and is_exact(lead.estimate, questions, clusters)
    by = "exact test at the share observed here" if exact else "by the standard error"
    paired = difference(least.paired, lead.unit, lead.scale)
    return (
        f"{size} can detect a difference of {paired} between systems asked the same questions (80 % power at a "
        f"significance level of 5 %, {by}, scores correlated by {CORRELATION:g}){others}."
    )


def difference(size: float, unit: str, scale: Scale | None = None) -> str:
    """Return `2.1 points` (percentage points) for a share, else the number alone."""
    if unit != "share":
        return decimal(size, scale)
    points = f"{100 * size:.1f}"
    if points == "0.0":
        return "less than 0.1 points"
    return "1 point" if points == "1.0" else f"{points} points"


def _read_scale(lead: Metric) -> Scale:
    """Return the scale of a number that has an interval."""
    return lead.scale or (0.0, 1.0)


def power_numbers(
    lead: Metric, questions: int, clusters: int | None = None, *, binary: bool = False
) -> dict[str, Any] | None:
    """Return the least detectable differences for report.json."""
    if lead.estimate.low is None:
        return None
    least = detectable(lead.estimate, questions, clusters, binary=binary, scale=_read_scale(lead))
    return asdict(least) if least else None
