"""Do answers given with 80 % certainty come true 8 times in 10? Calibration error, bins and the Brier score."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.report.statistics.clusters import Sums, student, too_few
from steelyard.report.statistics.intervals import Estimate, Floats, Integers, mean, proportion

FEWEST = 50
"""Independent answers that the calibration error needs for an interval."""


@dataclass(frozen=True)
class Bin:
    """Answers whose stated certainty lies in (low, high]; the first bin holds 0 too."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: Estimate


@dataclass(frozen=True)
class Calibration:
    """The distance between certainty and truth."""

    error: Estimate
    """Root mean square gap over the bins, without what chance adds."""
    plug_in: float
    """Expected calibration error as it is usually given (Guo et al. 2017): chance alone makes it greater than 0."""
    plug_in_of_chance: float
    """Expected `plug_in` of a perfectly calibrated system with as many answers, approximately."""
    brier: Estimate
    bins: tuple[Bin, ...]
    rows: int


@dataclass(frozen=True)
class Stated:
    """Answers that came with probabilities.

    That of the answer given, whether it was right, the row's Brier score, its `_index_`.
    """

    confidence: Floats
    correct: NDArray[np.bool_]
    brier: Floats
    clusters: Integers


def calibration(stated: Stated, *, bins: int) -> Calibration:
    """Calibration error over equally wide bins of the certainty of the answer given; Brier's score over all classes."""
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, stated.confidence, side="left") - 1, 0, bins - 1)
    rows = tuple(_bin(stated, place == k, edges[k : k + 2]) for k in range(bins))
    gaps = _gaps(stated, place, bins)
    return Calibration(
        error=_debiased(gaps, int(stated.correct.size)),
        plug_in=float(np.abs(gaps.gap).sum()),
        plug_in_of_chance=float(np.sqrt(2 / np.pi * np.diag(gaps.variance)).sum()),
        brier=mean(stated.brier, stated.clusters, (0.0, 2.0)),
        bins=rows,
        rows=int(stated.correct.size),
    )


@dataclass(frozen=True)
class _Gaps:
    """The gaps of the bins that have answers, each times its share of the answers."""

    gap: Floats
    share: Floats
    variance: Floats
    """Covariances of the gaps."""
    clusters: Sums


def _gaps(stated: Stated, place: Integers, bins: int) -> _Gaps:
    """Residuals are summed within clusters, and of each bin divided by √(1 − share of the cluster), which makes their
    squares unbiased (CR2 of Bell and McCaffrey 2002). A bin of one cluster says nothing of its spread: all of its gap
    may be chance.
    """
    unique, codes = np.unique(stated.clusters, return_inverse=True)
    cell = codes * bins + place
    shape, n = (unique.size, bins), stated.correct.size
    sums = np.bincount(cell, stated.correct - stated.confidence, unique.size * bins).reshape(shape)
    counts = np.bincount(cell, minlength=unique.size * bins).reshape(shape)
    sums, counts = sums[:, counts.any(axis=0)], counts[:, counts.any(axis=0)]
    total, alone = counts.sum(axis=0), (counts > 0).sum(axis=0) < 2
    rest = np.where(alone, 1.0, 1 - counts / total)
    residuals = (sums - counts * sums.sum(axis=0) / total) / np.sqrt(rest) / n
    gap = sums.sum(axis=0) / n
    variance = residuals.T @ residuals
    variance[alone, alone] = gap[alone] ** 2
    sizes = counts.sum(axis=1).astype(np.float64)
    return _Gaps(gap, total / n, variance, Sums(sizes, sizes))


def _debiased(gaps: _Gaps, n: int) -> Estimate:
    """The root of the mean squared gap less what chance adds to it: the debiased estimator of Kumar, Liang and Ma
    ("Verified Uncertainty Calibration", NeurIPS 2019), here with clusters.

    The squared number is unbiased and may fall below 0, which is shown as 0. Its interval is Student's, by the variance
    of a quadratic form of normal gaps; the part that the true gaps add is not made smaller by what chance adds to it,
    so that it is wide enough near 0.
    """
    weighted = gaps.variance / gaps.share[:, None]
    squared = float(((gaps.gap**2 - np.diag(gaps.variance)) / gaps.share).sum())
    slope = gaps.gap / gaps.share
    spread = 2 * float(np.trace(weighted @ weighted)) + 4 * float(slope @ gaps.variance @ slope)
    value = float(np.sqrt(max(0.0, squared)))
    if gaps.clusters.equivalent < FEWEST:
        return Estimate(value, None, None, f"no interval: {too_few(gaps.clusters, FEWEST)}", n)
    half = student(gaps.clusters.freedom) * float(np.sqrt(spread))
    low, high = (float(np.sqrt(min(1.0, max(0.0, bound)))) for bound in (squared - half, squared + half))
    return Estimate(value, low, high, "debiased (Kumar, Liang and Ma 2019), Student t of its square", n)


def _bin(stated: Stated, inside: NDArray[np.bool_], edges: Floats) -> Bin:
    count = int(inside.sum())
    return Bin(
        low=float(edges[0]),
        high=float(edges[1]),
        count=count,
        confidence=float(stated.confidence[inside].mean()) if count else None,
        accuracy=proportion(stated.correct[inside], stated.clusters[inside]),
    )
