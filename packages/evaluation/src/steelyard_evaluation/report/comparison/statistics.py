"""Paired differences of two systems: intervals and permutation tests.

`comparison.reports` calls these with one number per question: the share of right answers, or the mean score, of one
system less that of the other. Answers to the same question are not independent, so the question is the unit
everywhere, or the cluster of questions where there are clusters.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from steelyard_evaluation.report.statistics.clusters import (
    Z_TAIL,
    Floats,
    Integers,
    Sums,
    student_quantile,
    sum_clusters,
    without_rounding,
)
from steelyard_evaluation.report.statistics.intervals import Estimate, mean, too_rare
from steelyard_evaluation.report.wording import count_noun

MOST_SUMS = 1 << 22
"""Number of possible sums above which a normal distribution replaces the permutation distribution."""
MOST_UNIT = 1 << 62
"""Sum of all differences, in whole units of one answer, above which these are counted as fractions."""
MOST_COUNTED = 16
"""Most differences for which all choices of signs are enumerated (65,536)."""
MOST_DRAWN = 2000
"""Number of differences above which Student's distribution replaces the permutation distribution of their mean."""
DRAWS = 9999
SEED = 0


@dataclass(frozen=True)
class PValue:
    """p value: the probability of a difference at least as large if the systems were equally good; and its test."""

    p: float
    method: str


@dataclass(frozen=True)
class NoTest:
    """The reason why there is no p value: no test would keep its level."""

    method: str
    p: None = None


def share_difference(differences: Floats, clusters: Integers | None = None) -> Estimate:
    """Return the mean difference of shares with the adjusted Wald interval of Bonett and Price (2012).

    "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data", Journal of
    Educational and Behavioral Statistics 37(4): Laplace's estimates (n12 + 1)/(n + 2) and (n21 + 1)/(n + 2) of the
    discordant shares in Wald's formula. That is Wald's interval with two more questions, on which the systems differ
    by 1 and -1; in this form it also holds for shares of several answers to a question, and it is never empty where
    the systems agree everywhere.

    With clusters, the two are small clusters (`_extra_size`), the error is the jackknife's and the quantile Student's.
    """
    n = int(differences.size)
    if n == 0:
        return Estimate(None, None, None, "no questions", 0)
    value = mean_difference(differences)
    sums = sum_clusters(differences, np.arange(n) if clusters is None else clusters)
    if sums.count == 1 < n:
        return Estimate(value, None, None, "no interval: one cluster", n)
    if sums.count == n:
        # The two added questions, on which each system wins once: without them, agreement everywhere would
        # have no width.
        values, quantile, clustered = np.append(differences, [-1.0, 1.0]), Z_TAIL, ""
        centre, error = float(values.mean()), float(values.std() / np.sqrt(n + 2))
    else:
        wider, quantile = sums.plus(_extra_size(differences, sums), -1.0, 1.0), student_quantile(sums.freedom)
        centre, error, clustered = (
            wider.mean,
            wider.error,
            f" in {sums.count:,} clusters, cluster jackknife, Student's t",
        )
    low, high = max(-1.0, centre - quantile * error), min(1.0, centre + quantile * error)
    method = f"Bonett and Price (2012), paired by question ({count_noun(n, 'question')}{clustered})"
    # The interval is around a shrunken centre and may leave out the value itself where all questions differ
    # alike.
    return Estimate(value, min(value, low), max(value, high), method, n, error)


def _extra_size(differences: Floats, sums: Sums) -> float:
    """Return the size of the two clusters that are added: the geometric mean of design effect and cluster size.

    With one question each, as without clusters, or as many as the design effect (Kish 1965), the interval held the true
    value in 0.83 of the simulations of few clusters that differ much; with whole clusters nearly always, at two to
    three times the width. These are added where questions that differ, or agree, fill few clusters
    (`too_rare`): a design effect seen in so few may be luck.
    """
    if too_rare(float(np.abs(differences).mean()), sums):
        return sums.typical
    error = float(differences.std() / np.sqrt(differences.size))
    if error == 0:
        return sums.typical
    design_effect = min(sums.typical, max(1.0, (sums.error / error) ** 2))
    return float(np.sqrt(design_effect * sums.typical))


def score_difference(
    differences: Floats, clusters: Integers | None = None, width: float | None = None
) -> Estimate:
    """Return the mean difference of scores with Student's interval, paired by question, over clusters if given.

    `width` is the width of the scores' scale, if they have one (see `intervals.mean`).
    """
    units = np.arange(differences.size) if clusters is None else clusters
    estimate = mean(differences, units, None if width is None else (-width, width))
    value = estimate.value if estimate.value is None else mean_difference(differences)
    return replace(estimate, value=value, method=f"{estimate.method}, paired by question")


def p_value(differences: Floats, clusters: Integers | None = None) -> PValue:
    """Return the two-sided sign-flip permutation test of the mean difference: Fisher's randomisation test for pairs.

    All choices of signs are enumerated for few clusters; else 9,999 are drawn with a fixed seed, the observed one
    counting as one more; for very many clusters it is Student's t test.
    """
    all_sums = _cluster_sums(differences, clusters)
    sums = all_sums[all_sums != 0]
    what = differing(sums.size, clusters is not None)
    if sums.size == 0:
        return PValue(1.0, "exact: the systems do not differ on any question")
    # Less a margin for rounding: a sum that ties with the observed one must count as at least as large.
    observed = abs(float(sums.sum())) - 1e-10 * float(np.abs(sums).sum())
    if sums.size <= MOST_COUNTED:
        reachable = np.zeros(1)
        for total in sums:
            reachable = np.concatenate([reachable + total, reachable - total])
        method = f"exact sign-flip permutation test ({what})"
        return PValue(float((np.abs(reachable) >= observed).mean()), method)
    if sums.size <= MOST_DRAWN:
        method = f"sign-flip permutation test ({DRAWS:,} draws, seed {SEED}; {what})"
        # The observed choice of signs counts as drawn: without it p could be 0, which no sample shows.
        return PValue((1 + _count_extreme_draws(sums, observed)) / (1 + DRAWS), method)
    from scipy.special import stdtr

    n = all_sums.size
    # The error of the sum, not of the mean: clusters of any size have one sum each.
    error = float(np.sqrt(((all_sums - all_sums.mean()) ** 2).sum() * n / (n - 1)))
    p = float(2 * stdtr(n - 1, -abs(float(all_sums.sum())) / error))
    return PValue(p, f"Student's t test for pairs ({what})")


def _count_extreme_draws(sums: Floats, observed: float) -> int:
    """Return how many drawn choices of signs have a sum that is at least as far from zero as `observed`."""
    random = np.random.default_rng(SEED)
    extreme = 0
    # In blocks: all draws at once of 2,000 differences would take 160 MB.
    for start in range(0, DRAWS, 500):
        size = min(500, DRAWS - start)
        signs = random.integers(0, 2, size=(size, sums.size), dtype=np.int8) * 2.0 - 1.0
        extreme += int((np.abs(signs @ sums) >= observed).sum())
    return extreme


def _cluster_sums(differences: Floats, clusters: Integers | None) -> Floats:
    """Return the sum of each cluster; without clusters every question is one."""
    if clusters is None:
        return differences
    # Gains and losses that cancel are no difference, though their floating-point sum may be one.
    return without_rounding(
        sum_clusters(differences, clusters).sums, sum_clusters(np.abs(differences), clusters).sums
    )


def mean_difference(differences: Floats) -> float:
    """Return the mean, 0 where gains and losses cancel but for rounding."""
    return float(
        without_rounding(differences.mean(keepdims=True), np.abs(differences).mean(keepdims=True))[0]
    )


def share_p_value(
    right: Integers,
    answer_counts: Integers,
    other_right: Integers,
    other_asked: Integers,
    clusters: Integers | None = None,
) -> PValue:
    """Return the two-sided exact permutation test, which exchanges the systems' answers question by question.

    Where each question is wholly right or wrong on both sides this is McNemar's exact test (1947). Otherwise it is
    Fisher's randomisation test for pairs: the distribution of the sum of `±difference` over all choices of signs, in
    whole units of one answer, without random numbers. With clusters, the sum of a cluster changes its sign as a whole.
    """
    # Python's integers: numpy's wrap around without a word, as where 1 to 50 answers to a question count.
    unit = math.lcm(*np.unique(np.concatenate([answer_counts, other_asked])).tolist())
    if unit > MOST_UNIT // max(1, right.size):
        return p_value(right / answer_counts - other_right / other_asked, clusters)
    steps = right * (unit // answer_counts) - other_right * (unit // other_asked)
    if clusters is not None:
        steps = _cluster_sums(steps.astype(np.float64), clusters).astype(np.int64)
    sizes, counts = np.unique(np.abs(steps[steps != 0]), return_counts=True)
    if sizes.size == 0:
        return PValue(1.0, "exact: the systems do not differ on any question")
    observed = abs(int(steps.sum()))
    exact = (
        "McNemar's exact test"
        if clusters is None and np.array_equal(sizes, [unit])
        else "exact sign-flip permutation test"
    )
    if int((sizes * counts).sum()) > MOST_SUMS:
        from scipy.special import ndtr

        z = observed / float(np.sqrt((counts * sizes.astype(np.float64) ** 2).sum()))
        return PValue(float(2 * ndtr(-z)), "sign-flip permutation test, normal approximation")
    differ = differing(int(counts.sum()), clusters is not None)
    return PValue(_exact_p(sizes, counts, observed), f"{exact} ({differ})")


def differing(number: int, clustered: bool = False) -> str:
    """Return `1 question differs`, `94 questions differ`."""
    noun = "cluster" if clustered else "question"
    return f"{count_noun(number, noun)} {'differs' if number == 1 else 'differ'}"


def _exact_p(sizes: Integers, counts: Integers, observed: int) -> float:
    """Return P(|sum of signs times sizes| >= observed).

    The sum for one size has a binomial distribution; the distributions of several sizes are convolved.
    """
    shared = int(np.gcd.reduce(sizes))
    weights = np.ones(1)
    for size, count in zip(sizes // shared, counts, strict=True):
        distribution = np.zeros(2 * size * count + 1)
        distribution[:: 2 * size] = _coin_distribution(int(count))
        weights = _convolve(weights, distribution) if weights.size > 1 else distribution
    sums = np.arange(weights.size) - weights.size // 2
    return float(min(1.0, weights[np.abs(sums) >= observed // shared].sum()))


def _coin_distribution(count: int) -> Floats:
    """Return the binomial distribution of `count` fair coins, by logarithms: 2**count may be too large a number."""
    from scipy.special import gammaln

    k = np.arange(count + 1)
    logs = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1) - count * np.log(2)
    return np.asarray(np.exp(logs), dtype=np.float64)


def _convolve(a: Floats, b: Floats) -> Floats:
    size = a.size + b.size - 1
    # Directly, the convolution of two distributions with a million sums would take hours.
    spectrum = np.fft.rfft(a, size) * np.fft.rfft(b, size)
    # Rounding of the transform leaves tiny negative probabilities.
    return np.clip(np.fft.irfft(spectrum, size), 0.0, None)
