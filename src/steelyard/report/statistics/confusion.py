"""Counts of what was said for what was true, and the figures per class that follow.

Precision, recall, F1 and their averages.

Undefined shares (a class that was never predicted) are left open per class and count as 0 in averages, as in
scikit-learn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from steelyard.report.statistics.clusters import Sums, sums_of
from steelyard.report.statistics.intervals import Estimate, Floats, Integers, of_error, proportion

NO_ANSWER = "(no answer)"
OTHER = "(other text)"
FEWEST_OF_A_CLASS = 10
"""Questions of each class that averages need for an interval which count every class the same."""
FEW_ERRORS = 5
"""Fewest errors that show a spread: that of fewer may be luck."""
MOST_STRANGE = 100
"""Number of predictions outside the dataset's labels that get a class each."""


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


def per_class(coded: Coded) -> tuple[tuple[PerClass, ...], Averages]:
    """The figures of each class, and their averages."""
    size = len(coded.labels)
    parts = _cluster_sums(coded)
    right, said, true = np.asarray(parts.sum(axis=0), dtype=np.float64).reshape(3, size)
    kinds = {
        "precision": _ratio(right, said, (0.0, 1.0, 0.0)),
        "recall": _ratio(right, true, (0.0, 0.0, 1.0)),
        "f1": _ratio(2 * right, said + true, (1.0, 1.0, 1.0)),
    }
    because = _too_few(coded)
    macro = {name: _averaged(coded, parts, _alike(ratio), because) for name, ratio in kinds.items()}
    weighted = {name: _averaged(coded, parts, _by_support(ratio, true), "") for name, ratio in kinds.items()}
    return tuple(_of_class(coded, k) for k in range(size)), Averages(macro, weighted)


@dataclass(frozen=True)
class _Ratio:
    """A figure of each class (0 where undefined), and its slopes by the class's right, said and true answers."""

    value: Floats
    slopes: Floats


def _ratio(above: Floats, below: Floats, factors: tuple[float, float, float]) -> _Ratio:
    """Return a ratio: `above` is right answers, twice where `below` adds those said to those true; `factors`
    say what `below` adds.
    """
    inverse = np.divide(1.0, below, out=np.zeros_like(below), where=below > 0)
    value = above * inverse
    gain = inverse * (1.0 + factors[0])
    return _Ratio(value, np.stack([gain, -factors[1] * value * inverse, -factors[2] * value * inverse]))


@dataclass(frozen=True)
class _Average:
    """A mean over classes, and how it changes with each of the sums that it is made of."""

    value: float
    slope: Floats


def _alike(ratio: _Ratio) -> _Average:
    return _Average(float(ratio.value.mean()), ratio.slopes.ravel() / ratio.value.size)


def _by_support(ratio: _Ratio, true: Floats) -> _Average:
    share = true / true.sum()
    value = float(ratio.value @ share)
    slopes = ratio.slopes * share
    slopes[2] += (ratio.value - value) / true.sum()
    return _Average(value, slopes.ravel())


def _averaged(coded: Coded, parts: Any, average: _Average, because: str) -> Estimate:
    """The average with an interval by the delta method, in clusters left out one by one (Takahashi et al. 2022, Applied
    Intelligence 52:4961-4972, have the same variance without clusters).

    With very few errors it is at most as sure as the class with the fewest rows would be alone, times the classes.
    """
    n = int(coded.truth.size)
    sizes = sums_of(np.ones(n), coded.clusters).sizes
    sums = Sums(np.asarray(parts @ average.slope, dtype=np.float64) * n, sizes)
    error = sums.error
    if because:
        return Estimate(average.value, None, None, because, n, error)
    wrong = np.unique(coded.clusters[coded.truth != coded.prediction]).size
    most = len(coded.labels) * min(_supports(coded)) if wrong < FEW_ERRORS else inf
    low, high, method = of_error(average.value, error, sums, max(1.0, most))
    return Estimate(average.value, low, high, f"delta method; {method}", n, error)


def _too_few(coded: Coded) -> str:
    """Why the averages that count every class the same have no interval, where they have none."""
    supports = _supports(coded)
    least = int(np.argmin(supports))
    if supports[least] >= FEWEST_OF_A_CLASS:
        return ""
    name, rows = coded.labels[least], supports[least]
    questions = f"{rows:,} question{'' if rows == 1 else 's'}"
    return f"no interval: class {name} has {questions} ({FEWEST_OF_A_CLASS} of each class are needed)"


def _supports(coded: Coded) -> list[int]:
    """Number of clusters in which each class is true."""
    pairs = np.unique(np.stack([coded.truth, coded.clusters]), axis=1)
    return [int(count) for count in np.bincount(pairs[0], minlength=len(coded.labels))]


def _of_class(coded: Coded, k: int) -> PerClass:
    true, said = coded.truth == k, coded.prediction == k
    return PerClass(
        label=coded.labels[k],
        support=int(true.sum()),
        predicted=int(said.sum()),
        precision=proportion(true[said], coded.clusters[said]),
        recall=proportion(said[true], coded.clusters[true]),
        f1=_f1(coded, true | said),
    )


def _f1(coded: Coded, involved: NDArray[np.bool_]) -> Estimate:
    """F1 of a class, by the share J of right answers among those that name the class or should: F1 = 2 J / (1 + J)."""
    share = proportion((coded.truth == coded.prediction)[involved], coded.clusters[involved])
    if share.value is None or share.low is None or share.high is None:
        return share
    value, low, high = (2 * part / (1 + part) for part in (share.value, share.low, share.high))
    error = None if share.error is None else 2 * share.error / (1 + share.value) ** 2
    return Estimate(
        value, low, high, f"from the share right of those involved: {share.method}", share.n, error
    )


def _cluster_sums(coded: Coded) -> Any:
    """Sum per cluster and class: right answers, answers said, and answers true; sparse, for there may be many
    classes.
    """
    size = len(coded.labels)
    unique, codes = np.unique(coded.clusters, return_inverse=True)
    right = coded.truth == coded.prediction
    answered = coded.prediction >= 0
    rows = np.concatenate([codes[right], codes[answered], codes])
    columns = np.concatenate([coded.truth[right], size + coded.prediction[answered], 2 * size + coded.truth])
    return csr_array((np.ones(rows.size), (rows, columns)), shape=(unique.size, 3 * size))


def _natural(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
