"""ROC and precision-recall curves of each class against the rest, with the areas under them and their errors: does
the system give a class more probability where it is true?

A class that an answer does not list has the probability 0. Answers without usable probabilities are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard.report.statistics.clusters import Z_TAIL
from steelyard.report.statistics.intervals import Estimate, Floats, Integers, share_interval

MOST_CLASSES = 100
"""Most classes for curves: with more, a class against the rest says little, and the matrix takes much memory."""
MOST_POINTS = 200


@dataclass(frozen=True)
class Curve:
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Ranked:
    """Curves and areas of one class against the rest. ROC: x is the false positive rate, y the true positive rate; PR:
    x is recall, y precision.
    """

    label: str
    positives: int
    roc_auc: Estimate
    pr_auc: Estimate
    roc: Curve
    pr: Curve


@dataclass(frozen=True)
class Ranking:
    """Curves of all classes; `roc_auc` and `pr_auc` are means over the classes that are true for some rows only."""

    classes: tuple[Ranked, ...]
    roc_auc: Estimate
    pr_auc: Estimate
    rows: int


def probability_matrix(column: "pa.ChunkedArray[Any]", labels: Sequence[str]) -> Floats:
    """Return a column of maps without nulls as a matrix: a row per answer, a column per label; others are dropped."""
    maps: Any = pa.concat_arrays(column.chunks)
    rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    places = pc.index_in(maps.keys, value_set=pa.array(labels, pa.string()))
    known = pc.is_valid(places).to_numpy(zero_copy_only=False)
    shares = np.zeros((len(maps), len(labels)))
    shares[rows[known], places.drop_null().to_numpy()] = maps.items.to_numpy()[known]
    return shares


def ranking(labels: Sequence[str], truth: Integers, shares: Floats, clusters: Integers) -> Ranking | None:
    """Return the curves and areas; None where one class is true for all rows.

    `truth` has positions in `labels`, `shares` the probabilities: a row per answer, a column per label.
    """
    _, codes = np.unique(clusters, return_inverse=True)
    present = [k for k in range(len(labels)) if 0 < np.count_nonzero(truth == k) < truth.size]
    if not present:
        return None
    sides = [_OneAgainstRest(truth == k, shares[:, k], codes) for k in present]
    classes = tuple(_rank_class(labels[k], side) for k, side in zip(present, sides, strict=True))
    least = min(side.least for side in sides)
    value = float(np.mean([side.area for side in sides]))
    error = float(np.sqrt(np.sum(np.mean([side.influence for side in sides], axis=0) ** 2)))
    method = f"mean over {len(classes)} classes, their joint DeLong standard error, logit scale"
    return Ranking(
        classes,
        _log_odds_interval(value, error, least, method, truth.size),
        _mean_pr(classes, sides),
        int(truth.size),
    )


class _OneAgainstRest:
    """The rows of one class and the others, with the probability that the class was given in each.

    `influence` is the contribution of each cluster to the error of the area (DeLong, DeLong and Clarke-Pearson 1988;
    for rows that share clusters Obuchowski 1997): the sum of its squares is the variance. `least` is the smaller number
    of clusters of the two sides, `units` the number of clusters of the class.
    """

    def __init__(self, true: NDArray[np.bool_], share: Floats, codes: Integers) -> None:
        self.true, self.share = true, share
        self.positives, self.negatives = int(true.sum()), int((~true).sum())
        size = int(codes.max()) + 1
        groups = np.unique(codes[true]).size, np.unique(codes[~true]).size
        self.least = min(groups)
        self.units = groups[0]
        rank = ranks(share)
        above = (rank[true] - ranks(share[true])) / self.negatives
        below = 1 - (rank[~true] - ranks(share[~true])) / self.positives
        self.area = float(above.mean())
        self.influence = _influence(above, codes[true], groups[0], size) + _influence(
            below, codes[~true], groups[1], size
        )


def ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1; equal values share the mean of their ranks.

    scipy.stats has this too, and takes 0.7 s and 44 MB to import.
    """
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[groups], dtype=np.float64)


def _influence(placements: Floats, codes: Integers, groups: int, size: int) -> Floats:
    sums = np.bincount(codes, weights=placements - placements.mean(), minlength=size) / placements.size
    return sums * np.sqrt(groups / (groups - 1)) if groups > 1 else sums


def _rank_class(label: str, side: _OneAgainstRest) -> Ranked:
    hits, alarms = _positives_by_threshold(side)
    recall, precision = hits / side.positives, hits / (hits + alarms)
    value = float(np.sum(np.diff(recall, prepend=0.0) * precision))
    error = float(np.sqrt(side.influence @ side.influence))
    n = side.positives + side.negatives
    return Ranked(
        label=label,
        positives=side.positives,
        roc_auc=_log_odds_interval(side.area, error, side.least, "DeLong's standard error, logit scale", n),
        pr_auc=_log_odds_interval(
            value, float(np.sqrt(value * (1 - value) / side.units)), side.units, _PR_METHOD, n
        ),
        roc=_curve([0.0, *(alarms / side.negatives)], [0.0, *(hits / side.positives)]),
        pr=_curve([0.0, *recall], [1.0, *precision]),
    )


def _positives_by_threshold(side: _OneAgainstRest) -> tuple[Floats, Floats]:
    """Return true and false positives at each threshold, the highest threshold first."""
    order = np.argsort(-side.share, kind="stable")
    share, true = side.share[order], side.true[order]
    last = np.append(np.flatnonzero(np.diff(share)), share.size - 1)
    hits = np.cumsum(true)[last].astype(np.float64)
    return hits, 1.0 + last - hits


_PR_METHOD = "binomial standard error with the rows of the class, logit scale (Boyd, Eng and Page 2013)"


def _mean_pr(classes: Sequence[Ranked], sides: Sequence[_OneAgainstRest]) -> Estimate:
    """Return the mean area. Its error is the mean of the classes' errors, as if they were fully correlated: an upper
    limit.
    """
    value = float(np.mean([row.pr_auc.value for row in classes if row.pr_auc.value is not None]))
    error = float(np.mean([row.pr_auc.error for row in classes if row.pr_auc.error is not None]))
    method = f"mean over {len(classes)} classes, mean of their standard errors, logit scale"
    n = sides[0].positives + sides[0].negatives
    return _log_odds_interval(value, error, min(side.units for side in sides), method, n)


def _log_odds_interval(value: float, error: float, least: int, method: str, n: int) -> Estimate:
    """Return an estimate whose interval is made on the log-odds scale, so that it stays between 0 and 1.

    Where the observed error is 0, the interval is that of a share of `least` trials.
    """
    from scipy.special import expit, logit

    if error == 0 or not 0 < value < 1:
        low, high, name = share_interval(value, least)
        return Estimate(value, low, high, f"{name} of {least:,} trials", n, error)
    half = Z_TAIL * error / (value * (1 - value))
    return Estimate(
        value, float(expit(logit(value) - half)), float(expit(logit(value) + half)), method, n, error
    )


def _curve(x: Sequence[float], y: Sequence[float]) -> Curve:
    """Return at most MOST_POINTS of the points, the first and the last among them."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).round().astype(np.int64))
    return Curve(tuple(round(float(x[k]), 6) for k in keep), tuple(round(float(y[k]), 6) for k in keep))
