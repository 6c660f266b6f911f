"""ROC and precision-recall curves of each class against the rest, with the areas under them and their errors: does
the system give a class more probability where it is true?

A class that an answer does not list has the probability 0. Answers without usable probabilities are left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard_common.types import Json
from steelyard_evaluation.report.statistics.clusters import student_quantile, sum_clusters
from steelyard_evaluation.report.statistics.intervals import (
    FEW_CLUSTERS,
    Estimate,
    Floats,
    Integers,
    share_interval,
)

MOST_CLASSES = 100
"""Most classes for curves: with more, a class against the rest says little, and the matrix takes much memory."""
MOST_POINTS = 200
FEWEST_OF_A_SIDE = 10
"""Fewest independent answers of a class, and of the rest, for the interval of an area under ROC."""
FEWEST_FOR_PR = 20
"""The same for an area under precision-recall: of 10 to 14 answers that share clusters it held 89% of the time."""


@dataclass(frozen=True)
class Curve:
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class RankingCurves:
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

    classes: tuple[RankingCurves, ...]
    roc_auc: Estimate
    pr_auc: Estimate
    rows: int


def probability_matrix(column: "pa.ChunkedArray[Any]", labels: Sequence[str]) -> Floats:
    """Return a column of pairs without nulls as a matrix: a row per answer, a column per label; others are dropped.

    In files of earlier versions it is a column of maps.
    """
    lists: Any = pa.concat_arrays(column.chunks)
    keys, values = (lists.keys, lists.items) if pa.types.is_map(lists.type) else lists.flatten().flatten()
    places = pc.index_in(keys, value_set=pa.array(labels, pa.string()))
    known = pc.is_valid(places).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
    shares = np.zeros((len(lists), len(labels)))
    shares[rows[known], places.drop_null().to_numpy()] = values.to_numpy(zero_copy_only=False)[known]
    return shares


def to_pairs(stated: Mapping[str, float] | Iterable[tuple[str, float]]) -> list[Json]:
    """Return probabilities by label, or the map that earlier versions kept of them, as a column keeps them."""
    return [{"key": key, "value": value} for key, value in dict(stated).items()]


def ranking(labels: Sequence[str], truth: Integers, shares: Floats, clusters: Integers) -> Ranking | None:
    """Return the curves and areas; None where one class is true for all rows.

    `truth` has positions in `labels`, `shares` the probabilities: a row per answer, a column per label.
    """
    _, codes = np.unique(clusters, return_inverse=True)
    # A class that every row or no row has cannot be ranked against a rest.
    present = [k for k in range(len(labels)) if 0 < np.count_nonzero(truth == k) < truth.size]
    if not present:
        return None
    sides = [_OneAgainstRest(truth == k, shares[:, k], codes) for k in present]
    classes = tuple(_rank_class(labels[k], side) for k, side in zip(present, sides, strict=True))
    value = float(np.mean([side.area for side in sides]))
    joint = float(np.sqrt(np.sum(np.mean([side.influence for side in sides], axis=0) ** 2)))
    # Where an area has too few clusters for DeLong's error, it has another one, and how these correlate is not known.
    few = any(side.error > np.sqrt(side.influence @ side.influence) for side in sides)
    errors = float(np.mean([side.error for side in sides]))
    error = max(joint, errors) if few else joint
    wider = float(np.mean([side.wider_error for side in sides]))
    # Areas of several classes chance together less than one alone, as far as the observed errors say so.
    wider *= 1.0 if few or errors == 0 else joint / errors
    method = f"mean over {len(classes)} classes, their joint DeLong standard error"
    return Ranking(
        classes,
        _area_interval(value, (error, float(np.mean([side.centre for side in sides])), wider), sides, method),
        _mean_pr(classes, sides),
        int(truth.size),
    )


class _OneAgainstRest:
    """The rows of one class and the others, with the probability that the class was given in each.

    `influence` is the contribution of each cluster to the error of the area (DeLong, DeLong and Clarke-Pearson 1988;
    for rows that share clusters Obuchowski 1997): the sum of its squares is the variance. Clusters count as their
    effective number, were they all of one size: `units` is that of the class, `least` the smaller one of both sides.
    """

    def __init__(self, true: NDArray[np.bool_], share: Floats, codes: Integers) -> None:
        self.true, self.share, self.codes = true, share, codes
        self.positives, self.negatives = int(true.sum()), int((~true).sum())
        size = int(codes.max()) + 1
        self.clustered = size < true.size
        self.units, other = _effective(codes[true]), _effective(codes[~true])
        self.least = min(self.units, other)
        rank = ranks(share)
        # Ranks among all less ranks among one's own: how many of the other side lie below, ties by half.
        above = (rank[true] - ranks(share[true])) / self.negatives
        below = 1 - (rank[~true] - ranks(share[~true])) / self.positives
        self.area = float(above.mean())
        self.centre, self.wider_error = _with_both_ends(above, codes[true], below, codes[~true])
        self.influence = _influence(above, codes[true], size) + _influence(below, codes[~true], size)
        self.error = float(np.sqrt(self.influence @ self.influence))
        if self.clustered:
            # Rows of both sides in one cluster hang together, which the sides by themselves do not show.
            apart = float(
                np.hypot(sum_clusters(above, codes[true]).error, sum_clusters(below, codes[~true]).error)
            )
            self.wider_error *= max(1.0, self.error / apart if apart > 0 else 1.0)
        if self.clustered and min(self.area, 1 - self.area) * self.least < FEW_CLUSTERS:
            self.error = max(self.error, _independent_error(self.area, self.units, other))


def _with_both_ends(
    above: Floats, of_class: Integers, below: Floats, of_rest: Integers
) -> tuple[float, float]:
    """Return the middle of the area's interval and its error: DeLong's, with one more cluster at both ends of the scale
    on each side.

    An area is the mean of placements between 0 and 1 (the share of the other side that a row outranks), and few of a
    rare class may all be placed alike by luck: the rule of Agresti and Coull (1998), as for other scores on a scale.
    """
    sides = [sum_clusters(above, of_class), sum_clusters(below, of_rest)]
    wider = [side.plus(side.typical, 0.0, 1.0) for side in sides]
    area = sides[0].mean
    centre = area + sum(more.mean - side.mean for side, more in zip(sides, wider, strict=True))
    return centre, float(np.hypot(wider[0].error, wider[1].error))


def ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1; equal values share the mean of their ranks.

    scipy.stats has this too, and takes 0.7 s and 44 MB to import.
    """
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[groups], dtype=np.float64)


def _effective(codes: Integers) -> float:
    """Return the effective number of clusters of some rows: (Σm)² / Σm² (Kish 1965)."""
    sizes = np.unique(codes, return_counts=True)[1]
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _influence(placements: Floats, codes: Integers, size: int) -> Floats:
    """Return the contribution of each cluster to the error of a mean of placements."""
    return _cluster_influence((placements - placements.mean()) / placements.size, codes, size)


def _cluster_influence(per_row: Floats, codes: Integers, size: int = 0) -> Floats:
    """Return the sum of each cluster's contributions, that of a large one made larger: see `clusters.Sums.error`."""
    sums = np.bincount(codes, weights=per_row, minlength=size).astype(np.float64)
    shares = np.bincount(codes, minlength=size) / per_row.size
    groups = int(np.count_nonzero(shares))
    if groups < 2:
        return sums
    return np.asarray(sums * np.sqrt((groups - 1) / groups) / (1 - shares), dtype=np.float64)


def _independent_error(area: float, class_size: float, rest: float) -> float:
    """Return the error of an area of so many independent rows (Hanley and McNeil 1982, Radiology 143:29-36)."""
    two_of_class, two_of_rest = area / (2 - area), 2 * area**2 / (1 + area)
    above = (class_size - 1) * (two_of_class - area**2) + (rest - 1) * (two_of_rest - area**2)
    return float(np.sqrt(max(0.0, area * (1 - area) + above) / (class_size * rest)))


def _rank_class(label: str, side: _OneAgainstRest) -> RankingCurves:
    area = _PrecisionRecall(side)
    hits, alarms = area.hits, area.alarms
    n = side.positives + side.negatives
    return RankingCurves(
        label=label,
        positives=side.positives,
        roc_auc=_area_interval(
            side.area, (side.error, side.centre, side.wider_error), [side], "DeLong's standard error"
        ),
        pr_auc=_log_odds_interval(area.area, area.error, [side], _PR_METHOD, n),
        roc=_curve([0.0, *(alarms / side.negatives)], [0.0, *(hits / side.positives)]),
        pr=_curve([0.0, *area.recall], [1.0, *area.precision]),
    )


class _PrecisionRecall:
    """The precision-recall curve of a class against the rest, and the area under it (average precision).

    The standard error is the larger of two: the binomial one with the rows of the class (Boyd, Eng and Page 2013), and
    that of the infinitesimal jackknife (Jaeckel 1972), in which also the other rows vary and clusters count as such.
    """

    def __init__(self, side: _OneAgainstRest) -> None:
        order = np.argsort(-side.share, kind="stable")
        share, true = side.share[order], side.true[order]
        # Answers with equal probability pass a threshold together: a point in between would depend on their
        # order.
        last = np.append(np.flatnonzero(np.diff(share)), share.size - 1)
        self.hits = np.cumsum(true)[last].astype(np.float64)
        self.alarms = 1.0 + last - self.hits
        chosen = self.hits + self.alarms
        self.recall, self.precision = self.hits / side.positives, self.hits / chosen
        self.area = min(1.0, float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision)))  # rounding
        new = np.diff(self.hits, prepend=0.0)
        gain, loss = (np.cumsum(term[::-1])[::-1] for term in (new / chosen, new * self.hits / chosen**2))
        threshold = np.repeat(np.arange(last.size), np.diff(last, prepend=-1))
        per_row = true * (self.precision - self.area + gain)[threshold] - loss[threshold]
        influence = _cluster_influence(per_row / side.positives, side.codes[order])
        binomial = float(np.sqrt(self.area * (1 - self.area) / side.units))
        self.error = max(binomial, float(np.sqrt(influence @ influence)))


_PR_METHOD = "the larger of the binomial standard error and that of the infinitesimal jackknife, logit scale"


def _mean_pr(classes: Sequence[RankingCurves], sides: Sequence[_OneAgainstRest]) -> Estimate:
    """Return the mean area. Its error is the mean of the classes' errors, as if they were fully correlated: an upper
    limit.
    """
    value = float(np.mean([row.pr_auc.value for row in classes if row.pr_auc.value is not None]))
    error = float(np.mean([row.pr_auc.error for row in classes if row.pr_auc.error is not None]))
    method = f"mean over {len(classes)} classes, mean of their standard errors, logit scale"
    n = sides[0].positives + sides[0].negatives
    return _log_odds_interval(value, error, sides, method, n)


def _area_interval(
    value: float, chances: tuple[float, float, float], sides: Sequence[_OneAgainstRest], method: str
) -> Estimate:
    """Return an area under ROC with Student's interval. `chances` are the standard error, and centre and error of the
    interval.
    """
    error, centre, wider = chances
    least, n = min(side.least for side in sides), sides[0].positives + sides[0].negatives
    if least < FEWEST_OF_A_SIDE:
        return Estimate(value, None, None, _too_few_of_a_side(least, FEWEST_OF_A_SIDE), n, error)
    half = student_quantile(least - 1) * wider
    low, high = max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half))
    method = f"{method}, one answer added at each end, Student's t ({least:,.0f} answers on the smaller side)"
    return Estimate(value, low, high, method, n, error)


def _too_few_of_a_side(least: float, fewest: int) -> str:
    answers = f"{least:,.0f} independent answer{'' if round(least) == 1 else 's'}"
    return f"no interval: a class or the rest has {answers} ({fewest} are needed)"


def _log_odds_interval(
    value: float,
    error: float,
    sides: Sequence[_OneAgainstRest],
    method: str,
    n: int,
) -> Estimate:
    """Return an estimate whose interval is made on the log-odds scale, so that it stays between 0 and 1.

    Where the observed error is 0, the interval is that of a share of as many trials as the smallest side has. The
    quantile is Student's. A side of few answers, or clusters, has no interval: without both
    rules one of three intervals missed the true value in simulations of unequal clusters, one of six of 3 answers.
    """
    from scipy.special import expit, logit

    least = min(side.least for side in sides)
    if least < FEWEST_FOR_PR:
        return Estimate(value, None, None, _too_few_of_a_side(least, FEWEST_FOR_PR), n, error)
    quantile = student_quantile(least - 1)
    method = f"{method}, Student's t ({least:,.0f} independent answers on the smaller side)"
    if error == 0 or not 0 < value < 1:
        low, high, name = share_interval(value, least)
        return Estimate(value, low, high, f"{name} of {least:,.0f} trials", n, error)
    half = quantile * error / (value * (1 - value))
    return Estimate(
        value, float(expit(logit(value) - half)), float(expit(logit(value) + half)), method, n, error
    )


def _curve(x: Sequence[float], y: Sequence[float]) -> Curve:
    """Return at most MOST_POINTS of the points, the first and the last among them."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).round().astype(np.int64))
    return Curve(tuple(round(float(x[k]), 6) for k in keep), tuple(round(float(y[k]), 6) for k in keep))
