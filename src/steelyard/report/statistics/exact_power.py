"""Power of the exact tests of two shares of right answers, and the least differences that they find often enough.

`power` says it for one system's report and for a comparison: what an evaluation of this size can see.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.special import betainc, gammaln, ndtri, xlog1py, xlogy

from steelyard.report.statistics.clusters import TAIL, Floats

POWER = 0.8
MOST_COUNTED = 81
"""Most numbers of differing questions that are summed over; of more, evenly spaced ones stand for all."""
Z_TAIL, Z_POWER = float(ndtri(TAIL)), float(ndtri(POWER))


def mcnemar_power(n: int, worse: float, better: float) -> float:
    """Probability that McNemar's exact two-sided test at 5 % finds a difference of `better` − `worse`, the shares of
    the `n` questions that only the one system and only the other answers right.

    Summed over the numbers of questions that differ and, of these, over those that are better (Duffy 1984, Biometrics
    40:1005-1015).
    """
    discordance = worse + better
    if discordance <= 0:
        return 0.0
    middle, spread = n * discordance, np.sqrt(n * discordance * (1 - min(1.0, discordance)))
    ends = max(1.0, np.floor(middle - 5 * spread)), min(float(n), np.ceil(middle + 5 * spread))
    differ = np.unique(np.linspace(*ends, MOST_COUNTED).round())
    few, share = _critical(differ), better / discordance
    finds = _at_most(few, differ, share) + _at_most(few, differ, 1 - share)
    weights = _binomial(differ, n, min(1.0, discordance))
    nothing = max(0.0, 1 - discordance) ** n  # no question differs: nothing is found
    return float((weights * finds).sum() / weights.sum() * (1 - nothing))


def _critical(differ: Floats) -> Floats:
    """The greatest number of fair coins of so many that is too small at 2.5 %; −1 where none is."""
    few = np.floor(differ / 2 - Z_TAIL * np.sqrt(differ) / 2) + 1  # the normal limit is at most one off
    for _ in range(3):
        few = np.where(_at_most(few, differ, 0.5) > 1 - TAIL, few - 1, few)
    return np.asarray(np.maximum(few, -1.0), dtype=np.float64)


def _at_most(k: Floats, trials: Floats, share: float) -> Floats:
    """Probability that at most `k` of the trials succeed; 0 where `k` is negative."""
    inside = np.clip(k, 0, trials)
    below = np.where(inside < trials, betainc(np.maximum(trials - inside, 1), inside + 1, 1 - share), 1.0)
    return np.asarray(np.where(k < 0, 0.0, below), dtype=np.float64)


def _binomial(k: Floats, n: int, share: float) -> Floats:
    logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, share) + xlog1py(n - k, -share)
    return np.asarray(np.exp(logs), dtype=np.float64)


def least_discordant(n: int, discordance: float) -> float | None:
    """The least difference that McNemar's exact test finds where the systems differ on this share of the questions."""
    return _least(lambda gap: mcnemar_power(n, (discordance - gap) / 2, (discordance + gap) / 2), discordance)


@cache
def least_paired(n: int, share: float, correlation: float) -> float | None:
    """The least difference that McNemar's exact test finds between a system with this share of right answers and one
    whose right answers correlate with its own so much.

    The other system's share lies nearer to a half, where chance is greater; towards 0 or 1 a smaller difference shows.
    """
    share = max(share, 1 - share)

    def power(gap: float) -> float:
        other = share - gap
        both = share * other + correlation * np.sqrt(share * (1 - share) * other * (1 - other))
        both = min(other, float(both))
        return mcnemar_power(n, share - both, other - both)

    return _least(power, share)


def least_unpaired(n: int, share: float) -> float | None:
    """The least difference that Fisher's exact test finds between this share of `n` questions and that of `n` others.

    The sample size of Casagrande, Pike and Smith (1978, Biometrics 34:483-486) in the form of Fleiss, Tytun and Ury
    (1980, Biometrics 36:343-346), solved for the difference.
    """
    share = max(share, 1 - share)

    def enough(gap: float) -> float:
        other = share - gap
        middle = (share + other) / 2
        null = Z_TAIL * np.sqrt(2 * middle * (1 - middle))
        true = Z_POWER * np.sqrt(share * (1 - share) + other * (1 - other))
        plain = ((null + true) / gap) ** 2
        needed = plain / 4 * (1 + np.sqrt(1 + 4 / (plain * gap))) ** 2
        return 1.0 if needed <= n else 0.0

    return _least(enough, share)


def _least(power: Callable[[float], float], most: float) -> float | None:
    """The least gap up to `most` with enough power, which rises with the gap."""
    low, high = 0.0, most
    if most <= 0 or power(most) < POWER:
        return None
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
