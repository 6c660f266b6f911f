"""Clusters: sums of dependent rows, and the standard error of their mean.

Answers to one question are a cluster, and so are questions about one document. `intervals`, `groups` and
`comparison.statistics` make their intervals from these sums.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

LEVEL = 0.95
TAIL = (1 + LEVEL) / 2
Z_TAIL = 1.959963984540054
"""Quantile of the normal distribution at TAIL, as scipy gives it: written down, as scipy takes 0.25 s to import."""
ROUNDING = 1e-12
"""Part of a number's terms below which it is taken for rounding: what sums of floating-point numbers leave of 0."""


def without_rounding(differences: Floats, magnitudes: Floats) -> Floats:
    """Return the differences, 0 where they are no more than rounding of terms of these magnitudes.

    Sums and means of scores are compared as the fractions that they stand for: 0.1 asked once and three times is equal,
    and so are 0.1 + 0.2 and 0.3, though the floating-point sums differ.
    """
    return np.where(np.abs(differences) <= ROUNDING * magnitudes, 0.0, differences)


@dataclass(frozen=True)
class Sums:
    """The sum of the values in each cluster, and the number of values."""

    sums: Floats
    sizes: Floats

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self.sizes.size)

    @property
    def mean(self) -> float:
        """Mean of all values."""
        return float(self.sums.sum() / self.sizes.sum())

    @property
    def equivalent(self) -> float:
        """Effective number of clusters, were they all of one size: (Σm)² / Σm² (Kish 1965)."""
        return float(self.sizes.sum() ** 2 / (self.sizes**2).sum())

    @property
    def typical(self) -> float:
        """Mean size of a value's cluster: Σm² / Σm."""
        return float((self.sizes**2).sum() / self.sizes.sum())

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the error: less for few clusters, or clusters of very different sizes."""
        # Student's distribution needs more than 0; at a half the interval is as good as none.
        return max(self.equivalent - 1, 0.5)

    @cached_property
    def error(self) -> float:
        """Standard error of the mean by the jackknife over clusters (Efron 1982, CBMS 38).

        Bell and McCaffrey (2002, Survey Methodology 28:169-181) name it CR3: residuals of large clusters are small
        because these clusters pull the mean to themselves; dividing by 1 − m / Σm corrects that. For clusters of one
        size it is the usual clustered error.
        """
        if self.count < 2:
            return 0.0
        rest = 1 - self.sizes / self.sizes.sum()
        expected = self.mean * self.sizes
        # Clusters that are all alike have no error; that of rounding would be taken for a very small one.
        residuals = without_rounding(self.sums - expected, np.abs(self.sums) + np.abs(expected)) / rest
        scale = (self.count - 1) / self.count
        return float(np.sqrt(scale * (residuals**2).sum()) / self.sizes.sum())

    def plus(self, size: float, *values: float) -> "Sums":
        """Return these sums with one more cluster for each of `values`: `size` rows that all have the value."""
        more = np.full(len(values), size)
        return Sums(np.append(self.sums, more * values), np.append(self.sizes, more))


def sum_clusters(values: Floats, clusters: Integers) -> Sums:
    """Return the sums of the values by cluster."""
    unique, codes = np.unique(clusters, return_inverse=True)
    sums = np.bincount(codes, weights=values, minlength=unique.size).astype(np.float64)
    return Sums(sums, np.bincount(codes, minlength=unique.size).astype(np.float64))


def jackknife_error(parts: Floats, statistic: Callable[[Floats], Floats]) -> float:
    """Return the jackknife error of a statistic of column sums. `parts` has one row per cluster.

    `statistic` maps (many, columns) to one number per row; it gives NaN where it is undefined without a cluster.
    """
    count = parts.shape[0]
    if count < 2:
        return 0.0
    total = parts.sum(axis=0, keepdims=True)
    # In slices: a matrix of all clusters without one cluster each would be as large as `parts`, several times over.
    without = np.concatenate(
        [statistic(total - parts[start : start + 10_000]) for start in range(0, count, 10_000)]
    )
    steps = without - statistic(total)
    return float(np.sqrt((count - 1) / count * np.nansum(steps**2)))


def student_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's distribution with these degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, TAIL))


def student_method(sums: Sums, rows: int, ends: str) -> str:
    """Return the method of an interval by Student's t and the jackknife, with one cluster added at both `ends`."""
    if sums.count == rows:
        return f"Student's t, jackknife ({rows:,} values, and one added {ends})"
    return f"Student's t, cluster jackknife ({sums.count:,} clusters, and one added {ends})"


def too_few(sums: Sums, needed: int) -> str:
    """Return `12 independent answers are too few (30 are needed)`; a cluster counts as one answer."""
    plural = "s are" if round(sums.equivalent) != 1 else " is"
    return f"{sums.equivalent:,.0f} independent answer{plural} too few ({needed} are needed)"
