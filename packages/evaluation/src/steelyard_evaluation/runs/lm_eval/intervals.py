"""Intervals of lm-eval's numbers: from the documents' own numbers where these are known, else by its standard error.

`results` calls these. lm-eval's error is trusted only where tests/coverage shows that its interval holds the true
value: for BLEU, chrF and TER of many independent documents. A perplexity has no interval: it is a mean without a scale,
and a few documents that are very unlikely may be missing from a sample.
"""

from collections.abc import Sequence

import numpy as np

from steelyard_evaluation.report.statistics.clusters import (
    Floats,
    Integers,
    Sums,
    student_quantile,
    sum_clusters,
)
from steelyard_evaluation.report.statistics.intervals import Estimate, interval_from_error

FEWEST_OF_CORPUS = 1000
"""Fewest documents for that of a number of the corpus: lm-eval's 100 draws do not estimate its error well."""
CORPUS = ("bleu", "chrf", "chrf++", "ter")
"""Metrics whose standard error lm-eval finds by drawing the documents again 100 times."""


def mean_of_tasks(values: Sequence[Floats], clusters: Sequence[Integers]) -> Estimate:
    """Return the mean of several tasks' shares, each task counting the same however many documents it has.

    A document weighs as much as its task has fewer documents. The interval is that of a share with the jackknife error
    of the weighted mean, and the effective size of Kish (1965, Survey Sampling) for these weights.
    """
    n = sum(map(len, values))
    weights = np.concatenate([np.full(len(task), n / len(values) / len(task)) for task in values])
    numbers, units = np.concatenate(values), np.concatenate(clusters)
    sums = Sums(sum_clusters(numbers * weights, units).sums, sum_clusters(weights, units).sums)
    low, high, method = interval_from_error(sums.mean, sums.error, sums)
    return Estimate(sums.mean, low, high, f"mean of {len(values):,} tasks; {method}", n, sums.error)


def by_standard_error(metric: str, value: float, error: float | None, clusters: Integers) -> Estimate:
    """Return a number of all documents together with the interval by lm-eval's standard error, or why there is none."""
    n, independent = int(clusters.size), int(np.unique(clusters).size)
    if metric not in CORPUS:
        reason = f"no interval: that of lm-eval's standard error of {metric} holds the true value too seldom"
        return Estimate(value, None, None, reason, n, error)
    if not error or not np.isfinite(error):
        return Estimate(value, None, None, "no interval: lm-eval reports no standard error", n)
    if independent < n:
        reason = "no interval: lm-eval's standard error knows nothing of clusters"
        return Estimate(value, None, None, reason, n, error)
    if n < FEWEST_OF_CORPUS:
        few = f"{n:,} documents are too few for lm-eval's standard error ({FEWEST_OF_CORPUS} are needed)"
        reason = f"no interval: {few}"
        return Estimate(value, None, None, reason, n, error)
    half = student_quantile(n - 1) * error
    return Estimate(value, max(0.0, value - half), value + half, "lm-eval's standard error", n, error)
