"""Power of the exact tests for two shares of right answers, and the least differences that they detect.

`power` uses it for the report of one system and for comparisons.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from steelyard_evaluation.report.statistics.clusters import TAIL, Z_TAIL, Floats

POWER = 0.8
MOST_COUNTED = 81
"""Most terms of the sum over the number of differing questions; if there are more, evenly spaced ones are used."""
Z_POWER = 0.8416212335729143
"""Quantile of the normal distribution at POWER."""


def mcnemar_power(n: int, worse: float, better: float) -> float:
    """Return the power of McNemar's exact two-sided test at 5 % for a difference of `better` − `worse`: the shares of
    the `n` questions that only one system, and only the other, answers right.

    It is a sum over the number of questions that differ and, among these, over those that are better (Duffy 1984,
    Biometrics 40:1005-1015).
    """
    discordance = worse + better
    if discordance <= 0:
        return 0.0
    # Five standard deviations hold all but a millionth of the binomial's weight.
    middle, spread = n * discordance, np.sqrt(n * discordance * (1 - min(1.0, discordance)))
    ends = max(1.0, np.floor(middle - 5 * spread)), min(float(n), np.ceil(middle + 5 * spread))
    differ = np.unique(np.linspace(*ends, MOST_COUNTED).round())
    critical, share = _critical_values(differ), better / discordance
    detected = _binomial_cdf(critical, differ, share) + _binomial_cdf(critical, differ, 1 - share)
    weights = _binomial_pmf(differ, n, min(1.0, discordance))
    no_difference = (
        max(0.0, 1 - discordance) ** n
    )  # chance that no question differs, where nothing is detected
    return float((weights * detected).sum() / weights.sum() * (1 - no_difference))


def _critical_values(trials: Floats) -> Floats:
    """Return the greatest number of heads of a fair coin that is significantly small at 2.5 %; −1 where none is."""
    heads = np.floor(trials / 2 - Z_TAIL * np.sqrt(trials) / 2) + 1  # the normal limit is at most one off
    for _ in range(3):
        heads = np.where(_binomial_cdf(heads, trials, 0.5) > 1 - TAIL, heads - 1, heads)
    return np.asarray(np.maximum(heads, -1.0), dtype=np.float64)


def _binomial_cdf(k: Floats, trials: Floats, share: float) -> Floats:
    """Return the probability that at most `k` of the trials succeed; 0 where `k` is negative."""
    from scipy.special import betainc

    inside = np.clip(k, 0, trials)
    below = np.where(inside < trials, betainc(np.maximum(trials - inside, 1), inside + 1, 1 - share), 1.0)
    return np.asarray(np.where(k < 0, 0.0, below), dtype=np.float64)


def _binomial_pmf(k: Floats, n: int, share: float) -> Floats:
    from scipy.special import gammaln, xlog1py, xlogy

    logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, share) + xlog1py(n - k, -share)
    return np.asarray(np.exp(logs), dtype=np.float64)


def least_discordant(n: int, discordance: float) -> float | None:
    """Return the least difference that McNemar's exact test detects where this share of answers differs."""
    return _least(lambda gap: mcnemar_power(n, (discordance - gap) / 2, (discordance + gap) / 2), discordance)


@cache
def least_paired(n: int, share: float, correlation: float) -> float | None:
    """Return the least difference that McNemar's exact test detects from a system with this share of right answers.

    The right answers of both correlate by `correlation`. The other system's share is taken to be nearer to a half,
    where chance is greater; towards 0 or 1 a smaller difference is detected.
    """
    share = max(share, 1 - share)

    def power(gap: float) -> float:
        other = share - gap
        both = share * other + correlation * np.sqrt(share * (1 - share) * other * (1 - other))
        # No two systems can be right together more often than one of them is.
        both = min(other, float(both))
        return mcnemar_power(n, share - both, other - both)

    return _least(power, share)


def least_unpaired(n: int, share: float) -> float | None:
    """Return the least difference that Fisher's exact test detects between the shares of two sets of `n` questions.

    It solves the sample size of Casagrande, Pike and Smith (1978, Biometrics 34:483-486), in the form of Fleiss, Tytun
    and Ury (1980, Biometrics 36:343-346), for the difference.
    """
    share = max(share, 1 - share)

    def power(gap: float) -> float:
        other = share - gap
        middle = (share + other) / 2
        null = Z_TAIL * np.sqrt(2 * middle * (1 - middle))
        true = Z_POWER * np.sqrt(share * (1 - share) + other * (1 - other))
        plain = ((null + true) / gap) ** 2
        needed = plain / 4 * (1 + np.sqrt(1 + 4 / (plain * gap))) ** 2
        return 1.0 if needed <= n else 0.0

    return _least(power, share)


def _least(power: Callable[[float], float], most: float) -> float | None:
    """Return the least gap up to `most` with enough power, by bisection; power rises with the gap."""
    low, high = 0.0, most
    if most <= 0 or power(most) < POWER:
        return None
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
