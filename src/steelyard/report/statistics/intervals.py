"""Confidence intervals of 95 % for proportions, means and whatever has a standard error.

Answers to the same question (replications of one `_index_`) are not independent, so every function here takes
the cluster of each value. Rubrics call it; the quantiles are scipy's, the formulas are checked against scipy
and scikit-learn in the tests, and tests/coverage simulates how often each interval holds the truth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from steelyard.report.statistics.clusters import TAIL, Floats, Integers, Sums, student, sums_of

__all__ = [
    "TAIL",
    "Estimate",
    "Floats",
    "Integers",
    "Scale",
    "clusters_of",
    "codes_of",
    "effective_size",
    "exact",
]
__all__ += ["holm", "mean", "of_error", "proportion", "share_interval", "wilson"]

Scale: TypeAlias = tuple[float, float]
"""The least and the greatest score that there can be."""

FEW_HITS = 15
"""Fewest hits and misses for Wilson's interval; a share of fewer has the exact one."""
FEW_CLUSTERS = 5
"""Fewest clusters' worth of hits and misses; with fewer each cluster counts as one value."""
FEWEST_UNSCALED = 50
"""Values that a mean needs for an interval where nobody says between which ends they lie."""
FEWEST_UNLIKE = 10
"""Values that must differ from the most frequent one, of those."""


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and 95 % interval, how the interval was made, and from how many values.

    No interval: low and high are None.
    """

    value: float | None
    low: float | None
    high: float | None
    method: str
    n: int
    error: float | None = None


def clusters_of(scores: pa.Table) -> Integers:
    """Return the cluster of each row: its `_cluster_` where rows were clustered by a column, else its
    question.
    """
    name = "_cluster_" if "_cluster_" in scores.column_names else "_index_"
    return np.asarray(pc.cast(scores[name], pa.int64()).to_numpy(), dtype=np.int64)


def codes_of(column: Any) -> tuple[Integers, list[str]]:
    """A column of texts as numbers, -1 where there is none, and the texts that they stand for."""
    encoded = column.combine_chunks().dictionary_encode()
    numbers = pc.fill_null(pc.cast(encoded.indices, pa.int64()), -1).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.int64), encoded.dictionary.to_pylist()


def wilson(share: float, n: float) -> tuple[float, float]:
    """The Wilson score interval of a share seen in `n` trials; `n` may be an effective, fractional size."""
    z = float(ndtri(TAIL))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def exact(share: float, n: float) -> tuple[float, float]:
    """The exact interval of Clopper and Pearson (1934, Biometrika 26:404-413) of a share seen in `n` trials.

    Of a fractional, effective size it is the interval of Korn and Graubard (1998, Survey Methodology 24:193-201).
    """
    hits, misses = share * n, (1 - share) * n
    low = float(betaincinv(hits, misses + 1, 1 - TAIL)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, misses, TAIL)) if misses > 0 else 1.0
    return low, high


def share_interval(share: float, n: float) -> tuple[float, float, str]:
    """The interval of a share seen in `n` trials, and its name: Wilson's, or the exact one of few hits or misses.

    Wilson's holds the truth in as few as 84 of 100 evaluations near 0 and 1; with the rule it is 93 at least.
    """
    if round(min(share, 1 - share) * n, 6) < FEW_HITS:
        return *exact(share, n), "Clopper and Pearson, exact"
    return *wilson(share, n), "Wilson score"


def proportion(hits: NDArray[np.bool_], clusters: Integers) -> Estimate:
    """The share of hits: `share_interval`, where rows hang together with the effective size that their jackknife error
    implies, so that repeating the same answers narrows nothing.

    Of few clusters the effective size is less by what Korn and Graubard (1998) take off for an error known badly.
    """
    n = int(hits.size)
    if n == 0:
        return Estimate(None, None, None, "no rows", 0)
    share = float(hits.mean())
    sums = sums_of(hits.astype(np.float64), clusters)
    if sums.count == n:
        low, high, name = share_interval(share, n)
        return Estimate(share, low, high, name, n, float(np.sqrt(share * (1 - share) / n)))
    error = sums.error
    effective = effective_size(share, error, sums)
    low, high, name = share_interval(share, effective)
    method = f"{name}, clustered ({sums.count:,} clusters, effective size {effective:,.1f})"
    return Estimate(share, low, high, method, n, error)


def of_error(value: float, error: float, sums: Sums, most: float = inf) -> tuple[float, float, str]:
    """The interval of a number between 0 and 1 by its standard error: that of a share that would be as sure; and how it
    was made.

    Near 0 and 1, where an error seen is often too small, this is wider on the side where there is room. `most` is the
    greatest effective size that the data can stand for.
    """
    size = min(most, effective_size(value, error, sums))
    low, high, name = share_interval(min(1.0, max(0.0, value)), size)
    return (
        min(low, value),
        max(high, value),
        f"{name} of the effective size {size:,.1f} that the error implies",
    )


def mean(values: Floats, clusters: Integers, scale: Scale | None = None) -> Estimate:
    """The mean with Student's interval, from the jackknife error over clusters where rows hang together.

    One cluster more at either end keeps the interval from trusting a spread that few values have shown: that of
    Agresti and Coull (1998, The American Statistician 52:119-126) carried over to scores between the ends of `scale`.
    Without a scale the ends are the least and the greatest value seen, which is worth less: few values, or values
    nearly all alike, have no interval. Scores that lie on the ends alone are a share.
    """
    n = int(values.size)
    if n == 0:
        return Estimate(None, None, None, "no rows", 0)
    centre = float(values.mean())
    if scale is not None and not scale[0] <= values.min() <= values.max() <= scale[1]:
        scale = None
    if scale is not None and np.isin(values, scale).all():
        return _scaled(proportion(values == scale[1], clusters), centre, scale)
    sums = sums_of(values, clusters)
    if sums.count < 2:
        return Estimate(centre, None, None, "no interval: one cluster", n)
    if scale is None and (because := _unknown_spread(sums)):
        return Estimate(centre, None, None, because, n, sums.error)
    low, high = scale or (float(values.min()), float(values.max()))
    wider = sums.plus(sums.typical, low, high)
    half = student(sums.freedom) * wider.error
    low, high = min(centre, wider.mean - half), max(centre, wider.mean + half)
    if scale is not None:
        low, high = max(scale[0], low), min(scale[1], high)
    what = "values" if sums.count == n else "clusters"
    method = f"Student t, jackknife, {sums.count:,} {what} and one more at either end"
    return Estimate(centre, low, high, method, n, sums.error)


def _scaled(share: Estimate, centre: float, scale: Scale) -> Estimate:
    """The mean of scores that are all at one end of the scale or the other, by the share of those at the upper end."""
    width = scale[1] - scale[0]
    if share.low is None or share.high is None or share.error is None:
        return replace(share, value=centre)
    low, high = scale[0] + width * share.low, scale[0] + width * share.high
    return replace(share, value=centre, low=low, high=high, error=width * share.error)


def _unknown_spread(sums: Sums) -> str:
    """Why a mean of values without a scale has no interval, where it has none."""
    if sums.count < FEWEST_UNSCALED:
        return (
            f"no interval: {sums.count:,} values are too few without a scale ({FEWEST_UNSCALED} are needed)"
        )
    _, counts = np.unique(sums.sums / sums.sizes, return_counts=True)
    others = sums.count - int(counts.max())
    if others < FEWEST_UNLIKE:
        return f"no interval: only {others:,} values differ from the rest ({FEWEST_UNLIKE} are needed)"
    return ""


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for being several (Holm 1979): the chance of any false alarm stays below each."""
    order = sorted(range(len(ps)), key=lambda place: ps[place])
    corrected = [0.0] * len(ps)
    least = 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = least
    return corrected


def effective_size(share: float, error: float, sums: Sums) -> float:
    """Return the number of independent values that would give the same standard error.

    Where all are right or wrong, or so few that clusters of the rarer kind may not have been seen at all, a cluster
    counts as one value: the smaller spread that was seen may be luck.
    """
    if error == 0 or share in (0.0, 1.0):
        return sums.equivalent
    known = float(ndtri(TAIL)) / student(sums.freedom)
    size = min(float(sums.sizes.sum()), share * (1 - share) / error**2) * known**2
    rare = min(share, 1 - share) * sums.equivalent < FEW_CLUSTERS
    return min(size, sums.equivalent) if rare else size
