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
    "report.statistics.intervals.proportion": ("share", "failed rows", "majority", "precision"),
    "report.statistics.intervals.mean": ("scores", "brier", "pass@k", "difference of scores"),
    "report.comparison.statistics.share_difference": ("difference",),
    "report.comparison.differences._bounded": ("difference", "difference of scores"),
    "report.comparison.differences._clustered": ("difference", "difference of scores"),
    "report.comparison.differences.paired_difference": ("difference",),
    "report.statistics.groups.difference_from_rest": ("group", "group of scores"),
    "report.statistics.confusion._averaged": ("weighted F1", "weighted precision"),
    "report.statistics.confusion._macro": ("macro F1", "macro precision", "macro recall"),
    "report.statistics.confusion._f1": ("F1 of a class",),
    "report.rubrics.judge.kappa_estimate": ("kappa",),
    "report.rubrics.overlap.estimate": ("bleu", "chrf"),
    "report.statistics.ranking._area_interval": ("ROC", "mean ROC"),
    "report.statistics.ranking._log_odds_interval": ("precision-recall", "mean precision-recall"),
    "runs.lm_eval.intervals.mean_of_tasks": ("lm-eval groups",),
    "runs.lm_eval.intervals.by_standard_error": ("lm-eval BLEU",),
}
NO_INTERVALS_OF_THEIR_OWN = {"report.audit.numbers.estimate": "reads a report's"}
