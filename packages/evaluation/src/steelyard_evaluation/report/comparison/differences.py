"""The paired difference of two systems with an interval and a p value that never contradict each other.

`comparison.reports` calls `estimate_difference` with one number per question. The interval leaves out 0 exactly where
the p value is below 0.05.
"""

from dataclasses import dataclass, replace

import numpy as np

from steelyard_evaluation.report.comparison.statistics import (
    NoTest,
    PValue,
    differing,
    mean_difference,
    p_value,
    score_difference,
    share_difference,
    share_p_value,
)
from steelyard_evaluation.report.statistics.agreement import make_consistent
from steelyard_evaluation.report.statistics.bounded import estimate_bounded_mean
from steelyard_evaluation.report.statistics.clusters import Floats, Integers, sum_clusters
from steelyard_evaluation.report.statistics.intervals import NO_SCALE, Estimate
from steelyard_evaluation.report.wording import count_noun


@dataclass(frozen=True)
class Shares:
    """Right answers and all answers to each question, of one system."""

    right: Integers
    answers: Integers


def estimate_difference(
    steps: Floats, clusters: Integers | None, width: float | None, shares: tuple[Shares, Shares] | None = None
) -> tuple[Estimate, PValue | NoTest]:
    """Return the mean of `steps`, the differences of all questions, and its test.

    `width` is that of the scale of the scores, None without a scale; `shares` are the system's and the baseline's
    where answers are right or wrong.

    Questions that each system answered wholly right or wrong: Bonett and Price, and McNemar's exact test. Other
    independent questions: Gaffke's, which does not take it that gains and losses are distributed alike. Clusters:
    jackknife, and the sign-flip test. Where interval and test come from two methods, the more careful one decides (see
    `agreed`).
    """
    if width is None:
        return _estimate_unscaled(steps)
    if clusters is not None:
        return _estimate_clustered(steps, clusters, width, shares)
    if shares is not None and np.isin(steps, (-1.0, 0.0, 1.0)).all():
        estimate = share_difference(steps)
        system, baseline = shares
        exact = share_p_value(system.right, system.answers, baseline.right, baseline.answers)
        low, high, p = make_consistent(estimate, exact.p, exact=True)
        return replace(estimate, low=low, high=high), replace(exact, p=p)
    return _estimate_bounded(steps, width)


def _estimate_unscaled(steps: Floats) -> tuple[Estimate, PValue | NoTest]:
    estimate = Estimate(mean_difference(steps), None, None, f"no interval: {NO_SCALE}", int(steps.size))
    if not steps.any():
        return estimate, PValue(1.0, "exact: the systems do not differ on any question")
    return estimate, NoTest(f"no test: {NO_SCALE}")


def _estimate_bounded(steps: Floats, width: float) -> tuple[Estimate, PValue]:
    n = int(steps.size)
    differ = int(np.count_nonzero(steps))
    mean = estimate_bounded_mean(steps, -width, width)
    value = mean_difference(steps)
    method = f"Gaffke (2005), paired by question ({count_noun(n, 'question')})"
    error = sum_clusters(steps, np.arange(n)).error
    estimate = Estimate(value, min(value, mean.low), max(value, mean.high), method, n, error)
    if not differ:
        return estimate, PValue(1.0, "exact: the systems do not differ on any question")
    return estimate, PValue(mean.p, f"Gaffke's test of a mean on a scale ({differing(differ)})")


def _estimate_clustered(
    steps: Floats, clusters: Integers, width: float, shares: tuple[Shares, Shares] | None
) -> tuple[Estimate, PValue]:
    if shares is not None:
        estimate = share_difference(steps, clusters)
        system, baseline = shares
        test = share_p_value(system.right, system.answers, baseline.right, baseline.answers, clusters)
    else:
        estimate, test = score_difference(steps, clusters, width), p_value(steps, clusters)
    low, high, p = make_consistent(estimate, test.p, sum_clusters(steps, clusters).freedom)
    return replace(estimate, low=low, high=high), replace(test, p=p)
