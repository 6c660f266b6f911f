"""Cases with a rare class or event, and with rare large values, for every kind of interval, also in clusters."""

from collections.abc import Callable

import numpy as np

from steelyard_evaluation.report.rubrics.overlap import BLEU, CHRF, Corpus
from steelyard_evaluation.report.statistics.intervals import Floats
from tests.coverage import populations, rare
from tests.coverage.layouts import Layout, independent, replicated, unequal
from tests.coverage.simulations import (
    Case,
    Estimator,
    Rows,
    Simulation,
    area,
    average,
    bootstrapped,
    cases_of,
    class_f1,
    corpus_of,
    groups,
    kappa,
    mean_on,
    precision,
    score_difference,
    share_of,
    step_difference,
    steps,
    tasks,
)

LAYOUTS: tuple[Layout, ...] = (
    *map(independent, (30, 100, 300, 1000)),
    replicated(50, 5, 0.5),
    replicated(500, 5, 0.5),
    unequal("Zipf", 50, 0.5),
)
LARGE_LAYOUTS: tuple[Layout, ...] = (
    *map(independent, (600, 1000, 3000)),
    replicated(1000, 5, 0.5),
    unequal("Zipf", 500, 0.5),
)
"""Layouts in which a class of 2 % is hardly ever missing."""
NO_LARGE = {
    "share": "a share has two values only",
    "failed rows": "a share has two values only",
    "majority": "a share has two values only",
    "precision": "a share has two values only",
    "F1 of a class": "it follows from a share",
    "macro F1": "it follows from shares",
    "macro precision": "it follows from shares",
    "macro recall": "it follows from shares",
    "weighted F1": "it follows from shares",
    "weighted precision": "it follows from shares",
    "kappa": "it follows from shares",
    "lm-eval groups": "it follows from shares",
}
"""Simulations without rare large values, and why there are none."""


def _cases(
    regime: str, several: list[Rows], estimator: Estimator, layouts: tuple[Layout, ...]
) -> dict[str, Case]:
    return {f"{regime}: {name}": case for name, case in cases_of(several, estimator, layouts).items()}


def _rare(
    several: list[Rows], estimator: Estimator, layouts: tuple[Layout, ...] = LAYOUTS
) -> dict[str, Case]:
    return _cases("rare", several, estimator, layouts)


def _large(
    several: list[Rows], estimator: Estimator, layouts: tuple[Layout, ...] = LAYOUTS
) -> dict[str, Case]:
    return _cases("rare large", several, estimator, layouts)


def _hits(*several: float) -> list[Rows]:
    return [(f"p = {share}", share, populations.hits(share)) for share in several]


_RIGHT = ((0.9, 0.9, 0.95), (0.97, 0.97, 0.5), (0.7, 0.9, 0.99))


def _labels(number: Callable[[Floats], float], estimator: Estimator) -> dict[str, Case]:
    several = [
        (
            f"2% of a class, {right[-1]:.0%} of it right",
            number(rare.rare_pairs(right)),
            rare.rare_labels(right),
        )
        for right in _RIGHT
    ]
    return _rare(several, estimator, LARGE_LAYOUTS)


def _areas(
    number: Callable[[float, float], float],
    lost: Callable[[float, float, float], float],
    estimator: Estimator,
) -> dict[str, Case]:
    several = [
        (f"distance {distance}, 2% true", number(distance, 0.02), populations.ranked(distance, 0.02))
        for distance in (0.5, 2.0, 3.0)
    ]
    missed = [
        (f"distance {distance}, 10% lowest", lost(distance, 0.02, 0.1), rare.missed(distance, 0.02, 0.1))
        for distance in (2.0, 3.0)
    ]
    return _rare(several, estimator, LARGE_LAYOUTS) | _large(missed, estimator, LARGE_LAYOUTS)


def _corpora(every: Floats, corpus: Corpus) -> dict[str, Case]:
    bad = np.random.default_rng(3).random(len(every)) < 0.02
    few = np.where(bad[:, None], np.stack([corpus.ends(row)[0] for row in every]), every)
    long = rare.with_long_texts(every, 0.02, 10)
    several = [
        (name, float(corpus.number(rows.sum(axis=0, keepdims=True))[0]), populations.sampled(rows))
        for name, rows in (("2% bad", few), ("2% ten times as long", long))
    ]
    return _rare(several[:1], corpus_of(corpus)) | _large(several[1:], corpus_of(corpus))


def _boots() -> dict[str, Case]:
    every = populations.sentences(6, 2)
    long = rare.with_long_texts(every, 0.02, 10)
    return {
        f"{regime}: {layout.name}": bootstrapped(
            layout, populations.sampled(rows), BLEU, float(BLEU.number(rows.sum(axis=0, keepdims=True))[0])
        )
        for regime, rows in (("rare", every[: len(every) // 4]), ("rare large", long))
        for layout in map(independent, (1000, 3000))
    }


def _two_scores(often: float, seldom: float, share: float) -> Rows:
    mean = often * (1 - share) + seldom * share
    population = populations.choice((often, seldom), (1 - share, share))
    return f"{share:.0%} of {seldom}, else {often}", mean, population


_SCORES = [_two_scores(0.02, 0.9, 0.01), _two_scores(0.98, 0.1, 0.01), _two_scores(0.3, 0.9, 0.03)]

RARE: dict[str, dict[str, Case]] = {
    "share": _rare(_hits(0.002, 0.02, 0.98), share_of),
    "failed rows": _rare([("2% failed", 0.98, populations.failing(1.0, 0.02))], share_of),
    "majority": _rare(_hits(0.01, 0.99), share_of),
    "scores": _rare(_SCORES[2:], mean_on((0.0, 1.0))) | _large(_SCORES[:2], mean_on((0.0, 1.0))),
    "brier": _rare([_two_scores(0.02, 1.0, 0.02)], mean_on((0.0, 2.0)))
    | _large([_two_scores(0.02, 1.9, 0.01)], mean_on((0.0, 2.0))),
    "pass@k": _rare([_two_scores(0.9, 0.3, 0.02)], mean_on((0.0, 1.0)))
    | _large([_two_scores(0.99, 0.0, 0.01)], mean_on((0.0, 1.0))),
    "difference": _rare([steps(0.002, 0.01), steps(0.01, 0.01, 3)], step_difference)
    | _large(
        [
            ("once against 5, p = 0.98", 0.0, rare.once_against(5, 0.98)),
            ("once against 9, p = 0.5", 0.0, rare.once_against(9, 0.5)),
        ],
        step_difference,
    ),
    "difference of scores": _rare(
        [(f"{share:.0%} lose 0.3", 0.0, rare.one_sided(share, 0.3)) for share in (0.03, 0.3)],
        score_difference,
    )
    | _large(
        [(f"{share:.0%} lose 0.95", 0.0, rare.one_sided(share, 0.95)) for share in (0.005, 0.01, 0.1)],
        score_difference,
    ),
    "group": {
        f"rare: {name}": case
        for name, case in groups(
            "p = 0.99 and 0.99", (0.99, populations.hits(0.99)), (0.99, populations.hits(0.99)), (0.0, 1.0)
        ).items()
    }
    | {
        f"rare large: {name}": case
        for name, case in groups(
            "1% of 0.9", (_SCORES[0][1], _SCORES[0][2]), (_SCORES[0][1], _SCORES[0][2]), (0.0, 1.0)
        ).items()
    },
    "precision": _labels(populations.last_precision, precision),
    "F1 of a class": _labels(populations.last_f1, class_f1),
    "macro F1": _labels(populations.macro_f1, average("macro", "f1")),
    "macro precision": _labels(populations.macro_precision, average("macro", "precision")),
    "macro recall": _labels(populations.macro_recall, average("macro", "recall")),
    "weighted F1": _labels(populations.weighted_f1, average("weighted", "f1")),
    "weighted precision": _labels(populations.weighted_precision, average("weighted", "precision")),
    "kappa": _labels(populations.kappa, kappa),
    "bleu": _corpora(populations.sentences(6, 2), BLEU),
    "chrf": _corpora(populations.character_sentences(6, 2), CHRF),
    "ROC": _areas(populations.roc, lambda d, s, q: rare.missed_roc(d, q), area("roc_auc")),
    "mean ROC": _areas(populations.roc, lambda d, s, q: rare.missed_roc(d, q), area("roc_auc", False)),
    "precision-recall": _areas(populations.precision_recall, rare.missed_precision_recall, area("pr_auc")),
    "mean precision-recall": _areas(
        populations.mean_precision_recall, rare.missed_mean_precision_recall, area("pr_auc", False)
    ),
    "lm-eval groups": {
        f"rare: {name}, p = 0.99": tasks(sizes, (0.99,) * len(sizes))
        for name, sizes in (("30 and 300", (30, 300)), ("100 and 1,000", (100, 1000)))
    }
    | {
        f"rare: clusters of 5, {name}, p = 0.98": tasks(sizes, (0.98,) * len(sizes), 5)
        for name, sizes in (("100 and 300", (100, 300)), ("500 and 1,000", (500, 1000)))
    },
    "lm-eval BLEU": _boots(),
}
RARE_ALONE: dict[str, Simulation] = {
    "group of scores": Simulation(
        "a group against the rest: scores",
        groups(
            "even and near 1",
            (0.5, populations.beta(1, 1)),
            (2 / 2.02, populations.beta(2, 0.02)),
            (0.0, 1.0),
        )
        | RARE["group"],
    )
}
