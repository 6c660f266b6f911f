"""How sure a number is: 95 % intervals for proportions, means and anything that a bootstrap can resample.

Answers to the same question (replications of one `_index_`) are not independent, so every function here takes
the cluster of each value. Rubrics call it; the quantiles are scipy's, the formulas are checked against scipy
and scikit-learn in the tests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri, stdtrit

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

LEVEL = 0.95
TAIL = (1 + LEVEL) / 2
MOST_UNITS = 10_000  # more clusters than this are resampled in random groups: same interval, bounded work


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
    """Which rows of the scores hang together: those of one `_cluster_` where rows were clustered by a column, else
    the answers to one question.
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


def proportion(hits: NDArray[np.bool_], clusters: Integers) -> Estimate:
    """The share of hits.

    Wilson's interval where every cluster has one value. Otherwise Wilson's with the effective sample size
    that the clustered standard error implies (Franco, Little, Louis and Slud 2019), less what Korn and Graubard
    (1998) take off because few clusters know their own spread badly: repeating the same answers narrows
    nothing, and the interval never leaves [0, 1].
    """
    n = int(hits.size)
    if n == 0:
        return Estimate(None, None, None, "no rows", 0)
    share = float(hits.mean())
    codes, count = _codes(clusters)
    if count == n:
        return Estimate(share, *wilson(share, n), "Wilson score", n, float(np.sqrt(share * (1 - share) / n)))
    error = _error_of_mean(hits.astype(np.float64), codes, count)
    effective = _effective_size(share, error, n, count)
    method = f"Wilson score, clustered ({count:,} clusters, effective size {effective:,.1f})"
    return Estimate(share, *wilson(share, effective), method, n, error)


def mean(values: Floats, clusters: Integers) -> Estimate:
    """The mean with Student's interval from the clustered standard error (plain where clusters hold one value)."""
    n = int(values.size)
    if n == 0:
        return Estimate(None, None, None, "no rows", 0)
    centre = float(values.mean())
    codes, count = _codes(clusters)
    if count < 2:
        return Estimate(centre, None, None, "one cluster: no interval", n)
    error = _error_of_mean(values, codes, count)
    half = float(stdtrit(count - 1, TAIL)) * error
    clustered = f", clustered standard error ({count:,} clusters)" if count < n else ""
    return Estimate(centre, centre - half, centre + half, "Student t" + clustered, n, error)


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for being several (Holm 1979): the chance of any false alarm stays below each."""
    order = sorted(range(len(ps)), key=lambda place: ps[place])
    corrected = [0.0] * len(ps)
    least = 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = least
    return corrected


def clustered_error(values: Floats, codes: Integers, count: int) -> float:
    """The standard error of the mean when values of one cluster move together.

    Residuals are summed within clusters first.
    """
    residuals = np.bincount(codes, weights=values - values.mean(), minlength=count)
    return float(np.sqrt(np.sum(residuals**2)) / values.size)


@dataclass(frozen=True)
class Resampled:
    """Percentile intervals of several numbers, and their standard deviations over the resamples."""

    low: Floats
    high: Floats
    error: Floats


def bootstrap(
    sums: Any, statistic: Callable[[Floats], Floats], *, seed: int, resamples: int
) -> tuple[Floats, Floats]:
    """The intervals of `resampled` alone."""
    found = resampled(sums, statistic, seed=seed, resamples=resamples)
    return found.low, found.high


def resampled(sums: Any, statistic: Callable[[Floats], Floats], *, seed: int, resamples: int) -> Resampled:
    """Percentile intervals and standard errors of `statistic`, a function of column sums, over resampled rows of
    `sums` (one row per cluster).

    `statistic` maps (resamples, columns) to (resamples, numbers). A number that is undefined in a resample
    (nan) leaves that resample out.
    """
    chance = np.random.default_rng(seed)
    units = _in_groups(csr_array(sums), chance)
    rows = units.shape[0]
    drawn = np.empty((resamples, units.shape[1]))
    columns = units.T.tocsr()
    for start in range(0, resamples, 100):  # in slices: 100 weights of each unit at a time
        size = min(100, resamples - start)
        picks = chance.integers(0, rows, size=(size, rows))
        weights = np.stack([np.bincount(pick, minlength=rows) for pick in picks], axis=1)
        drawn[start : start + size] = (columns @ weights.astype(np.float64)).T
    numbers = statistic(drawn)
    return Resampled(*_percentiles(numbers), _deviations(numbers))


def _deviations(numbers: Floats) -> Floats:
    known = np.isfinite(numbers).sum(axis=0) > 1
    errors = np.full(numbers.shape[1], np.nan)
    errors[known] = np.nanstd(numbers[:, known], axis=0, ddof=1)
    return errors


def _percentiles(numbers: Floats) -> tuple[Floats, Floats]:
    defined = np.isfinite(numbers).any(axis=0)
    low = np.full(numbers.shape[1], np.nan)
    high = np.full(numbers.shape[1], np.nan)
    low[defined] = np.nanpercentile(numbers[:, defined], 100 * (1 - TAIL), axis=0)
    high[defined] = np.nanpercentile(numbers[:, defined], 100 * TAIL, axis=0)
    return low, high


def _in_groups(sums: Any, chance: np.random.Generator) -> Any:
    rows = sums.shape[0]
    if rows <= MOST_UNITS:
        return sums
    group = chance.permutation(rows) % MOST_UNITS
    gather = csr_array((np.ones(rows), (group, np.arange(rows))), shape=(MOST_UNITS, rows))
    return gather @ sums


def _error_of_mean(values: Floats, codes: Integers, count: int) -> float:
    """Unbiased where clusters are equally large, as the sample's standard deviation is."""
    return clustered_error(values, codes, count) * float(np.sqrt(count / (count - 1))) if count > 1 else 0.0


def _effective_size(share: float, error: float, n: int, count: int) -> float:
    """How many independent values would be as sure as these.

    Of clusters that say nothing of their spread (all right, all wrong, or one alone) each counts as one value.
    """
    if error == 0 or share in (0.0, 1.0):
        return float(count)
    known = float(ndtri(TAIL) / stdtrit(count - 1, TAIL)) ** 2
    return min(float(n), share * (1 - share) / error**2) * known


def _codes(clusters: Integers) -> tuple[Integers, int]:
    unique, codes = np.unique(clusters, return_inverse=True)
    return codes.astype(np.int64), int(unique.size)
