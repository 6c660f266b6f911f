"""Does the system give a class more probability where it is true? ROC and precision-recall curves of each class
against the rest, with the areas under them and how sure these are.

A class that an answer does not list was given 0. Answers without usable probabilities are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from steelyard.report.statistics.intervals import TAIL, Estimate, Floats, Integers, share_interval

MOST_CLASSES = 100
"""Classes above which a class against the rest says little, and the probabilities of all take much memory."""
MOST_POINTS = 200


@dataclass(frozen=True)
class Curve:
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Ranked:
    """One class against the rest. ROC: false positive share, true positive share; PR: recall, precision."""

    label: str
    positives: int
    roc_auc: Estimate
    pr_auc: Estimate
    roc: Curve
    pr: Curve


@dataclass(frozen=True)
class Ranking:
    """`roc_auc` and `pr_auc`: the means over the classes that are true for some rows and not for others."""

    classes: tuple[Ranked, ...]
    roc_auc: Estimate
    pr_auc: Estimate
    rows: int


def shares_of(column: "pa.ChunkedArray[Any]", labels: Sequence[str]) -> Floats:
    """A column of maps without nulls as a matrix: a row per answer, a column per label; others are dropped."""
    maps: Any = pa.concat_arrays(column.chunks)
    rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    places = pc.index_in(maps.keys, value_set=pa.array(labels, pa.string()))
    known = pc.is_valid(places).to_numpy(zero_copy_only=False)
    shares = np.zeros((len(maps), len(labels)))
    shares[rows[known], places.drop_null().to_numpy()] = maps.items.to_numpy()[known]
    return shares


def ranking(labels: Sequence[str], truth: Integers, shares: Floats, clusters: Integers) -> Ranking | None:
    """`truth` are places in `labels`, `shares` has a column per label; None where no class can be told from others."""
    _, codes = np.unique(clusters, return_inverse=True)
    places = [k for k in range(len(labels)) if 0 < np.count_nonzero(truth == k) < truth.size]
    if not places:
        return None
    sides = [_Sides(truth == k, shares[:, k], codes) for k in places]
    classes = tuple(_ranked(labels[k], side) for k, side in zip(places, sides, strict=True))
    least = min(side.least for side in sides)
    value = float(np.mean([side.area for side in sides]))
    error = float(np.sqrt(np.sum(np.mean([side.influence for side in sides], axis=0) ** 2)))
    method = f"mean over {len(classes)} classes, DeLong's error of all together, on the log-odds scale"
    return Ranking(
        classes, _bounded(value, error, least, method, truth.size), _mean_pr(classes, sides), int(truth.size)
    )


class _Sides:
    """The rows of a class and the others, by the probability that the class was given.

    `influence` is what each cluster adds to the error of the area (DeLong, DeLong and Clarke-Pearson 1988; for
    rows that share clusters Obuchowski 1997): the sum of its squares is the variance.
    """

    def __init__(self, true: NDArray[np.bool_], share: Floats, codes: Integers) -> None:
        self.true, self.share = true, share
        self.positives, self.negatives = int(true.sum()), int((~true).sum())
        size = int(codes.max()) + 1
        groups = np.unique(codes[true]).size, np.unique(codes[~true]).size
        self.least = min(groups)
        self.units = groups[0]
        from scipy.stats import rankdata  # 44 MB, for rubrics that draw no curve as well

        rank = rankdata(share)
        above = (rank[true] - rankdata(share[true])) / self.negatives
        below = 1 - (rank[~true] - rankdata(share[~true])) / self.positives
        self.area = float(above.mean())
        self.influence = _influence(above, codes[true], groups[0], size) + _influence(
            below, codes[~true], groups[1], size
        )


def _influence(places: Floats, codes: Integers, groups: int, size: int) -> Floats:
    sums = np.bincount(codes, weights=places - places.mean(), minlength=size) / places.size
    return sums * np.sqrt(groups / (groups - 1)) if groups > 1 else sums


def _ranked(label: str, side: _Sides) -> Ranked:
    hits, alarms = _counts(side)
    recall, precision = hits / side.positives, hits / (hits + alarms)
    value = float(np.sum(np.diff(recall, prepend=0.0) * precision))
    error = float(np.sqrt(side.influence @ side.influence))
    n = side.positives + side.negatives
    return Ranked(
        label=label,
        positives=side.positives,
        roc_auc=_bounded(side.area, error, side.least, "DeLong's error, on the log-odds scale", n),
        pr_auc=_bounded(value, _pr_error(value, side), side.units, _PR, n),
        roc=_curve([0.0, *(alarms / side.negatives)], [0.0, *(hits / side.positives)]),
        pr=_curve([0.0, *recall], [1.0, *precision]),
    )


def _counts(side: _Sides) -> tuple[Floats, Floats]:
    """True and false positives at each threshold that there is, the highest first."""
    order = np.argsort(-side.share, kind="stable")
    share, true = side.share[order], side.true[order]
    last = np.append(np.flatnonzero(np.diff(share)), share.size - 1)
    hits = np.cumsum(true)[last].astype(np.float64)
    return hits, 1.0 + last - hits


_PR = "binomial error by the number of rows of the class, on the log-odds scale (Boyd, Eng and Page 2013)"


def _pr_error(value: float, side: _Sides) -> float:
    return float(np.sqrt(value * (1 - value) / side.units))


def _mean_pr(classes: Sequence[Ranked], sides: Sequence[_Sides]) -> Estimate:
    """The errors of the classes as if they rose and fell together: never too sure."""
    value = float(np.mean([row.pr_auc.value for row in classes if row.pr_auc.value is not None]))
    error = float(np.mean([row.pr_auc.error for row in classes if row.pr_auc.error is not None]))
    method = f"mean over {len(classes)} classes, the mean of their errors, on the log-odds scale"
    n = sides[0].positives + sides[0].negatives
    return _bounded(value, error, min(side.units for side in sides), method, n)


def _bounded(value: float, error: float, least: int, method: str, n: int) -> Estimate:
    """An interval on the log-odds scale, so that it stays between 0 and 1. Where no error can be seen, that of a share
    of as many trials as the smaller side has clusters.
    """
    if error == 0 or not 0 < value < 1:
        low, high, name = share_interval(value, least)
        return Estimate(value, low, high, f"{name} of {least:,} trials", n, error)
    half = float(ndtri(TAIL)) * error / (value * (1 - value))
    return Estimate(
        value, float(expit(logit(value) - half)), float(expit(logit(value) + half)), method, n, error
    )


def _curve(x: Sequence[float], y: Sequence[float]) -> Curve:
    """Return at most MOST_POINTS of the points, the first and the last among them."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).round().astype(np.int64))
    return Curve(tuple(round(float(x[k]), 6) for k in keep), tuple(round(float(y[k]), 6) for k in keep))
