"""How small a difference an evaluation of this size can see: 5 % significance, two-sided, 80 % power.

`scoring.summarise` asks for the line in a report, `comparison` for that of two systems which were compared.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from steelyard.report.results import Metric
from steelyard.report.statistics import TAIL, Estimate
from steelyard.report.wording import counted

POWER = 0.8
CORRELATION = 0.5
"""Of the scores of two systems on the same questions, where only one system is known."""
Z_TAIL, Z_POWER = float(ndtri(TAIL)), float(ndtri(POWER))


@dataclass(frozen=True)
class Detectable:
    """The least true differences that are found significant in 80 of 100 comparisons."""

    paired: float
    """Of another system asked the same questions."""
    unpaired: float
    """Of another system asked as many other questions."""
    alpha: float = 0.05
    power: float = POWER
    correlation: float = CORRELATION


def detectable(estimate: Estimate, clusters: int | None = None) -> Detectable | None:
    """By the standard error of one system's number; None where it is not known, as from a single cluster.

    The variance of a difference is twice that of a number, less what the same questions share.
    """
    error = spread(estimate)
    if error is None or clusters == 1:
        return None
    both = detectable_mean(error, clusters) * float(np.sqrt(2))
    return Detectable(paired=both * float(np.sqrt(1 - CORRELATION)), unpaired=both)


def spread(estimate: Estimate) -> float | None:
    """The standard error; where all values are alike, what the interval implies."""
    if estimate.error:
        return estimate.error
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return None
    return (estimate.high - estimate.low) / (2 * Z_TAIL)


def detectable_discordance(discordance: float, n: float) -> float | None:
    """The least difference of two shares of right answers that McNemar's test sees; None when no difference can be.

    `discordance` is the share of the `n` questions on which the systems differ: Connor's sample size for paired
    shares (1987, Biometrics 43:207-211), solved for the difference.
    """
    inside = n + Z_POWER**2 - Z_TAIL**2
    if discordance <= 0 or inside < 0:
        return None
    least = float(np.sqrt(discordance) * (Z_TAIL * np.sqrt(n) + Z_POWER * np.sqrt(inside)) / (n + Z_POWER**2))
    return least if least <= discordance else None


def detectable_mean(error: float, clusters: int | None = None) -> float:
    """The least mean difference that a paired test sees, by the standard error of the mean difference.

    `clusters`, where there are fewer than rows, are few: Student's quantiles.
    """
    if clusters is None:
        return (Z_TAIL + Z_POWER) * error
    return float(stdtrit(clusters - 1, TAIL) + stdtrit(clusters - 1, POWER)) * error


def power_line(lead: Metric, questions: int, clusters: int | None = None) -> str | None:
    """`This size can see a difference of 2.1 points: …`."""
    found = detectable(lead.estimate, clusters)
    if found is None:
        return None
    return (
        f"This size, {counted(questions, 'question')}, can see a difference of {difference(found.paired, lead.unit)} "
        f"between systems asked the same questions (80 % power at 5 %, if their scores correlate by "
        f"{CORRELATION:g}), and of {difference(found.unpaired, lead.unit)} where the questions are others."
    )


def difference(size: float, unit: str) -> str:
    """`2.1 points`: of 100 where the unit is a share."""
    if unit != "share":
        return f"{size:.3g}"
    points = f"{100 * size:.1f}"
    return "1 point" if points == "1.0" else f"{points} points"


def power_numbers(lead: Metric, clusters: int | None = None) -> dict[str, Any] | None:
    """The same for report.json."""
    found = detectable(lead.estimate, clusters)
    return asdict(found) if found else None
