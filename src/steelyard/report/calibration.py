"""Do answers given with 80 % certainty come true 8 times in 10? Expected calibration error, reliability bins
and the Brier score.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.report.statistics import Estimate, Floats, Integers, mean, proportion, resampled


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
    error: Estimate
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


def calibration(stated: Stated, *, bins: int, seed: int, resamples: int) -> Calibration:
    """ECE over equally wide bins of the certainty of the answer given (Guo et al.

    2017); Brier's score summed over classes (0 to 2).
    """
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, stated.confidence, side="left") - 1, 0, bins - 1)
    rows = tuple(_bin(stated, place == k, edges[k : k + 2]) for k in range(bins))
    unique, codes = np.unique(stated.clusters, return_inverse=True)
    sums = np.zeros((unique.size, bins + 1))
    np.add.at(sums, (codes, place), stated.correct - stated.confidence)
    np.add.at(sums, (codes, np.full_like(codes, bins)), 1)
    found = resampled(sums, _ece, seed=seed, resamples=resamples)
    method = f"bootstrap of {unique.size:,} clusters, {resamples:,} resamples, seed {seed}"
    value = float(_ece(sums.sum(axis=0, keepdims=True))[0, 0])
    # Resampling can only add gaps, so the percentiles lie a little high: widened where they would leave out
    # the estimate.
    low, high = min(value, float(found.low[0])), max(value, float(found.high[0]))
    error = Estimate(value, low, high, method, int(stated.correct.size), float(found.error[0]))
    return Calibration(error, mean(stated.brier, stated.clusters), rows, int(stated.correct.size))


def _ece(sums: Floats) -> Floats:
    gaps: Floats = np.abs(sums[:, :-1]).sum(axis=1, keepdims=True) / sums[:, -1:]
    return gaps


def _bin(stated: Stated, inside: NDArray[np.bool_], edges: Floats) -> Bin:
    count = int(inside.sum())
    return Bin(
        low=float(edges[0]),
        high=float(edges[1]),
        count=count,
        confidence=float(stated.confidence[inside].mean()) if count else None,
        accuracy=proportion(stated.correct[inside], stated.clusters[inside]),
    )
