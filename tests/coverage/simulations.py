"""Evaluations with a known truth for each interval that can be printed, over its range.

`MADE_BY` names for each function that makes an interval the simulations that try it; test_coverage.py fails where
one is missing. A simulation draws one evaluation and gives its estimate.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from steelyard.report.comparison.statistics import score_difference, share_difference
from steelyard.report.rubrics.judge import kappa_estimate
from steelyard.report.rubrics.overlap import BLEU, CHRF, Corpus
from steelyard.report.statistics.calibration import StatedProbabilities, calibration
from steelyard.report.statistics.confusion import Coded, per_class
from steelyard.report.statistics.groups import difference_from_rest
from steelyard.report.statistics.intervals import Estimate, Floats, Integers, Scale, mean, proportion
from steelyard.report.statistics.ranking import ranking
from steelyard.report.statistics.reducers import pass_at_k
from steelyard.runs.lm_eval.intervals import by_standard_error, mean_of_tasks
from tests.coverage import populations
from tests.coverage.layouts import (
    CORNERS,
    EVERY,
    INDEPENDENT,
    Chance,
    Layout,
    Population,
    independent,
    unequal,
)

Estimator: TypeAlias = Callable[[Floats, Integers], Estimate]
"""Makes the estimate from the rows and their clusters."""
Draw: TypeAlias = Callable[[Chance], Estimate]


@dataclass(frozen=True)
class Case:
    """Evaluations of one kind."""

    truth: float
    draw: Draw
    rows: int
    """Rows of one evaluation."""


@dataclass(frozen=True)
class Simulation:
    """Cases of one kind of number."""

    title: str
    cases: Mapping[str, Case] = field(repr=False)
    dear: bool = False
    """True where an interval takes a millisecond or more: it is drawn a quarter as often."""


Rows: TypeAlias = tuple[str, float, Population]
"""The name of a population, its true number, and how to draw from it."""


def _of(
    several: Iterable[Rows], estimator: Estimator, layouts: Iterable[Layout] = CORNERS
) -> dict[str, Case]:
    """Each population in each layout."""
    return dict(_cases(several, estimator, tuple(layouts)))


def _cases(
    several: Iterable[Rows], estimator: Estimator, layouts: tuple[Layout, ...]
) -> Iterator[tuple[str, Case]]:
    for name, truth, population in several:
        for layout in layouts:

            def draw(rng: Chance, layout: Layout = layout, population: Population = population) -> Estimate:
                return estimator(layout.draw(rng, population), layout.clusters)

            yield f"{layout.name}, {name}" if name else layout.name, Case(truth, draw, layout.rows)


def _shares(*several: float) -> list[Rows]:
    return [(f"p = {share}", share, populations.hits(share)) for share in several]


def _share(rows: Floats, clusters: Integers) -> Estimate:
    return proportion(rows == 1, clusters)


def _mean(scale: Scale | None) -> Estimator:
    return lambda rows, clusters: mean(rows, clusters, scale)


def _pass(icc: float) -> Population:
    """pass@3 of 8 answers to each question, some of which are harder."""

    def draw(rng: Chance, questions: int) -> Floats:
        size = (1 - icc) / icc
        right = rng.binomial(8, rng.beta(0.6 * size, 0.4 * size, questions))
        return pass_at_k(np.full(questions, 8), right.astype(np.int64), 3)

    return draw


def _pass_at_3(icc: float) -> float:
    """1 − E(1 − r)³ for shares r of a beta distribution: pass@k is unbiased."""
    size = (1 - icc) / icc
    return 1 - float(np.prod([(0.4 * size + step) / (size + step) for step in range(3)]))


def _most_right(icc: float) -> float:
    size = (1 - icc) / icc
    return float(betabinom.sf(2, 5, 0.8 * size, 0.2 * size))


def _most(icc: float) -> Population:
    def draw(rng: Chance, questions: int) -> Floats:
        size = (1 - icc) / icc
        return (rng.binomial(5, rng.beta(0.8 * size, 0.2 * size, questions)) > 2).astype(np.float64)

    return draw


def _steps(worse: float, better: float, times: int = 1) -> Rows:
    """Differences of shares, each the mean of some answers to a question."""
    values = (-1.0, 0.0, 1.0)
    single = populations.choice(values, (worse, 1 - worse - better, better))
    name = f"{worse:.1%} worse, {better:.1%} better" + (f", mean of {times}" if times > 1 else "")
    return (
        name,
        better - worse,
        lambda rng, rows: single(rng, times * rows).reshape(rows, times).mean(axis=1),
    )


def _step_difference(rows: Floats, clusters: Integers) -> Estimate:
    return share_difference(rows, clusters if np.unique(clusters).size < rows.size else None)


def _score_difference(rows: Floats, clusters: Integers) -> Estimate:
    return score_difference(rows, clusters, 1.0)


def _groups(
    name: str, group: tuple[float, Population], rest: tuple[float, Population], scale: Scale | None
) -> dict[str, Case]:
    """A group of some clusters of its own against the rest."""
    cases = {}
    for here, other in (
        *((independent(size), independent(200)) for size in (3, 10, 100, 5000)),
        (independent(30), independent(10_000)),
        (unequal("Zipf", 12, 0.5), unequal("Zipf", 50, 0.5)),
        (unequal("one half", 12, 0.95), unequal("one half", 50, 0.1)),
        (unequal("Zipf", 50, 0.95), independent(200)),
    ):
        clusters = np.concatenate([here.clusters, here.sizes.size + other.clusters])
        inside = np.arange(clusters.size) < here.rows

        def draw(
            rng: Chance,
            here: Layout = here,
            other: Layout = other,
            clusters: Integers = clusters,
            inside: NDArray[np.bool_] = inside,
        ) -> Estimate:
            rows = np.concatenate([here.draw(rng, group[1]), other.draw(rng, rest[1])])
            return difference_from_rest(rows, inside, clusters, scale)[0]

        cases[f"{here.name} against {other.name}, {name}"] = Case(group[0] - rest[0], draw, clusters.size)
    return cases


def _coded(rows: Floats, clusters: Integers) -> Coded:
    pairs = rows.astype(np.int64)
    classes = int(pairs.max()) + 1
    return Coded(tuple(map(str, range(classes))), pairs[:, 0], pairs[:, 1], clusters)


def _average(kind: str, metric: str) -> Estimator:
    def estimate(rows: Floats, clusters: Integers) -> Estimate:
        averages = per_class(_coded(rows, clusters))[1]
        return {"macro": averages.macro, "weighted": averages.weighted}[kind][metric]

    return estimate


def _class_f1(rows: Floats, clusters: Integers) -> Estimate:
    return per_class(_coded(rows, clusters))[0][-1].f1


def _precision(rows: Floats, clusters: Integers) -> Estimate:
    return per_class(_coded(rows, clusters))[0][-1].precision


def _kappa(rows: Floats, clusters: Integers) -> Estimate:
    pairs = rows.astype(np.int64)
    return kappa_estimate(pairs[:, 0], pairs[:, 1], clusters)


def _calibration(rows: Floats, clusters: Integers) -> Estimate:
    answers = StatedProbabilities(rows[:, 0], rows[:, 1] == 1, np.zeros(len(rows)), clusters)
    return calibration(answers, bins=10).error


def _corpus(corpus: Corpus) -> Estimator:
    def estimate(rows: Floats, clusters: Integers) -> Estimate:
        starts = np.flatnonzero(np.diff(clusters, prepend=-1))
        return corpus.estimate(np.add.reduceat(rows, starts), np.bincount(clusters).astype(np.float64))

    return estimate


def _sentences(counts: Callable[[float, float], Floats], corpus: Corpus) -> Iterator[Rows]:
    for a, b in ((6, 2), (2, 6), (30, 1)):
        every = counts(a, b)
        truth = float(corpus.number(every.sum(axis=0, keepdims=True))[0])
        yield f"Beta({a}, {b})", truth, populations.sampled(every)


def _area(which: str, which_class: bool = True) -> Estimator:
    def estimate(rows: Floats, clusters: Integers) -> Estimate:
        shares = np.stack([1 - rows[:, 1], rows[:, 1]], axis=1)
        curves = ranking(("no", "yes"), rows[:, 0].astype(np.int64), shares, clusters)
        if curves is None:
            return Estimate(None, None, None, "no interval: one class", len(rows))
        area: Estimate = getattr(curves.classes[1] if which_class else curves, which)
        return area

    return estimate


def _tasks(sizes: tuple[int, ...], shares: tuple[float, ...]) -> Case:
    """A group of lm-eval's in which each task counts the same."""

    def draw(rng: Chance) -> Estimate:
        tasks = [populations.hits(share)(rng, size) for size, share in zip(sizes, shares, strict=True)]
        starts = np.cumsum((0, *sizes))
        return mean_of_tasks(
            tasks, [start + np.arange(len(task)) for start, task in zip(starts, tasks, strict=False)]
        )

    return Case(float(np.mean(shares)), draw, sum(sizes))


def _perplexity(layout: Layout, spread: float) -> Case:
    """exp of the mean of log-likelihoods, with the error that very many bootstrap draws would give."""

    def draw(rng: Chance) -> Estimate:
        losses = layout.draw(rng, lambda rng, rows: rng.gamma(1 / spread**2, 2 * spread**2, rows))
        value = float(np.exp(losses.mean()))
        error = float(value * losses.std() / np.sqrt(losses.size))
        return by_standard_error("perplexity", value, error, layout.clusters)

    return Case(float(np.exp(2.0)), draw, layout.rows)


def _bootstrapped(layout: Layout, population: Population, corpus: Corpus, truth: float) -> Case:
    """BLEU as lm-eval has it: the standard deviation of 100 corpora drawn again."""

    def draw(rng: Chance) -> Estimate:
        rows = layout.draw(rng, population)
        times = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), 100)
        error = float(np.std(corpus.number(times @ rows), ddof=1))
        value = float(corpus.number(rows.sum(axis=0, keepdims=True))[0])
        return by_standard_error("bleu", value, error, layout.clusters)

    return Case(truth, draw, layout.rows)


_LABELLED = {
    **{
        f"{k} classes, skew {s}, {r:.0%} right": (k, s, r, 0.0)
        for k, s in ((2, 0.0), (2, 2.2), (5, 0.3))
        for r in (0.6, 0.97)
    },
    "3 classes, 95% right, 10% failed": (3, 0.3, 0.95, 0.1),
}
_SKEWED = {f"3 classes, {r:.1%} right": (3, 0.7, r, 0.0) for r in (0.05, 0.6, 0.97, 0.995)}
_JUDGED = {f"skew {s}, {r:.0%} agree": (3, s, r, 0.0) for s in (0.0, 1.5) for r in (0.35, 0.6, 0.97)}


def _labelled(
    number: Callable[[Floats], float], which: Mapping[str, tuple[int, float, float, float]]
) -> list[Rows]:
    """Labels, with the true number by the chances of each pair of labels."""
    return [(name, number(populations.pairs(*of)), populations.labels(*of)) for name, of in which.items()]


def _areas(number: Callable[[float, float], float], several: Iterable[tuple[float, float]]) -> list[Rows]:
    return [(f"distance {d}, {s:.0%} true", number(d, s), populations.ranked(d, s)) for d, s in several]


_CURVES = ((0.5, 0.1), (0.5, 0.5), (3.0, 0.1), (3.0, 0.5))
_LONG: list[Rows] = [
    ("exponential", 1.0, populations.exponential),
    ("log-normal, σ = 0.6", 1.0, populations.lognormal(0.6)),
    ("log-normal, σ = 1", 1.0, populations.lognormal(1.0)),
]

SIMULATIONS: dict[str, Simulation] = {
    "share": Simulation("a share", _of(_shares(0.01, 0.5, 0.95, 0.995), _share, EVERY)),
    "failed rows": Simulation(
        "a share, some rows failed",
        _of(
            [
                (f"p = {p}, {f:.0%} failed", p * (1 - f), populations.failing(p, f))
                for p in (0.02, 0.9, 1.0)
                for f in (0.02, 0.3)
            ],
            _share,
        ),
    ),
    "scores": Simulation(
        "a mean of scores between 0 and 1 (judges' grades, token F1, ROUGE)",
        _of(
            [
                ("grades", 0.95, populations.choice((0.0, 0.5, 1.0), (0.03, 0.04, 0.93))),
                ("even", 0.5, populations.beta(1, 1)),
                ("near 1", 100 / 101, populations.beta(2, 0.02)),
                ("near 0", 1 / 41, populations.beta(0.05, 2)),
                (
                    "even, 10% failed",
                    0.45,
                    populations.failing_scores(populations.beta(1, 1), 0.1),
                ),
            ],
            _mean((0.0, 1.0)),
        ),
    ),
    "brier": Simulation("the Brier score", _of([("", 1 / 3, populations.brier)], _mean((0.0, 2.0)))),
    "numbers": Simulation("a mean without a scale (lengths)", _of(_LONG, _mean(None))),
    "pass@k": Simulation(
        "pass@k and best of several answers",
        _of(
            [(f"ICC of answers {icc}", _pass_at_3(icc), _pass(icc)) for icc in (0.1, 0.9)], _mean((0.0, 1.0))
        ),
    ),
    "majority": Simulation(
        "the majority vote",
        _of([(f"ICC of answers {icc}", _most_right(icc), _most(icc)) for icc in (0.1, 0.9)], _share),
    ),
    "difference": Simulation(
        "a paired difference of shares",
        _of(
            [
                *(
                    _steps(*both)
                    for both in ((0.1, 0.2), (0.0, 0.01), (0.005, 0.005), (0.25, 0.25), (0.0, 0.3))
                ),
                _steps(0.1, 0.2, 5),
                _steps(0.0, 0.02, 5),
            ],
            _step_difference,
        ),
    ),
    "difference of scores": Simulation(
        "a paired difference of mean scores",
        _of([("", 0.7 * (5 / 6 - 4 / 5), populations.scores_differ)], _score_difference),
    ),
    "group": Simulation(
        "a group against the rest: shares",
        {
            name: case
            for p, q in ((0.5, 0.8), (0.98, 0.8), (0.02, 0.02), (0.995, 0.95))
            for name, case in _groups(
                f"p = {p} and {q}", (p, populations.hits(p)), (q, populations.hits(q)), (0.0, 1.0)
            ).items()
        },
    ),
    "group of numbers": Simulation(
        "a group against the rest: means without a scale",
        {
            name: case
            for kind, _, population in _LONG
            for name, case in _groups(kind, (1.0, population), (1.0, population), None).items()
        },
    ),
    "precision": Simulation(
        "precision and recall of a class",
        _of(_labelled(populations.last_precision, _SKEWED), _precision),
        dear=True,
    ),
    "F1 of a class": Simulation(
        "F1 of a class", _of(_labelled(populations.last_f1, _SKEWED), _class_f1), dear=True
    ),
    "macro F1": Simulation(
        "macro F1", _of(_labelled(populations.macro_f1, _LABELLED), _average("macro", "f1")), dear=True
    ),
    "macro precision": Simulation(
        "macro precision",
        _of(_labelled(populations.macro_precision, _LABELLED)[1::2], _average("macro", "precision")),
        dear=True,
    ),
    "macro recall": Simulation(
        "macro recall",
        _of(_labelled(populations.macro_recall, _LABELLED)[1::2], _average("macro", "recall")),
        dear=True,
    ),
    "weighted F1": Simulation(
        "weighted F1",
        _of(_labelled(populations.weighted_f1, _LABELLED), _average("weighted", "f1")),
        dear=True,
    ),
    "weighted precision": Simulation(
        "weighted precision",
        _of(_labelled(populations.weighted_precision, _LABELLED)[1::2], _average("weighted", "precision")),
        dear=True,
    ),
    "kappa": Simulation(
        "Cohen's kappa",
        _of(
            _labelled(populations.kappa, _JUDGED),
            _kappa,
        ),
        dear=True,
    ),
    "calibration": Simulation(
        "the calibration error",
        _of([(f"gap {gap}", gap, populations.stated(gap)) for gap in (0.0, 0.1, 0.3)], _calibration),
        dear=True,
    ),
    "bleu": Simulation(
        "BLEU of the corpus", _of(_sentences(populations.sentences, BLEU), _corpus(BLEU)), dear=True
    ),
    "chrf": Simulation(
        "chrF of the corpus", _of(_sentences(populations.character_sentences, CHRF), _corpus(CHRF)), dear=True
    ),
    "ROC": Simulation("area under ROC", _of(_areas(populations.roc, _CURVES), _area("roc_auc")), dear=True),
    "mean ROC": Simulation(
        "mean area under ROC", _of(_areas(populations.roc, _CURVES[::3]), _area("roc_auc", False)), dear=True
    ),
    "precision-recall": Simulation(
        "area under precision-recall",
        _of(_areas(populations.precision_recall, _CURVES), _area("pr_auc")),
        dear=True,
    ),
    "mean precision-recall": Simulation(
        "mean area under precision-recall",
        _of(_areas(populations.mean_precision_recall, _CURVES[::3]), _area("pr_auc", False)),
        dear=True,
    ),
    "lm-eval groups": Simulation(
        "lm-eval: a group whose tasks count the same",
        {
            f"{name}, p = {shares[0]} to {shares[-1]}": _tasks(sizes, shares)
            for name, sizes in (
                ("10 and 10", (10, 10)),
                ("10 and 1,000", (10, 1000)),
                ("20, 100 and 10,000", (20, 100, 10_000)),
                ("50 tasks of 100", (100,) * 50),
            )
            for shares in (
                (0.5,) * len(sizes),
                (0.99,) * len(sizes),
                tuple(float(p) for p in np.linspace(0.3, 0.95, len(sizes)).round(2)),
            )
        },
    ),
    "lm-eval perplexity": Simulation(
        "lm-eval: perplexity by its standard error",
        {
            f"{layout.name}, spread {spread}": _perplexity(layout, spread)
            for layout in (*INDEPENDENT, unequal("Zipf", 50, 0.5))
            for spread in (0.2, 1.0, 1.5)
        },
    ),
    "lm-eval BLEU": Simulation(
        "lm-eval: BLEU by its standard error",
        {
            f"{layout.name}, {name}": _bootstrapped(layout, population, BLEU, truth or 0.0)
            for layout in (*map(independent, (300, 1000, 3000)), unequal("Zipf", 50, 0.5))
            for name, truth, population in _sentences(populations.sentences, BLEU)
        },
    ),
}

MADE_BY: dict[str, tuple[str, ...]] = {
    "report.statistics.intervals.proportion": ("share", "failed rows", "majority", "precision"),
    "report.statistics.intervals.mean": ("scores", "brier", "numbers", "pass@k", "difference of scores"),
    "report.comparison.statistics.share_difference": ("difference",),
    "report.statistics.groups.difference_from_rest": ("group", "group of numbers"),
    "report.statistics.confusion._averaged": (
        "macro F1",
        "macro precision",
        "macro recall",
        "weighted F1",
        "weighted precision",
    ),
    "report.statistics.confusion._f1": ("F1 of a class",),
    "report.rubrics.judge.kappa_estimate": ("kappa",),
    "report.statistics.calibration._debiased": ("calibration",),
    "report.rubrics.overlap.estimate": ("bleu", "chrf"),
    "report.statistics.ranking._log_odds_interval": (
        "ROC",
        "mean ROC",
        "precision-recall",
        "mean precision-recall",
    ),
    "runs.lm_eval.intervals.mean_of_tasks": ("lm-eval groups",),
    "runs.lm_eval.intervals.by_standard_error": ("lm-eval perplexity", "lm-eval BLEU"),
}
NO_INTERVALS_OF_THEIR_OWN = {"report.audit.numbers.estimate": "reads a report's"}
