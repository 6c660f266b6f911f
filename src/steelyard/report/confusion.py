"""Counts of what was said for what was true, and the figures per class that follow.

Precision, recall, F1 and their averages.

Undefined shares (a class that was never predicted) are left open per class and count as 0 in averages, as in
scikit-learn.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from steelyard.report.statistics import Estimate, Floats, Integers, Resampled, proportion, resampled

NO_ANSWER = "(no answer)"
OTHER = "(other text)"
MOST_STRANGE = 100
"""So many predictions that are no label of the dataset have a class each."""


@dataclass(frozen=True)
class Coded:
    """Labels and predictions as positions in `labels`.

    A prediction of -1 is no answer. `clusters` are the `_index_` values.
    """

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
    """`macro` gives every class the same weight, `weighted` its share of the answers.

    Keys: precision, recall, f1.
    """

    macro: dict[str, Estimate]
    weighted: dict[str, Estimate]


def encode(labels: Sequence[str | None], predictions: Sequence[str | None], clusters: Integers) -> Coded:
    """Classes are all labels and predictions that occur, numbers in their order, the rest by text."""
    names = sorted({name for name in (*labels, *predictions) if name is not None}, key=_natural)
    position: dict[str | None, int] = {name: code for code, name in enumerate(names)}
    truth = np.array([position[label] for label in labels], dtype=np.int64)
    said = np.array([position.get(name, -1) for name in predictions], dtype=np.int64)
    return Coded(tuple(names), truth, said, clusters)


def known(
    predictions: Sequence[str | None], labels: Sequence[str | None]
) -> tuple[Sequence[str | None], int]:
    """The predictions; where very many of them are no label at all, as of a model that writes freely, these are
    taken together. And how many those are.
    """
    true = set(labels)
    strange = {one for one in predictions if one is not None and one not in true}
    if len(strange) <= MOST_STRANGE:
        return predictions, 0
    return [OTHER if one in strange else one for one in predictions], len(strange)


def matrix(coded: Coded) -> Integers:
    """Rows are true classes, columns predicted ones; the last column counts missing answers."""
    size = len(coded.labels)
    column = np.where(coded.prediction < 0, size, coded.prediction)
    counts = np.bincount(coded.truth * (size + 1) + column, minlength=size * (size + 1))
    return counts.reshape(size, size + 1).astype(np.int64)


def per_class(coded: Coded, *, seed: int, resamples: int) -> tuple[tuple[PerClass, ...], Averages]:
    sums = _cluster_sums(coded)
    totals = np.asarray(sums.sum(axis=0), dtype=np.float64).reshape(1, -1)
    point = _scores(totals, len(coded.labels))
    found = resampled(sums, lambda drawn: _averaged(drawn, point, coded), seed=seed, resamples=resamples)
    method = f"bootstrap of {np.unique(coded.clusters).size:,} clusters, {resamples:,} resamples, seed {seed}"
    size, n = len(coded.labels), int(coded.truth.size)
    total = totals[0]
    involved = total[size : 2 * size] + total[2 * size :] - total[:size]
    f1 = [_estimate(point[2][0, k], found, k, (method, int(involved[k]))) for k in range(size)]
    names = ("precision", "recall", "f1")
    numbers = _averaged(totals, point, coded)[0]
    averages = [_estimate(numbers[k], found, k, (method, n)) for k in range(size, size + 6)]
    rows = tuple(_of_class(coded, k, _certain_f1(coded, k, f1[k])) for k in range(size))
    averages = [_certain_average(coded, average) for average in averages]
    return rows, Averages(
        dict(zip(names, averages[:3], strict=True)), dict(zip(names, averages[3:], strict=True))
    )


def _of_class(coded: Coded, k: int, f1: Estimate) -> PerClass:
    true, said = coded.truth == k, coded.prediction == k
    return PerClass(
        label=coded.labels[k],
        support=int(true.sum()),
        predicted=int(said.sum()),
        precision=proportion(true[said], coded.clusters[said]),
        recall=proportion(said[true], coded.clusters[true]),
        f1=f1,
    )


def _certain_f1(coded: Coded, k: int, f1: Estimate) -> Estimate:
    """F1 of a class without an error, or without a right answer: resampling would see no doubt.

    F1 rises with the share of right answers among those that involve the class, and that share has an
    interval.
    """
    if f1.low != f1.high:
        return f1
    involved = (coded.truth == k) | (coded.prediction == k)
    share = proportion((coded.truth == coded.prediction)[involved], coded.clusters[involved])
    if share.low is None or share.high is None:
        return f1
    low, high = (2 * bound / (1 + bound) for bound in (share.low, share.high))
    return Estimate(f1.value, low, high, f"from the share right of those involved: {share.method}", share.n)


def _certain_average(coded: Coded, average: Estimate) -> Estimate:
    """The averages where resampling sees no doubt: as sure as the share of right answers, no surer; widened where
    that would leave out the average, which looks away from questions without an answer.
    """
    if average.low != average.high:
        return average
    share = proportion(coded.truth == coded.prediction, coded.clusters)
    if share.low is None or share.high is None or average.value is None:
        return average
    low, high = min(average.value, share.low), max(average.value, share.high)
    return Estimate(average.value, low, high, f"of the share right: {share.method}", share.n)


def _cluster_sums(coded: Coded) -> Any:
    """Per cluster: right answers, answers said, and answers true, of each class; sparse, for there may be many.

    All that the scores are made of.
    """
    size = len(coded.labels)
    unique, codes = np.unique(coded.clusters, return_inverse=True)
    right = coded.truth == coded.prediction
    answered = coded.prediction >= 0
    rows = np.concatenate([codes[right], codes[answered], codes])
    columns = np.concatenate([coded.truth[right], size + coded.prediction[answered], 2 * size + coded.truth])
    return csr_array((np.ones(rows.size), (rows, columns)), shape=(unique.size, 3 * size))


def _scores(sums: Floats, size: int) -> tuple[Floats, Floats, Floats]:
    """Precision, recall and F1 of each row of sums; nan where undefined."""
    right, said, true = sums[:, :size], sums[:, size : 2 * size], sums[:, 2 * size :]
    with np.errstate(invalid="ignore", divide="ignore"):
        return right / said, right / true, 2 * right / (said + true)


def _averaged(sums: Floats, point: tuple[Floats, Floats, Floats], coded: Coded) -> Floats:
    """F1 of each class, then macro and weighted averages of precision, recall, F1.

    A class that is undefined in the data itself counts as 0; one that a resample merely missed is left out of
    that resample.
    """
    size = len(coded.labels)
    scores = _scores(sums, size)
    filled = [
        np.where(np.isnan(score) & np.isnan(at_point), 0.0, score)
        for score, at_point in zip(scores, point, strict=True)
    ]
    weights = sums[:, 2 * size :]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # a resample without any defined class is nan, as meant
        macro = [np.nanmean(score, axis=1) for score in filled]
    weighted = [np.nansum(score * weights, axis=1) / weights.sum(axis=1) for score in filled]
    return np.column_stack([scores[2], *macro, *weighted])


def _estimate(value: float, found: Resampled, k: int, made: tuple[str, int]) -> Estimate:
    def known(number: float) -> float | None:
        return float(number) if np.isfinite(number) else None

    return Estimate(known(value), known(found.low[k]), known(found.high[k]), *made, known(found.error[k]))


def _natural(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
