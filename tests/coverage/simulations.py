"""Evaluations with a known truth for each interval that can be printed, over its range.

A simulation draws one evaluation and gives its estimate. `table` adds the cases of `rare_cases` to these.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, poch

from steelyard_evaluation.report.comparison.differences import Shares, estimate_difference
from steelyard_evaluation.report.rubrics.judge import kappa_estimate
from steelyard_evaluation.report.rubrics.overlap import BLEU, CHRF, Corpus
from steelyard_evaluation.report.statistics.confusion import CodedLabels, per_class
from steelyard_evaluation.report.statistics.groups import difference_from_rest
from steelyard_evaluation.report.statistics.intervals import (
    Estimate,
    Floats,
    Integers,
    Scale,
    mean,
    proportion,
)
from steelyard_evaluation.report.statistics.ranking import ranking
from steelyard_evaluation.report.statistics.reducers import pass_at_k
from steelyard_evaluation.runs.lm_eval.intervals import by_standard_error, mean_of_tasks
from tests.coverage import populations
from tests.coverage.layouts import (
    CORNERS,
    EVERY,
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


def cases_of(
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


def share_of(rows: Floats, clusters: Integers) -> Estimate:
    return proportion(rows == 1, clusters)


def mean_on(scale: Scale | None) -> Estimator:
    return lambda rows, clusters: mean(rows, clusters, scale)


def passing(icc: float) -> Population:
    """pass@3 of 8 answers to each question; some questions are harder."""

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
    """Share of a beta-binomial distribution above 2 of 5; scipy.stats has it, and takes long to import."""
    right, wrong, counts = 0.8 * (1 - icc) / icc, 0.2 * (1 - icc) / icc, np.arange(3, 6)
    shares = comb(5, counts) * poch(right, counts) * poch(wrong, 5 - counts) / poch(right + wrong, 5)
    return float(shares.sum())


def majority(icc: float) -> Population:
    def draw(rng: Chance, questions: int) -> Floats:
        size = (1 - icc) / icc
        return (rng.binomial(5, rng.beta(0.8 * size, 0.2 * size, questions)) > 2).astype(np.float64)

    return draw


def steps(worse: float, better: float, times: int = 1) -> Rows:
    """Differences of shares, each the mean of some answers to a question."""
    values = (-1.0, 0.0, 1.0)
    single = populations.choice(values, (worse, 1 - worse - better, better))
    name = f"{worse:.1%} worse, {better:.1%} better" + (f", mean of {times}" if times > 1 else "")
    return (
        name,
        better - worse,
        lambda rng, rows: single(rng, times * rows).reshape(rows, times).mean(axis=1),
    )


def step_difference(rows: Floats, clusters: Integers) -> Estimate:
    """Treat the rows as questions that are wholly right or wrong, where they can be."""
    ones = np.ones(rows.size, np.int64)
    wholly = bool(np.isin(rows, (-1.0, 0.0, 1.0)).all())
    right = (Shares((rows > 0).astype(np.int64), ones), Shares((rows < 0).astype(np.int64), ones))
    return estimate_difference(rows, _clusters_or_none(rows, clusters), 1.0, right if wholly else None)[0]


def score_difference(rows: Floats, clusters: Integers) -> Estimate:
    return estimate_difference(rows, _clusters_or_none(rows, clusters), 1.0)[0]


def _clusters_or_none(rows: Floats, clusters: Integers) -> Integers | None:
    return clusters if np.unique(clusters).size < rows.size else None


def groups(
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


def _coded(rows: Floats, clusters: Integers) -> CodedLabels:
    pairs = rows.astype(np.int64)
    classes = int(pairs.max()) + 1
    return CodedLabels(tuple(map(str, range(classes))), pairs[:, 0], pairs[:, 1], clusters)


def average(kind: str, metric: str) -> Estimator:
    def estimate(rows: Floats, clusters: Integers) -> Estimate:
        averages = per_class(_coded(rows, clusters))[1]
        return {"macro": averages.macro, "weighted": averages.weighted}[kind][metric]

    return estimate


def class_f1(rows: Floats, clusters: Integers) -> Estimate:
    return per_class(_coded(rows, clusters))[0][-1].f1


def precision(rows: Floats, clusters: Integers) -> Estimate:
    return per_class(_coded(rows, clusters))[0][-1].precision


def kappa(rows: Floats, clusters: Integers) -> Estimate:
    pairs = rows.astype(np.int64)
    return kappa_estimate(pairs[:, 0], pairs[:, 1], clusters)


def corpus_of(corpus: Corpus) -> Estimator:
    def estimate(rows: Floats, clusters: Integers) -> Estimate:
        starts = np.flatnonzero(np.diff(clusters, prepend=-1))
        return corpus.estimate(np.add.reduceat(rows, starts), np.bincount(clusters).astype(np.float64))

    return estimate


def sentences(counts: Callable[[float, float], Floats], corpus: Corpus) -> Iterator[Rows]:
    for a, b in ((6, 2), (2, 6), (30, 1)):
        every = counts(a, b)
        truth = float(corpus.number(every.sum(axis=0, keepdims=True))[0])
        yield f"Beta({a}, {b})", truth, populations.sampled(every)


def area(which: str, which_class: bool = True) -> Estimator:
    def estimate(rows: Floats, clusters: Integers) -> Estimate:
        shares = np.stack([1 - rows[:, 1], rows[:, 1]], axis=1)
        curves = ranking(("no", "yes"), rows[:, 0].astype(np.int64), shares, clusters)
        if curves is None:
            return Estimate(None, None, None, "no interval: one class", len(rows))
        area: Estimate = getattr(curves.classes[1] if which_class else curves, which)
        return area

    return estimate


def tasks(sizes: tuple[int, ...], shares: tuple[float, ...], times: int = 1) -> Case:
    """A group of lm-eval's in which each task counts the same; every `times` documents are a cluster, and alike."""

    def draw(rng: Chance) -> Estimate:
        tasks = [
            np.repeat(populations.hits(share)(rng, size // times), times)
            for size, share in zip(sizes, shares, strict=True)
        ]
        starts = np.cumsum((0, *sizes))
        return mean_of_tasks(
            tasks, [start + np.arange(len(task)) // times for start, task in zip(starts, tasks, strict=False)]
        )

    return Case(float(np.mean(shares)), draw, sum(sizes))


def bootstrapped(layout: Layout, population: Population, corpus: Corpus, truth: float) -> Case:
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
ORDINARY: dict[str, Simulation] = {
    "share": Simulation("a share", cases_of(_shares(0.01, 0.5, 0.95, 0.995), share_of, EVERY)),
    "failed rows": Simulation(
        "a share, some rows failed",
        cases_of(
            [
                (f"p = {p}, {f:.0%} failed", p * (1 - f), populations.failing(p, f))
                for p in (0.02, 0.9, 1.0)
                for f in (0.02, 0.3)
            ],
            share_of,
        ),
    ),
    "scores": Simulation(
        "a mean of scores between 0 and 1 (judges' grades, token F1, ROUGE)",
        cases_of(
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
            mean_on((0.0, 1.0)),
        ),
    ),
    "brier": Simulation("the Brier score", cases_of([("", 1 / 3, populations.brier)], mean_on((0.0, 2.0)))),
    "pass@k": Simulation(
        "pass@k and best of several answers",
        cases_of(
            [(f"ICC of answers {icc}", _pass_at_3(icc), passing(icc)) for icc in (0.1, 0.9)],
            mean_on((0.0, 1.0)),
        ),
    ),
    "majority": Simulation(
        "the majority vote",
        cases_of(
            [(f"ICC of answers {icc}", _most_right(icc), majority(icc)) for icc in (0.1, 0.9)], share_of
        ),
    ),
    "difference": Simulation(
        "a paired difference of shares",
        cases_of(
            [
                *(
                    steps(*both)
                    for both in ((0.1, 0.2), (0.0, 0.01), (0.005, 0.005), (0.25, 0.25), (0.0, 0.3))
                ),
                steps(0.1, 0.2, 5),
                steps(0.0, 0.02, 5),
            ],
            step_difference,
        ),
    ),
    "difference of scores": Simulation(
        "a paired difference of mean scores",
        cases_of([("", 0.7 * (5 / 6 - 4 / 5), populations.scores_differ)], score_difference),
    ),
    "group": Simulation(
        "a group against the rest: shares",
        {
            name: case
            for p, q in ((0.5, 0.8), (0.98, 0.8), (0.02, 0.02), (0.995, 0.95))
            for name, case in groups(
                f"p = {p} and {q}", (p, populations.hits(p)), (q, populations.hits(q)), (0.0, 1.0)
            ).items()
        },
    ),
    "precision": Simulation(
        "precision and recall of a class",
        cases_of(_labelled(populations.last_precision, _SKEWED), precision),
        dear=True,
    ),
    "F1 of a class": Simulation(
        "F1 of a class", cases_of(_labelled(populations.last_f1, _SKEWED), class_f1), dear=True
    ),
    "macro F1": Simulation(
        "macro F1", cases_of(_labelled(populations.macro_f1, _LABELLED), average("macro", "f1")), dear=True
    ),
    "macro precision": Simulation(
        "macro precision",
        cases_of(_labelled(populations.macro_precision, _LABELLED)[1::2], average("macro", "precision")),
        dear=True,
    ),
    "macro recall": Simulation(
        "macro recall",
        cases_of(_labelled(populations.macro_recall, _LABELLED)[1::2], average("macro", "recall")),
        dear=True,
    ),
    "weighted F1": Simulation(
        "weighted F1",
        cases_of(_labelled(populations.weighted_f1, _LABELLED), average("weighted", "f1")),
        dear=True,
    ),
    "weighted precision": Simulation(
        "weighted precision",
        cases_of(
            _labelled(populations.weighted_precision, _LABELLED)[1::2], average("weighted", "precision")
        ),
        dear=True,
    ),
    "kappa": Simulation(
        "Cohen's kappa",
        cases_of(
            _labelled(populations.kappa, _JUDGED),
            kappa,
        ),
        dear=True,
    ),
    "bleu": Simulation(
        "BLEU of the corpus", cases_of(sentences(populations.sentences, BLEU), corpus_of(BLEU)), dear=True
    ),
    "chrf": Simulation(
        "chrF of the corpus",
        cases_of(sentences(populations.character_sentences, CHRF), corpus_of(CHRF)),
        dear=True,
    ),
    "ROC": Simulation(
        "area under ROC", cases_of(_areas(populations.roc, _CURVES), area("roc_auc")), dear=True
    ),
    "mean ROC": Simulation(
        "mean area under ROC",
        cases_of(_areas(populations.roc, _CURVES[::3]), area("roc_auc", False)),
        dear=True,
    ),
    "precision-recall": Simulation(
        "area under precision-recall",
        cases_of(_areas(populations.precision_recall, _CURVES), area("pr_auc")),
        dear=True,
    ),
    "mean precision-recall": Simulation(
        "mean area under precision-recall",
        cases_of(_areas(populations.mean_precision_recall, _CURVES[::3]), area("pr_auc", False)),
        dear=True,
    ),
    "lm-eval groups": Simulation(
        "lm-eval: a group whose tasks count the same",
        {
            f"{name}, p = {shares[0]} to {shares[-1]}": tasks(sizes, shares)
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
    "lm-eval BLEU": Simulation(
        "lm-eval: BLEU by its standard error",
        {
            f"{layout.name}, {name}": bootstrapped(layout, population, BLEU, truth or 0.0)
            for layout in (*map(independent, (300, 1000, 3000)), unequal("Zipf", 50, 0.5))
            for name, truth, population in sentences(populations.sentences, BLEU)
        },
    ),
}
