"""How sure a paired difference is: an interval, and how often chance alone would make one as large.

`comparison` calls it with one number per question: the share of right answers of one system less that of the
other. Answers to the same question are not independent, so the question is the unit everywhere.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtr, ndtri

from steelyard.report.statistics import TAIL, Estimate, Floats, Integers

MOST_SUMS = 1 << 22
"""Above so many possible sums the permutation distribution is a normal one for every purpose."""


@dataclass(frozen=True)
class Chance:
    """How often chance alone would make a difference as large, if the systems were equally good; and which test."""

    p: float
    method: str


def difference(differences: Floats) -> Estimate:
    """The mean difference with the adjusted Wald interval of Bonett and Price (2012).

    "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data", Journal of
    Educational and Behavioral Statistics 37(4): Laplace's estimates (n12 + 1)/(n + 2) and (n21 + 1)/(n + 2) of the
    discordant shares in Wald's formula. That is Wald's interval with two questions more, on which the systems
    differ altogether, one each way; written like this it holds for shares of several answers to a question too
    (clustered by question), and it is never empty where the systems agree everywhere.
    """
    n = int(differences.size)
    if n == 0:
        return Estimate(None, None, None, "no questions", 0)
    adjusted = np.concatenate([differences, [1.0, -1.0]])
    centre = float(adjusted.mean())
    half = float(ndtri(TAIL)) * float(np.sqrt(adjusted.var() / adjusted.size))
    method = f"Bonett and Price (2012), paired by question ({n:,} questions)"
    return Estimate(float(differences.mean()), max(-1.0, centre - half), min(1.0, centre + half), method, n)


def chance(right: Integers, asked: Integers, other_right: Integers, other_asked: Integers) -> Chance:
    """The two-sided exact permutation test: which system gave which answers is exchanged question by question.

    Where each question is wholly right or wrong on either side this is McNemar's exact test (1947). Otherwise the
    sum of `±difference` over all choices of signs (Fisher's randomisation test for pairs) is counted out, in whole
    units of one answer; no random numbers are drawn.
    """
    unit = int(np.lcm.reduce(np.concatenate([asked, other_asked])))
    steps = right * (unit // asked) - other_right * (unit // other_asked)
    sizes, counts = np.unique(np.abs(steps[steps != 0]), return_counts=True)
    if sizes.size == 0:
        return Chance(1.0, "exact: the systems do not differ on any question")
    observed = abs(int(steps.sum()))
    exact = "McNemar's exact test" if np.array_equal(sizes, [unit]) else "exact sign-flip permutation test"
    if int((sizes * counts).sum()) > MOST_SUMS:
        z = observed / float(np.sqrt((counts * sizes.astype(np.float64) ** 2).sum()))
        return Chance(float(2 * ndtr(-z)), "sign-flip permutation test, by its normal limit")
    return Chance(_exact(sizes, counts, observed), f"{exact} ({int(counts.sum()):,} questions differ)")


def _exact(sizes: Integers, counts: Integers, observed: int) -> float:
    """P(|sum of signs times sizes| >= observed).

    Signs of one size sum up to a binomial distribution; sizes are joined by convolution.
    """
    shared = int(np.gcd.reduce(sizes))
    weights = np.ones(1)
    for size, count in zip(sizes // shared, counts, strict=True):
        spread = np.zeros(2 * size * count + 1)
        spread[:: 2 * size] = _halves(int(count))
        weights = _convolved(weights, spread) if weights.size > 1 else spread
    sums = np.arange(weights.size) - weights.size // 2
    return float(min(1.0, weights[np.abs(sums) >= observed // shared].sum()))


def _halves(count: int) -> Floats:
    """The binomial distribution of `count` fair coins."""
    k = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1) - count * np.log(2)
    return np.asarray(np.exp(logs), dtype=np.float64)


def _convolved(a: Floats, b: Floats) -> Floats:
    size = a.size + b.size - 1
    spectrum = np.fft.rfft(a, size) * np.fft.rfft(b, size)
    return np.clip(np.fft.irfft(spectrum, size), 0.0, None)
