"""Populations that try intervals hardest: a rare class, rare large values, and one-sided differences."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from steelyard_evaluation.report.statistics.intervals import Floats, Integers
from tests.coverage.layouts import Chance, Population

WEIGHTS = (0.49, 0.49, 0.02)
"""Shares of three classes, the last one rare."""


def rare_labels(right: Sequence[float], weights: Sequence[float] = WEIGHTS) -> Population:
    """The true and the predicted class; each class is recognised with its own chance."""

    def draw(rng: Chance, rows: int) -> Floats:
        truth = rng.choice(len(weights), rows, p=weights)
        other = (truth + rng.integers(1, len(weights), rows)) % len(weights)
        said = np.where(rng.random(rows) < np.asarray(right)[truth], truth, other)
        return np.stack([truth, said], axis=1).astype(np.float64)

    return draw


def rare_pairs(right: Sequence[float], weights: Sequence[float] = WEIGHTS) -> Floats:
    """The chance of each true and predicted class in `rare_labels`; the last column, of failed rows, is empty."""
    classes = len(weights)
    chances = np.zeros((classes, classes + 1))
    for true, (weight, share) in enumerate(zip(weights, right, strict=True)):
        chances[true, :classes] = weight * (1 - share) / (classes - 1)
        chances[true, true] = weight * share
    return chances


def one_sided(share: float, loss: float) -> Population:
    """Differences of mean 0: a loss in a small share of the questions, and a small gain in all others."""
    return lambda rng, rows: np.where(rng.random(rows) < share, -loss, loss * share / (1 - share))


def once_against(times: int, right: float) -> Population:
    """Differences of two equally good systems, one asked once and the other several times."""
    return lambda rng, rows: rng.binomial(times, right, rows) / times - (rng.random(rows) < right)


def missed(distance: float, share: float, lost: float) -> Population:
    """Rows that say whether the class is true, and its probability; some rows of the class have the lowest."""

    def draw(rng: Chance, rows: int) -> Floats:
        truth = rng.random(rows) < share
        level = np.where(rng.random(rows) < lost, -4.0, distance) * truth
        return np.stack([truth, 1 / (1 + np.exp(-rng.normal(level, 1)))], axis=1)

    return draw


def missed_roc(distance: float, lost: float) -> float:
    return float((1 - lost) * ndtr(distance / np.sqrt(2)) + lost * ndtr(-4 / np.sqrt(2)))


def missed_precision_recall(distance: float, share: float, lost: float) -> float:
    levels = np.linspace(distance + 10, -15, 250_001)
    recall = (1 - lost) * ndtr(distance - levels) + lost * ndtr(-4 - levels)
    precision = share * recall / (share * recall + (1 - share) * ndtr(-levels))
    return float(np.trapezoid(precision, recall))


def missed_mean_precision_recall(distance: float, share: float, lost: float) -> float:
    """Mean of the areas of the class and of the rest."""
    levels = np.linspace(-15, distance + 10, 250_001)
    recall = ndtr(levels)
    alarms = (1 - lost) * ndtr(levels - distance) + lost * ndtr(levels + 4)
    precision = (1 - share) * recall / ((1 - share) * recall + share * alarms)
    rest = float(np.trapezoid(precision, recall))
    return (missed_precision_recall(distance, share, lost) + rest) / 2


def with_long_texts(every: Floats, share: float, times: int, seed: int = 2) -> Floats:
    """Counts of sentences; a share of them are so many times as long."""
    long: Integers = np.where(np.random.default_rng(seed).random(len(every)) < share, times, 1)
    return every * long[:, None]
