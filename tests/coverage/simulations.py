"""Evaluations with a known truth for each interval that can be printed, over its range.

`MADE_BY` names for each function that makes an interval the simulations that try it; test_coverage.py fails where
one is missing. A simulation draws one evaluation and gives its estimate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from steelyard.report.comparison.statistics import score_difference, share_difference
from steelyard.report.rubrics.judge import kappa_estimate
from steelyard.report.rubrics.overlap import BLEU
from steelyard.report.statistics.calibration import StatedProbabilities, calibration
from steelyard.report.statistics.confusion import Coded, per_class
from steelyard.report.statistics.groups import difference_from_rest
from steelyard.report.statistics.intervals import Estimate, Floats, Integers, mean, proportion
from steelyard.report.statistics.ranking import ranking
from steelyard.report.statistics.reducers import pass_at_k

Draw: TypeAlias = Callable[[np.random.Generator], Estimate]
Case: TypeAlias = tuple[float, Draw]


@dataclass(frozen=True)
class Simulation:
    """Cases of one kind of number: the truth of each, and how to draw an evaluation."""

    title: str
    cases: Mapping[str, Case | Callable[[], Case]] = field(repr=False)
    """A function where the truth is found by drawing."""


def _rates(chance: np.random.Generator, share: float, icc: float, clusters: int) -> Floats:
    """Each cluster's share of right answers: they correlate by `icc` within a cluster."""
    if icc == 0:
        return np.full(clusters, share)
    size = (1 - icc) / icc
    return np.asarray(chance.beta(share * size, (1 - share) * size, clusters), dtype=np.float64)


def _share(n: int, share: float) -> Draw:
    return lambda chance: proportion(chance.random(n) < share, np.arange(n))


def _clustered(sizes: Integers, share: float, icc: float) -> Draw:
    clusters = np.repeat(np.arange(sizes.size), sizes)

    def draw(chance: np.random.Generator) -> Estimate:
        rates = _rates(chance, share, icc, sizes.size)
        return proportion(chance.random(clusters.size) < rates[clusters], clusters)

    return draw


def _sizes(kind: str, clusters: int) -> Integers:
    order = np.arange(clusters)
    if kind == "one half":  # one cluster has as many rows as all others
        return np.where(order == 0, 5 * (clusters - 1), 5)
    return np.maximum(1, np.round(200 / (order + 1))).astype(np.int64)


def _failing(n: int, share: float, failed: float) -> Draw:
    """Rows that failed count as wrong: the truth is the share of all rows."""
    return lambda chance: proportion((chance.random(n) < share) & (chance.random(n) >= failed), np.arange(n))


def _mean(n: int, values: Callable[[np.random.Generator, int], Floats], scaled: bool) -> Draw:
    return lambda chance: mean(values(chance, n), np.arange(n), (0.0, 1.0) if scaled else None)


def _beta(a: float, b: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda chance, n: np.asarray(chance.beta(a, b, n), dtype=np.float64)


def _grades(chance: np.random.Generator, n: int) -> Floats:
    return np.asarray(chance.choice([0.0, 0.5, 1.0], n, p=[0.03, 0.04, 0.93]), dtype=np.float64)


def _pass(n: int, times: int, k: int, share: float, icc: float) -> tuple[float, Draw]:
    def values(chance: np.random.Generator, questions: int) -> Floats:
        right = chance.binomial(times, _rates(chance, share, icc, questions))
        return pass_at_k(np.full(questions, times), right.astype(np.int64), k)

    truth = float(values(np.random.default_rng(1), 200_000).mean())
    return truth, _mean(n, values, scaled=True)


def _most(n: int, times: int, share: float, icc: float) -> tuple[float, Draw]:
    def right(chance: np.random.Generator, questions: int) -> Floats:
        return (chance.binomial(times, _rates(chance, share, icc, questions)) * 2 > times).astype(np.float64)

    truth = float(right(np.random.default_rng(1), 200_000).mean())
    return truth, lambda chance: proportion(right(chance, n) == 1, np.arange(n))


def _difference(sizes: Integers, share: float, gain: float, icc: float) -> Draw:
    clusters = np.repeat(np.arange(sizes.size), sizes)

    def draw(chance: np.random.Generator) -> Estimate:
        rates = _rates(chance, share, icc, sizes.size)[clusters]
        level = chance.random(clusters.size)  # the same questions are hard for both
        steps = (level < rates + gain * (1 - rates)).astype(np.float64) - (level < rates)
        return share_difference(steps, clusters if clusters.size > sizes.size else None)

    return draw


def _scores_differ(n: int) -> Draw:
    def draw(chance: np.random.Generator) -> Estimate:
        first, second = chance.beta(4, 1, n), chance.beta(5, 1, n)
        return score_difference(np.where(chance.random(n) < 0.3, 0.0, second - first), None, 1.0)

    return draw


def _group(here: int, rest: int, share: float) -> Draw:
    inside = np.arange(here + rest) < here

    def draw(chance: np.random.Generator) -> Estimate:
        hits = (chance.random(inside.size) < np.where(inside, share, 0.8)).astype(np.float64)
        return difference_from_rest(hits, inside, np.arange(inside.size), (0.0, 1.0))[0]

    return draw


def _labels(chance: np.random.Generator, n: int, classes: int, skew: float, right: float) -> Coded:
    weights = np.exp(-skew * np.arange(classes))
    truth = chance.choice(classes, n, p=weights / weights.sum())
    other = (truth + chance.integers(1, classes, n)) % classes
    said = np.where(chance.random(n) < right, truth, other)
    return Coded(tuple(map(str, range(classes))), truth, said, np.arange(n))


def _f1(n: int, classes: int, skew: float, right: float, average: str) -> tuple[float, Draw]:
    coded = _labels(np.random.default_rng(1), 200_000, classes, skew, right)
    counts = np.bincount(coded.truth * classes + coded.prediction, minlength=classes**2).reshape(
        classes, classes
    )
    f1_scores = 2 * np.diag(counts) / (counts.sum(axis=0) + counts.sum(axis=1))
    truth = f1_scores.mean() if average == "macro" else f1_scores @ counts.sum(axis=1) / counts.sum()
    if average == "class":
        truth = f1_scores[-1]

    def draw(chance: np.random.Generator) -> Estimate:
        rows, averages = per_class(_labels(chance, n, classes, skew, right))
        both = {"macro": averages.macro, "weighted": averages.weighted}
        return rows[-1].f1 if average == "class" else both[average]["f1"]

    return float(truth), draw


def _kappa(n: int, skew: float, right: float) -> tuple[float, Draw]:
    coded = _labels(np.random.default_rng(1), 200_000, 3, skew, right)
    truth = kappa_estimate(coded.truth, coded.prediction, np.arange(200_000) // 2_000).value or 0.0

    def draw(chance: np.random.Generator) -> Estimate:
        pair = _labels(chance, n, 3, skew, right)
        return kappa_estimate(pair.truth, pair.prediction, pair.clusters)

    return truth, draw


def _calibration(n: int, gap: float, times: int = 1) -> Draw:
    def draw(chance: np.random.Generator) -> Estimate:
        stated = np.repeat(chance.uniform(0.5, 1, n), times)
        right = chance.random(n * times) < stated - gap
        clusters = np.repeat(np.arange(n), times)
        return calibration(StatedProbabilities(stated, right, np.zeros(n * times), clusters), bins=10).error

    return draw


@cache
def _sentences(a: float, b: float) -> Floats:
    """Counts of many sentences: lengths, n-grams right, n-grams."""
    chance = np.random.default_rng(1)
    said = np.maximum(1, np.round(np.exp(chance.normal(2.8, 0.6, 20_000)))).astype(np.int64)
    true = np.maximum(1, np.round(said * np.exp(chance.normal(0.02, 0.2, said.size))))
    good = chance.beta(a, b, said.size)
    total = [np.maximum(said - order, 0) for order in range(4)]
    right = [chance.binomial(said, good)]
    for order in range(1, 4):
        right.append(chance.binomial(np.minimum(right[-1], total[order]), 0.95 * np.sqrt(good)))
    return np.stack([said, true, *right, *total], axis=1).astype(np.float64)


def _bleu(n: int, a: float, b: float) -> tuple[float, Draw]:
    every = _sentences(a, b)
    truth = float(BLEU.number(every.sum(axis=0, keepdims=True))[0])
    return truth, lambda chance: BLEU.estimate(every[chance.integers(0, len(every), n)], np.ones(n))


def _areas(n: int, distance: float, share: float, which: str) -> tuple[float, Draw]:
    def estimate(chance: np.random.Generator, rows: int) -> Estimate:
        truth = (chance.random(rows) < share).astype(np.int64)
        score = 1 / (1 + np.exp(-chance.normal(distance * truth, 1)))
        curves = ranking(("no", "yes"), truth, np.stack([1 - score, score], axis=1), np.arange(rows))
        if curves is None:
            return Estimate(None, None, None, "no interval: one class", rows)
        return curves.classes[1].roc_auc if which == "roc_auc" else curves.classes[1].pr_auc

    return estimate(np.random.default_rng(1), 100_000).value or 0.0, lambda chance: estimate(chance, n)


SIMULATIONS: dict[str, Simulation] = {
    "share": Simulation(
        "a share, of independent rows",
        {
            f"n = {n:,}, p = {p}": (p, _share(n, p))
            for n in (10, 30, 100, 1000, 10_000)
            for p in (0.01, 0.5, 0.95, 0.995)
        },
    ),
    "failed rows": Simulation(
        "a share, some rows failed",
        {
            f"n = {n:,}, {f:.0%} failed": (0.9 * (1 - f), _failing(n, 0.9, f))
            for n in (20, 200)
            for f in (0.02, 0.3)
        },
    ),
    "replications": Simulation(
        "a share, each question asked 5 times",
        {
            f"{n} questions, p = {p}, ICC {icc}": (p, _clustered(np.full(n, 5), p, icc))
            for n in (10, 50, 500)
            for p in (0.5, 0.95)
            for icc in (0.0, 0.5, 0.95)
        },
    ),
    "clusters": Simulation(
        "a share, unequal clusters",
        {
            f"{g} clusters, {kind}, p = {p}, ICC {icc}": (p, _clustered(_sizes(kind, g), p, icc))
            for g in (5, 12, 50)
            for kind in ("one half", "Zipf")
            for p in (0.5, 0.95)
            for icc in (0.1, 0.5)
        },
    ),
    "scores": Simulation(
        "a mean of scores between 0 and 1 (judges' grades, token F1, ROUGE, Brier scores)",
        {
            f"{name}, n = {n:,}": (truth, _mean(n, values, scaled=True))
            for name, truth, values in (
                ("grades", 0.95, _grades),
                ("even", 0.5, _beta(1, 1)),
                ("near 1", 100 / 101, _beta(2, 0.02)),
            )
            for n in (10, 50, 1000)
        },
    ),
    "numbers": Simulation(
        "a mean without a scale (lengths)",
        {
            f"exponential, n = {n}": (
                1.0,
                _mean(n, lambda chance, size: chance.exponential(size=size), scaled=False),
            )
            for n in (20, 50, 300)
        },
    ),
    "pass@k": Simulation(
        "pass@k and best of several answers",
        {
            f"{n} questions, ICC {icc}": partial(_pass, n, 8, 3, 0.6, icc)
            for n in (20, 200)
            for icc in (0.1, 0.9)
        },
    ),
    "majority": Simulation(
        "the majority vote",
        {
            f"{n} questions, ICC {icc}": partial(_most, n, 5, 0.8, icc)
            for n in (20, 200)
            for icc in (0.1, 0.9)
        },
    ),
    "difference": Simulation(
        "a paired difference of shares",
        {
            f"{sizes.size} × {kind}, p = {p}, gain {g}": (g * (1 - p), _difference(sizes, p, g, 0.3))
            for kind, sizes in (
                ("1", np.ones(10, np.int64)),
                ("1", np.ones(300, np.int64)),
                ("10", np.full(20, 10)),
                ("one half", _sizes("one half", 20)),
                ("Zipf", _sizes("Zipf", 50)),
            )
            for p, g in ((0.5, 0.2), (0.95, 0.4))
        },
    ),
    "difference of scores": Simulation(
        "a paired difference of mean scores",
        {f"n = {n}": (0.7 * (5 / 6 - 4 / 5), _scores_differ(n)) for n in (10, 50, 1000)},
    ),
    "group": Simulation(
        "a group against the rest",
        {
            f"{here} of {here + 200}, p = {p}": (p - 0.8, _group(here, 200, p))
            for here in (3, 20, 100)
            for p in (0.5, 0.98)
        },
    ),
    "macro F1": Simulation(
        "macro F1, precision, recall",
        {
            f"{k} classes, skew {s}, {r:.0%} right, n = {n}": partial(_f1, n, k, s, r, "macro")
            for n in (30, 300)
            for k, s in ((2, 0.0), (2, 2.2), (5, 0.3))
            for r in (0.6, 0.97)
        },
    ),
    "weighted F1": Simulation(
        "weighted F1, precision, recall",
        {
            f"{k} classes, {r:.0%} right, n = {n}": partial(_f1, n, k, 0.7, r, "weighted")
            for n in (30, 300)
            for k in (2, 5)
            for r in (0.6, 0.97)
        },
    ),
    "F1 of a class": Simulation(
        "F1 of a class",
        {
            f"{r:.0%} right, n = {n}": partial(_f1, n, 3, 0.7, r, "class")
            for n in (30, 300)
            for r in (0.6, 0.97)
        },
    ),
    "kappa": Simulation(
        "Cohen's kappa",
        {
            f"skew {s}, {r:.0%} agree, n = {n}": partial(_kappa, n, s, r)
            for n in (30, 200)
            for s in (0.0, 1.0)
            for r in (0.6, 0.97)
        },
    ),
    "calibration": Simulation(
        "the calibration error",
        {
            f"gap {gap}, n = {n:,}, asked {t} times": (gap, _calibration(n, gap, t))
            for n in (50, 300, 2000)
            for gap in (0.0, 0.1, 0.3)
            for t in (1, 3)
        },
    ),
    "corpus": Simulation(
        "BLEU and chrF of the corpus",
        {
            f"Beta({a}, {b}), n = {n}": partial(_bleu, n, a, b)
            for n in (10, 50, 300)
            for a, b in ((6, 2), (2, 6), (30, 1))
        },
    ),
    "ROC": Simulation(
        "area under ROC",
        {
            f"n = {n}, distance {d}": partial(_areas, n, d, 0.3, "roc_auc")
            for n in (20, 50, 300)
            for d in (0.5, 2.0)
        },
    ),
    "precision-recall": Simulation(
        "area under precision-recall",
        {
            f"n = {n}, distance {d}": partial(_areas, n, d, 0.3, "pr_auc")
            for n in (20, 50, 300)
            for d in (0.5, 2.0)
        },
    ),
}

MADE_BY: dict[str, tuple[str, ...]] = {
    "report.statistics.intervals.proportion": (
        "share",
        "failed rows",
        "replications",
        "clusters",
        "majority",
    ),
    "report.statistics.intervals.mean": ("scores", "numbers", "pass@k"),
    "report.comparison.statistics.share_difference": ("difference",),
    "report.statistics.groups.difference_from_rest": ("group",),
    "report.statistics.confusion._averaged": ("macro F1", "weighted F1"),
    "report.statistics.confusion._f1": ("F1 of a class",),
    "report.rubrics.judge.kappa_estimate": ("kappa",),
    "report.statistics.calibration._debiased": ("calibration",),
    "report.rubrics.overlap.estimate": ("corpus",),
    "report.statistics.ranking._log_odds_interval": ("ROC", "precision-recall"),
}
NO_INTERVALS_OF_THEIR_OWN = {
    "report.audit.numbers.estimate": "reads a report's",
    "runs.lm_eval.results._estimate": "lm-eval's own standard error",
}
