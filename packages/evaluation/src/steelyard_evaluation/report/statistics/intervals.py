"""Confidence intervals of 95 % for proportions, means and other numbers that have a standard error.

Answers to the same question (replications of one `_index_`) are not independent, so every function here takes
the cluster of each value. Rubrics call these functions. The quantiles are scipy's; the tests check the formulas
against scipy and scikit-learn, and tests/coverage simulates how often each interval holds the true value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard_evaluation.report.statistics.clusters import (
    TAIL,
    Z_TAIL,
    Floats,
    Integers,
    Sums,
    student_method,
    student_quantile,
    sum_clusters,
)

__all__ = [
    "NO_SCALE",
    "TAIL",
    "Estimate",
    "Floats",
    "Integers",
    "Scale",
    "clopper_pearson",
    "effective_size",
    "encode_texts",
    "holm",
    "interval_from_error",
    "mean",
    "proportion",
    "row_clusters",
    "share_interval",
    "too_rare",
    "wilson",
]

Scale: TypeAlias = tuple[float, float]
"""The least and the greatest score that there can be."""

FEW_HITS = 15
"""Fewest hits, and fewest misses, for Wilson's interval; with fewer the exact interval is used."""
FEW_CLUSTERS = 5
"""Fewest hits, and fewest misses, counted in clusters; with fewer a cluster counts as one value."""
FEW_UNEQUAL_CLUSTERS = 15
"""The same where a few clusters have most of the rows: 92 of 100 intervals held the true value with 11 such hits."""
NO_SCALE = "scores without a scale may have rare large values that no sample shows"
"""The reason for neither interval nor test of means without a scale: no interval holds them (Bahadur and Savage 1956,
Annals of Mathematical Statistics 27:1115-1122).
"""


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and 95 % interval, the method of the interval, and the number of values.

    `low` and `high` are None without an interval; `method` then says why.
    """

    value: float | None
    low: float | None
    high: float | None
    method: str
    n: int
    error: float | None = None


def row_clusters(scores: pa.Table) -> Integers:
    """Return the cluster of each row: its `_cluster_` if rows were clustered by a column, else its question."""
    name = "_cluster_" if "_cluster_" in scores.column_names else "_index_"
    return np.asarray(pc.cast(scores[name], pa.int64()).to_numpy(), dtype=np.int64)


def encode_texts(column: Any) -> tuple[Integers, list[str]]:
    """Return a column of texts as positions in the list of its distinct texts, -1 for null, and that list."""
    encoded = column.combine_chunks().dictionary_encode()
    numbers = pc.fill_null(pc.cast(encoded.indices, pa.int64()), -1).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.int64), encoded.dictionary.to_pylist()


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return the Wilson score interval of a share observed in `n` trials; `n` may be a fractional effective size."""
    z = Z_TAIL
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    # Rounding would leave a bound of 1e-17 where the formula gives 0.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def clopper_pearson(share: float, n: float) -> tuple[float, float]:
    """Return the exact interval of Clopper and Pearson (1934, Biometrika 26:404-413) of a share observed in `n` trials.

    With a fractional effective size it is the interval of Korn and Graubard (1998, Survey Methodology 24:193-201).
    """
    from scipy.special import betaincinv

    hits, misses = share * n, (1 - share) * n
    low = float(betaincinv(hits, misses + 1, 1 - TAIL)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, misses, TAIL)) if misses > 0 else 1.0
    return low, high


def share_interval(share: float, n: float) -> tuple[float, float, str]:
    """Return the interval of a share observed in `n` trials, and its name: Wilson's, or the exact one.

    Near 0 and 1 Wilson's interval alone holds the true value in as few as 84 of 100 evaluations; with the exact
    interval for few hits or misses it is at least 93.
    """
    # Rounded, because a share times its size may be 14.999999 where 15 hits were counted.
    if round(min(share, 1 - share) * n, 6) < FEW_HITS:
        return *clopper_pearson(share, n), "Clopper-Pearson interval (exact)"
    return *wilson(share, n), "Wilson score interval"


def proportion(hits: NDArray[np.bool_], clusters: Integers) -> Estimate:
    """Return the share of hits with its `share_interval`.

    With clusters, the interval is that of the effective size that the jackknife error implies, so that repeating the
    same answers narrows nothing. With few clusters the effective size is reduced as Korn and Graubard (1998) do,
    because the error itself is not known well.
    """
    n = int(hits.size)
    if n == 0:
        return Estimate(None, None, None, "no rows", 0)
    share = float(hits.mean())
    sums = sum_clusters(hits.astype(np.float64), clusters)
    if sums.count == n:
        low, high, name = share_interval(share, n)
        return Estimate(share, low, high, name, n, float(np.sqrt(share * (1 - share) / n)))
    error = sums.error
    effective = effective_size(share, error, sums)
    low, high, name = share_interval(share, effective)
    method = f"{name}, cluster jackknife ({sums.count:,} clusters, effective sample size {effective:,.1f})"
    return Estimate(share, low, high, method, n, error)


def interval_from_error(
    value: float, error: float, sums: Sums, most: float = inf
) -> tuple[float, float, str]:
    """Return the interval of a number between 0 and 1 from its standard error, and the method.

    It is the interval of a share with the same standard error. Near 0 and 1, where the observed error is often too
    small, it is wider on the side where there is room. `most` limits the effective size.
    """
    size = min(most, effective_size(value, error, sums))
    low, high, name = share_interval(min(1.0, max(0.0, value)), size)
    return (
        min(low, value),
        max(high, value),
        f"{name} at effective sample size {size:,.1f}, from the jackknife standard error",
    )


def mean(values: Floats, clusters: Integers, scale: Scale | None = None) -> Estimate:
    """Return the mean with Student's interval, from the jackknife error over clusters.

    One more cluster is added at each end of `scale`, so that the interval does not trust the spread of few values: the
    rule of Agresti and Coull (1998, The American Statistician 52:119-126), applied to scores on a scale.
    Without a scale there is no interval (`NO_SCALE`). If all scores lie on the ends of the scale, they are a share.
    """
    n = int(values.size)
    if n == 0:
        return Estimate(None, None, None, "no rows", 0)
    centre = float(values.mean())
    # A rubric's own claim of a scale that its scores leave is not believed.
    if scale is not None and not scale[0] <= values.min() <= values.max() <= scale[1]:
        scale = None
    if scale is not None and np.isin(values, scale).all():
        share = proportion(values == scale[1], clusters)
        if share.low is None or share.high is None or share.error is None:
            return replace(share, value=centre)
        width = scale[1] - scale[0]
        low, high = scale[0] + width * share.low, scale[0] + width * share.high
        return replace(share, value=centre, low=low, high=high, error=width * share.error)
    sums = sum_clusters(values, clusters)
    if sums.count < 2:
        return Estimate(centre, None, None, "no interval: one cluster", n)
    if scale is None:
        return Estimate(centre, None, None, f"no interval: {NO_SCALE}", n, sums.error)
    wider = sums.plus(sums.typical, *scale)
    half = student_quantile(sums.freedom) * wider.error
    low, high = min(centre, wider.mean - half), max(centre, wider.mean + half)
    method = student_method(sums, n, "at each end of the scale")
    return Estimate(centre, max(scale[0], low), min(scale[1], high), method, n, sums.error)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for multiple tests (Holm 1979), in the given order.

    None, where there was no test, stays None: it would make the correction stricter than it has to be.
    """
    tested = [(p, position) for position, p in enumerate(ps) if p is not None]
    corrected: list[float | None] = [None] * len(ps)
    least = 0.0
    for rank, (p, position) in enumerate(sorted(tested)):
        # Holm's p values never fall along the order, else a larger p could be significant and a smaller one
        # not.
        least = max(least, min(1.0, (len(tested) - rank) * p))
        corrected[position] = least
    return corrected


def effective_size(share: float, error: float, sums: Sums) -> float:
    """Return the number of independent values that would give the same standard error.

    A cluster counts as one value at most where all values are equal, or where the rarer value fills fewer than
    `FEW_CLUSTERS` clusters (more, if they are very unequal): the small spread within clusters may then be luck.
    """
    # No error was seen, which does not mean that there is none: each cluster counts as one value.
    if error == 0 or share in (0.0, 1.0):
        return sums.equivalent
    # The intervals of shares use the normal quantile: the size is made smaller by what Student's would be
    # wider.
    known = Z_TAIL / student_quantile(sums.freedom)
    size = min(float(sums.sizes.sum()), share * (1 - share) / error**2) * known**2
    return min(size, sums.equivalent) if too_rare(share, sums) else size


def too_rare(share: float, sums: Sums) -> bool:
    """Return whether hits, or misses, fill so few clusters that the spread within and between them may be luck."""
    few = FEW_UNEQUAL_CLUSTERS if sums.equivalent < sums.count / 2 else FEW_CLUSTERS
    return min(share, 1 - share) * sums.equivalent < few
