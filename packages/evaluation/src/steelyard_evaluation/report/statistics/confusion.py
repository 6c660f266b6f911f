"""The confusion matrix, and the metrics per class that follow from it: precision, recall, F1 and their averages.

An undefined share (a class that was never predicted) has no value for its class and counts as 0 in averages, as in
scikit-learn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard_evaluation.report.statistics.clusters import Sums, sum_clusters
from steelyard_evaluation.report.statistics.intervals import (
    Estimate,
    Floats,
    Integers,
    interval_from_error,
    proportion,
)

NO_ANSWER = "(no answer)"
OTHER = "(other text)"
FEWEST_OF_A_CLASS = 10
"""Fewest independent answers of a class for the interval of a macro average, in which all classes weigh the same."""
FEW_ERRORS = 5
"""Fewest errors from which a spread can be estimated; that of fewer may be luck."""
FEW_WRONG_CLUSTERS = 15
"""Fewest clusters with an error from which it can be estimated how errors of several classes hang together."""
MOST_STRANGE = 100
"""Most predictions outside the dataset's labels that get a class of their own."""


@dataclass(frozen=True)
class CodedLabels:
    """True and predicted labels as positions in `labels`; a prediction of -1 stands for no answer."""

    labels: tuple[str, ...]
    truth: Integers
    prediction: Integers
    clusters: Integers


@dataclass(frozen=True)
class PerClass:
    label: str
    support: int
    predicted: int
    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True)
class Averages:
    """Averages over classes, by `precision`, `recall` and `f1`: `macro` gives every class the same weight, `weighted`
    its share of the answers.
    """

    macro: dict[str, Estimate]
    weighted: dict[str, Estimate]


def encode(
    labels: Sequence[str | None], predictions: Sequence[str | None], clusters: Integers
) -> CodedLabels:
    """Encode labels and predictions. Classes are all that occur: numbers in their order, then the rest by text."""
    names = sorted({name for name in (*labels, *predictions) if name is not None}, key=_natural_order)
    position: dict[str | None, int] = {name: code for code, name in enumerate(names)}
    truth = np.array([position[label] for label in labels], dtype=np.int64)
    prediction = np.array([position.get(name, -1) for name in predictions], dtype=np.int64)
    return CodedLabels(tuple(names), truth, prediction, clusters)


def merge_strange(
    predictions: Sequence[str | None], labels: Sequence[str | None]
) -> tuple[Sequence[str | None], int]:
    """Return the predictions and 0, or, where very many of them are not labels, as from a model that writes freely,
    the predictions with `OTHER` for these, and how many distinct ones these were.
    """
    true = set(labels)
    strange = {name for name in predictions if name is not None and name not in true}
    if len(strange) <= MOST_STRANGE:
        return predictions, 0
    return [OTHER if name in strange else name for name in predictions], len(strange)


def matrix(coded: CodedLabels) -> Integers:
    """Return counts: a row per true class, a column per predicted one; the last column counts missing answers."""
    size = len(coded.labels)
    column = np.where(coded.prediction < 0, size, coded.prediction)
    counts = np.bincount(coded.truth * (size + 1) + column, minlength=size * (size + 1))
    return counts.reshape(size, size + 1).astype(np.int64)


def per_class(coded: CodedLabels) -> tuple[tuple[PerClass, ...], Averages]:
    """Return the metrics of each class, and their averages."""
    size = len(coded.labels)
    parts = _cluster_sums(coded)
    right, predicted, true = np.asarray(parts.sum(axis=0), dtype=np.float64).reshape(3, size)
    kinds = {
        "precision": _ratio(right, predicted, (0.0, 1.0, 0.0)),
        "recall": _ratio(right, true, (0.0, 0.0, 1.0)),
        "f1": _ratio(2 * right, predicted + true, (1.0, 1.0, 1.0)),
    }
    classes = tuple(_class_figures(coded, k) for k in range(size))
    reason = _explain_no_interval(coded)
    macro = {}
    for name, ratio in kinds.items():
        average = _Average(float(ratio.value.mean()), ratio.slopes.ravel() / size)
        macro[name] = _macro(_linear(coded, parts, average), average.value, coded, name, classes, reason)
    weighted = {name: _estimate_average(coded, parts, _weight(ratio, true)) for name, ratio in kinds.items()}
    return classes, Averages(macro, weighted)


@dataclass(frozen=True)
class _Ratio:
    """A metric of each class (0 where undefined), and its slopes by the class's right, predicted and true answers."""

    value: Floats
    slopes: Floats


def _ratio(above: Floats, below: Floats, factors: tuple[float, float, float]) -> _Ratio:
    """Return `above` / `below` with its slopes. `factors` say how often `above` counts right answers beyond once, and
    how often `below` counts predicted and true ones.
    """
    inverse = np.divide(1.0, below, out=np.zeros_like(below), where=below > 0)
    value = above * inverse
    gain = inverse * (1.0 + factors[0])
    return _Ratio(value, np.stack([gain, -factors[1] * value * inverse, -factors[2] * value * inverse]))


@dataclass(frozen=True)
class _Average:
    """A mean over classes, and its slopes by the sums that it is made of."""

    value: float
    slope: Floats


def _weight(ratio: _Ratio, true: Floats) -> _Average:
    share = true / true.sum()
    value = float(ratio.value @ share)
    slopes = ratio.slopes * share
    slopes[2] += (ratio.value - value) / true.sum()
    return _Average(value, slopes.ravel())


def _linear(coded: CodedLabels, parts: Any, average: _Average) -> Sums:
    """Return the sums over clusters of the average's linear approximation (delta method)."""
    n = int(coded.truth.size)
    sizes = sum_clusters(np.ones(n), coded.clusters).sizes
    return Sums(np.asarray(parts @ average.slope, dtype=np.float64) * n, sizes)


def _macro(
    sums: Sums, value: float, coded: CodedLabels, name: str, classes: Sequence[PerClass], reason: str
) -> Estimate:
    """Return a macro average with the interval that its classes' intervals imply: the square root of the summed squares
    of their distances (MOVER; Zou and Donner 2008, Statistics in Medicine 27:1693-1702).

    A rare class without an error has no spread that a standard error could show, but its interval is wide. Errors of
    two classes hang together: an answer of another class lowers the F1 of both, and clusters may hold several classes.
    The sum is then multiplied by what the jackknife says, at least 2 for F1; with few errors by the number of classes.
    """
    size, n = len(classes), int(coded.truth.size)
    if reason:
        return Estimate(value, None, None, reason, n, sums.error)
    estimates = [getattr(row, name) for row in classes]
    # A class that was never predicted counts as 0, and anything is possible for it.
    values, lows, highs, errors = np.array(
        [
            (0.0, 0.0, 1.0, 0.0)
            if row.low is None or row.high is None
            else (row.value, row.low, row.high, row.error)
            for row in estimates
        ],
        dtype=np.float64,
    ).T
    together = 2.0 if name == "f1" else 1.0
    if sums.count < n:
        wrong = np.unique(coded.clusters[coded.truth != coded.prediction]).size
        apart = float((errors**2).sum()) / size**2
        seen = sums.error**2 / apart if wrong >= FEW_WRONG_CLUSTERS and apart > 0 else inf
        together = min(float(size), max(together, seen))
    low = value - float(np.sqrt(together * ((values - lows) ** 2).sum())) / size
    high = value + float(np.sqrt(together * ((highs - values) ** 2).sum())) / size
    method = f"square-and-add of the {size:,} classes' intervals (MOVER, Zou and Donner 2008)"
    return Estimate(value, max(0.0, low), min(1.0, high), method, n, sums.error)


def _estimate_average(coded: CodedLabels, parts: Any, average: _Average) -> Estimate:
    """Return the average with an interval by the delta method and the jackknife over clusters (Takahashi et al. 2022,
    Applied Intelligence 52:4961-4972, have the same variance without clusters).

    With very few errors the effective size is at most that of the smallest class, times the number of classes.
    """
    n = int(coded.truth.size)
    sums = _linear(coded, parts, average)
    error = sums.error
    wrong = np.unique(coded.clusters[coded.truth != coded.prediction]).size
    most = len(coded.labels) * min(_supports(coded)) if wrong < FEW_ERRORS else inf
    low, high, method = interval_from_error(average.value, error, sums, max(1.0, most))
    return Estimate(average.value, low, high, f"delta method; {method}", n, error)


def _explain_no_interval(coded: CodedLabels) -> str:
    """Return why macro averages have no interval; empty where they have one."""
    supports = _supports(coded)
    least = int(np.argmin(supports))
    if supports[least] >= FEWEST_OF_A_CLASS:
        return ""
    name, rows = coded.labels[least], supports[least]
    answers = f"{rows:,} independent answer{'' if rows == 1 else 's'}"
    return f"no interval: class {name} has {answers} ({FEWEST_OF_A_CLASS} of each class are needed)"


def _supports(coded: CodedLabels) -> list[int]:
    """Return the number of clusters in which each class is true."""
    pairs = np.unique(np.stack([coded.truth, coded.clusters]), axis=1)
    return [int(count) for count in np.bincount(pairs[0], minlength=len(coded.labels))]


def _class_figures(coded: CodedLabels, k: int) -> PerClass:
    true, predicted = coded.truth == k, coded.prediction == k
    return PerClass(
        label=coded.labels[k],
        support=int(true.sum()),
        predicted=int(predicted.sum()),
        precision=proportion(true[predicted], coded.clusters[predicted]),
        recall=proportion(predicted[true], coded.clusters[true]),
        f1=_f1(coded, true | predicted),
    )


def _f1(coded: CodedLabels, involved: NDArray[np.bool_]) -> Estimate:
    """Return F1 of a class from the share J of right answers among those that name the class or should:
    F1 = 2 J / (1 + J).
    """
    share = proportion((coded.truth == coded.prediction)[involved], coded.clusters[involved])
    if share.value is None or share.low is None or share.high is None:
        return share
    value, low, high = (2 * part / (1 + part) for part in (share.value, share.low, share.high))
    error = None if share.error is None else 2 * share.error / (1 + share.value) ** 2
    return Estimate(value, low, high, f"from the Jaccard index of the class: {share.method}", share.n, error)


def _cluster_sums(coded: CodedLabels) -> Any:
    """Return right, predicted and true answers per cluster and class, as a sparse matrix: there may be many classes."""
    from scipy.sparse import csr_array

    size = len(coded.labels)
    unique, codes = np.unique(coded.clusters, return_inverse=True)
    right = coded.truth == coded.prediction
    answered = coded.prediction >= 0
    rows = np.concatenate([codes[right], codes[answered], codes])
    columns = np.concatenate([coded.truth[right], size + coded.prediction[answered], 2 * size + coded.truth])
    # Where a cell is named several times, its entries add up: that is the count.
    return csr_array((np.ones(rows.size), (rows, columns)), shape=(unique.size, 3 * size))


def _natural_order(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
