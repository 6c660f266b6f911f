"""All simulations, those of rare events among them, and the functions whose intervals they try.

`MADE_BY` names for each function that makes an interval the simulations that try it; test_coverage.py fails where
one is missing.
"""

from dataclasses import replace

from tests.coverage.rare_cases import RARE, RARE_ALONE
from tests.coverage.simulations import ORDINARY, Simulation

SIMULATIONS: dict[str, Simulation] = {
    name: replace(simulation, cases={**simulation.cases, **RARE.get(name, {})})
    for name, simulation in (ORDINARY | RARE_ALONE).items()
}

MADE_BY: dict[str, tuple[str, ...]] = {
    "steelyard_evaluation.report.statistics.intervals.proportion": (
        "share",
        "failed rows",
        "majority",
        "precision",
    ),
    "steelyard_evaluation.report.statistics.intervals.mean": (
        "scores",
        "brier",
        "pass@k",
        "difference of scores",
    ),
    "steelyard_evaluation.report.comparison.statistics.share_difference": ("difference",),
    "steelyard_evaluation.report.comparison.differences._estimate_bounded": (
        "difference",
        "difference of scores",
    ),
    "steelyard_evaluation.report.comparison.differences._estimate_clustered": (
        "difference",
        "difference of scores",
    ),
    "steelyard_evaluation.report.comparison.differences.estimate_difference": ("difference",),
    "steelyard_evaluation.report.statistics.groups.difference_from_rest": ("group", "group of scores"),
    "steelyard_evaluation.report.statistics.confusion._estimate_average": (
        "weighted F1",
        "weighted precision",
    ),
    "steelyard_evaluation.report.statistics.confusion._macro": (
        "macro F1",
        "macro precision",
        "macro recall",
    ),
    "steelyard_evaluation.report.statistics.confusion._f1": ("F1 of a class",),
    "steelyard_evaluation.report.rubrics.judge.kappa_estimate": ("kappa",),
    "steelyard_evaluation.report.rubrics.overlap.estimate": ("bleu", "chrf"),
    "steelyard_evaluation.report.statistics.ranking._area_interval": ("ROC", "mean ROC"),
    "steelyard_evaluation.report.statistics.ranking._log_odds_interval": (
        "precision-recall",
        "mean precision-recall",
    ),
    "steelyard_evaluation.runs.lm_eval.intervals.mean_of_tasks": ("lm-eval groups",),
    "steelyard_evaluation.runs.lm_eval.intervals.by_standard_error": ("lm-eval BLEU",),
}
NO_INTERVALS_OF_THEIR_OWN = {"steelyard_evaluation.report.audit.numbers.estimate": "reads a report's"}
