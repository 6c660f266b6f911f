"""Smallest difference that an evaluation of this size can detect: 5 % significance, two-sided, 80 % power.

`scoring.summarise` puts it into a report, `comparison` into the comparison of two systems.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steelyard.report.results import Metric
from steelyard.report.statistics.clusters import TAIL, Z_TAIL
from steelyard.report.statistics.exact_power import (
    POWER,
    Z_POWER,
    least_paired,
    least_unpaired,
)
from steelyard.report.statistics.intervals import Estimate
from steelyard.report.wording import counted

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


def detectable(estimate: Estimate, clusters: int | None = None, *, binary: bool = False) -> Detectable | None:
    """Return the least detectable differences from another system; None where there are none, or they are unknown.

    For answers that are right or wrong (`binary`) they follow from the exact tests at the observed share, for other
    scores from the standard error: the variance of a difference is twice that of one mean, less the covariance of
    answers to the same questions.
    """
    if clusters is not None and clusters < FEWEST_CLUSTERS:
        return None
    if binary:
        return _detectable_shares(estimate)
    error = spread(estimate)
    if error is None:
        return None
    both = detectable_mean(error, clusters) * float(np.sqrt(2))
    return Detectable(paired=both * float(np.sqrt(1 - CORRELATION)), unpaired=both)


def _detectable_shares(estimate: Estimate) -> Detectable | None:
    """Return the differences that the exact tests detect with the effective number of independent questions."""
    value, n = estimate.value, estimate.n
    if value is None or estimate.low is None:
        return None
    if 0 < value < 1 and estimate.error:
        n = round(min(n, value * (1 - value) / estimate.error**2))
    # A share of 0 or 1 has no spread: then half a question counts as answered the other way.
    share = min(1 - 0.5 / n, max(0.5 / n, value)) if n > 0 else 0.5
    paired, unpaired = least_paired(n, share, CORRELATION), least_unpaired(n, share)
    return None if paired is None else Detectable(paired, unpaired)


def spread(estimate: Estimate) -> float | None:
    """Return the standard error; where all values are equal, the one that the interval implies."""
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return None
    return estimate.error or (estimate.high - estimate.low) / (2 * Z_TAIL)


def detectable_mean(error: float, clusters: int | None = None) -> float:
    """Return the least mean difference that a paired test detects, from the standard error of the mean difference.

    The quantiles are Student's where `clusters` is given, else normal.
    """
    from scipy.special import stdtrit

    if clusters is None:
        return (Z_TAIL + Z_POWER) * error
    return float(stdtrit(clusters - 1, TAIL) + stdtrit(clusters - 1, POWER)) * error


def power_line(
    lead: Metric, questions: int, clusters: int | None = None, *, binary: bool = False
) -> str | None:
    """Return the sentence for people: `400 questions can detect a difference of 2.1 points …`."""
    if lead.estimate.low is None:
        return None
    least = detectable(lead.estimate, clusters, binary=binary)
    size = counted(questions, "question")
    if least is None:
        return f"{size} cannot detect any difference with 80 % power at a significance level of 5 %."
    others = (
        ""
        if least.unpaired is None
        else f", and of {difference(least.unpaired, lead.unit)} between systems asked different ones"
    )
    by = "exact test at the share observed here" if binary else "by the standard error"
    return (
        f"{size} can detect a difference of {difference(least.paired, lead.unit)} between systems asked the same "
        f"questions (80 % power at a significance level of 5 %, {by}, scores correlated by {CORRELATION:g}){others}."
    )


def difference(size: float, unit: str) -> str:
    """Return `2.1 points` (percentage points) for a share, else the number alone."""
    if unit != "share":
        return f"{size:.3g}"
    points = f"{100 * size:.1f}"
    return "1 point" if points == "1.0" else f"{points} points"


def power_numbers(
    lead: Metric, clusters: int | None = None, *, binary: bool = False
) -> dict[str, Any] | None:
    """Return the least detectable differences for report.json."""
    least = detectable(lead.estimate, clusters, binary=binary)
    return asdict(least) if least else None
