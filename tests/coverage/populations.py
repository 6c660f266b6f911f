"""Rows with a known distribution: right and wrong answers, grades, labels, probabilities, counts of sentences."""

from functools import cache

import numpy as np
from scipy.special import ndtr

from steelyard_evaluation.report.statistics.intervals import Floats, Integers
from tests.coverage.layouts import Chance, Population


def hits(share: float) -> Population:
    return lambda rng, rows: (rng.random(rows) < share).astype(np.float64)


def failing(share: float, failed: float) -> Population:
    """Right answers; rows that failed count as wrong."""
    return lambda rng, rows: ((rng.random(rows) < share) & (rng.random(rows) >= failed)).astype(np.float64)


def failing_scores(population: Population, failed: float) -> Population:
    """Scores; rows that failed count as 0."""
    return lambda rng, rows: np.where(rng.random(rows) < failed, 0.0, population(rng, rows))


def beta(a: float, b: float) -> Population:
    return lambda rng, rows: np.asarray(rng.beta(a, b, rows), dtype=np.float64)


def choice(values: tuple[float, ...], weights: tuple[float, ...]) -> Population:
    return lambda rng, rows: np.asarray(rng.choice(values, rows, p=weights), dtype=np.float64)


def exponential(rng: Chance, rows: int) -> Floats:
    return np.asarray(rng.exponential(size=rows), dtype=np.float64)


def lognormal(spread: float) -> Population:
    """Numbers of mean 1, distributed as lengths of answers are."""
    return lambda rng, rows: np.asarray(rng.lognormal(-spread * spread / 2, spread, rows), dtype=np.float64)


def brier(rng: Chance, rows: int) -> Floats:
    """Brier scores of two classes, of calibrated probabilities; their mean is 1/3."""
    stated = rng.uniform(0.5, 1, rows)
    right = rng.random(rows) < stated
    return 2 * (right - stated) ** 2


def scores_differ(rng: Chance, rows: int) -> Floats:
    """Differences of mean 0.7 (5/6 − 4/5): three in ten questions are scored alike."""
    first, second = rng.beta(4, 1, rows), rng.beta(5, 1, rows)
    return np.where(rng.random(rows) < 0.3, 0.0, second - first)


def labels(classes: int, skew: float, right: float, failed: float = 0.0) -> Population:
    """The true and the predicted class, -1 where there is no answer."""
    weights = np.exp(-skew * np.arange(classes))

    def draw(rng: Chance, rows: int) -> Floats:
        truth = rng.choice(classes, rows, p=weights / weights.sum())
        other = (truth + rng.integers(1, classes, rows)) % classes
        said = np.where(rng.random(rows) < right, truth, other)
        said = np.where(rng.random(rows) < failed, -1, said)
        return np.stack([truth, said], axis=1).astype(np.float64)

    return draw


def ranked(distance: float, share: float) -> Population:
    """Rows that say whether the class is true, and the probability that it was given."""

    def draw(rng: Chance, rows: int) -> Floats:
        truth = rng.random(rows) < share
        return np.stack([truth, 1 / (1 + np.exp(-rng.normal(distance * truth, 1)))], axis=1)

    return draw


@cache
def sentences(a: float, b: float) -> Floats:
    """Counts of BLEU for many sentences: lengths, n-grams right, n-grams."""
    rng = np.random.default_rng(1)
    said, true, good = _lengths(rng, a, b)
    total = [np.maximum(said - order, 0) for order in range(4)]
    right = [rng.binomial(said, good)]
    for order in range(1, 4):
        right.append(rng.binomial(np.minimum(right[-1], total[order]), 0.95 * np.sqrt(good)))
    return np.stack([said, true, *right, *total], axis=1).astype(np.float64)


@cache
def character_sentences(a: float, b: float) -> Floats:
    """Counts of chrF for many sentences: n-grams of the answer, of the reference, shared; orders 1 to 6."""
    rng = np.random.default_rng(1)
    said, true, good = _lengths(rng, a, b)
    said, true = 5 * said, 5 * true
    columns, shared = [], np.minimum(said, true)
    for order in range(6):
        answered, reference = np.maximum(said - order, 0), np.maximum(true - order, 0)
        room = np.minimum(np.minimum(answered, reference), shared)
        shared = rng.binomial(room, np.sqrt(good) if order == 0 else 0.95 * good ** (1 / (1 + order)))
        columns += [answered, reference, shared]
    return np.stack(columns, axis=1).astype(np.float64)


def _lengths(rng: Chance, a: float, b: float) -> tuple[Integers, Integers, Floats]:
    said = np.maximum(1, np.round(np.exp(rng.normal(2.8, 0.6, 20_000)))).astype(np.int64)
    true = np.maximum(1, np.round(said * np.exp(rng.normal(0.02, 0.2, said.size)))).astype(np.int64)
    return said, true, np.asarray(rng.beta(a, b, said.size), dtype=np.float64)


def sampled(every: Floats) -> Population:
    """Rows of `every`, each as likely."""
    return lambda rng, rows: every[rng.integers(0, len(every), rows)]


def pairs(classes: int, skew: float, right: float, failed: float = 0.0) -> Floats:
    """The chance of each true and predicted class in `labels`; rows that failed stand in a last column."""
    weights = np.exp(-skew * np.arange(classes))
    truth = weights / weights.sum()
    chances = np.full((classes, classes), (1 - right) / (classes - 1))
    np.fill_diagonal(chances, right)
    return np.column_stack([truth[:, None] * chances * (1 - failed), truth * failed])


def _numbers(chances: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    true, said, both = chances.sum(axis=1), chances[:, :-1].sum(axis=0), np.diag(chances)
    return both / said, both / true, 2 * both / (true + said), true


def macro_precision(chances: Floats) -> float:
    return float(_numbers(chances)[0].mean())


def macro_recall(chances: Floats) -> float:
    return float(_numbers(chances)[1].mean())


def macro_f1(chances: Floats) -> float:
    return float(_numbers(chances)[2].mean())


def weighted_precision(chances: Floats) -> float:
    precision, *_, true = _numbers(chances)
    return float(precision @ true)


def weighted_f1(chances: Floats) -> float:
    *_, f1, true = _numbers(chances)
    return float(f1 @ true)


def last_precision(chances: Floats) -> float:
    return float(_numbers(chances)[0][-1])


def last_f1(chances: Floats) -> float:
    return float(_numbers(chances)[2][-1])


def kappa(chances: Floats) -> float:
    agreed, expected = np.diag(chances).sum(), chances.sum(axis=1) @ chances[:, :-1].sum(axis=0)
    return float((agreed - expected) / (1 - expected))


def roc(distance: float, share: float) -> float:
    """Area under ROC of `ranked`, whatever the share."""
    return float(ndtr(distance / np.sqrt(2)))


def precision_recall(distance: float, share: float) -> float:
    """Area under precision-recall of `ranked`, integrated over the thresholds."""
    levels = np.linspace(distance + 10, -10, 200_001)
    recall, alarms = ndtr(distance - levels), ndtr(-levels)
    precision = share * recall / (share * recall + (1 - share) * alarms)
    return float(np.trapezoid(precision, recall))


def mean_precision_recall(distance: float, share: float) -> float:
    """Mean of both classes' areas."""
    return (precision_recall(distance, share) + precision_recall(distance, 1 - share)) / 2
