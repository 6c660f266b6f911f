"""Every interval that a rubric prints has a simulation; `test_coverage` says what a simulation has to try."""

from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard_evaluation.report.results import Results
from steelyard_evaluation.report.rubrics import find_rubric
from steelyard_evaluation.report.scoring import summarise
from tests.coverage.table import SIMULATIONS

ROWS = 400
ELSEWHERE = {
    "structure.JsonSchema": "text.ExactMatch",
    "text.Regex": "text.ExactMatch",
    "lm_eval.Task": "lm-eval makes its own numbers: the simulations that begin with lm-eval",
}
"""Rubrics that need a file or a program to be made, and the one whose summary they share."""
PRINTED = {
    "accuracy": "share",
    "answered": "failed rows",
    "contains": "share",
    "exact_match": "share",
    "multiple_choice": "share",
    "normalised_match": "share",
    "numeric_close": "share",
    "precision_macro": "macro precision",
    "recall_macro": "macro recall",
    "f1_macro": "macro F1",
    "precision_weighted": "weighted precision",
    "f1_weighted": "weighted F1",
    "brier": "brier",
    "roc_auc_macro": "mean ROC",
    "pr_auc_macro": "mean precision-recall",
    "verdict": "scores",
    "second": "scores",
    "order": "scores",
    "agreement": "share",
    "kappa": "kappa",
    "bleu": "bleu",
    "bleu_sentence": "scores",
    "chrf": "chrf",
    "chrf_sentence": "scores",
    "rouge1": "scores",
    "rouge2": "scores",
    "rougeL": "scores",
    "token_f1": "scores",
}
"""The simulation of each metric that has an interval."""
REDUCED = {"mean": "scores", "majority": "majority", "best": "pass@k", "pass@2": "pass@k"}


def make_scores(rubric: str) -> pa.Table:
    """Scores of questions that were asked four times; the group is a column of the dataset."""
    rng = np.random.default_rng(0)
    kind = find_rubric(rubric)
    names = {field.name for field in kind.scores}
    label = rng.choice(["a", "b"], ROWS)
    prediction = np.where(rng.random(ROWS) < 0.8, label, "b")
    correct = label == prediction
    counted = {"overlap.Bleu": [9, 9, 8, 6, 4, 2, 9, 8, 7, 6], "overlap.ChrF": [9, 9, 6] * 6}.get(rubric, [])
    values: dict[str, Any] = {
        "score": np.where(rng.random(ROWS) < 0.3, 0.5, correct.astype(np.float64))
        if "rouge" in rubric or "F1" in rubric or "judge" in rubric
        else correct.astype(np.float64),
        "label": label,
        "prediction": prediction,
        "correct": correct,
        "probability": rng.uniform(0.5, 1, ROWS),
        "brier": rng.uniform(0, 2, ROWS),
        "probabilities": [[(name, 0.7)] for name in prediction],
        "judge": ["one"] * ROWS,
        "verdict": prediction,
        "second_judge": ["two"] * ROWS,
        "second_verdict": label,
        "second_score": rng.choice([0.0, 0.5, 1.0], ROWS),
        "counts": [counted] * ROWS,
        **{f"rouge{variant}": rng.uniform(0, 1, ROWS) for variant in "12L"},
    }
    columns = {
        "_index_": pa.array(np.arange(ROWS) // 4),
        "_replication_": pa.array([str(row % 4) for row in range(ROWS)]),
        **{
            field.name: pa.array(values[field.name], field.type)
            if field.name in values
            else pa.nulls(ROWS, field.type)
            for field in kind.scores
        },
        "status": pa.array(["failed" if row % 50 == 49 else "scored" for row in range(ROWS)]),
        "group:kind": pa.array(["xyz"[row % 3] for row in range(ROWS)]),
    }
    assert names <= set(columns)
    return pa.table(columns)


def simulation_of(name: str) -> str:
    for reducer, simulation in REDUCED.items():
        if name.endswith(f"_{reducer}"):
            return simulation
    return PRINTED[name]


def results_of(rubric: str) -> Results:
    return summarise(find_rubric(rubric), make_scores(rubric), tuple(REDUCED))


@pytest.mark.parametrize("rubric", sorted(point.name for point in entry_points(group="steelyard.rubrics")))
def test_every_printed_interval_is_simulated(rubric: str) -> None:
    if rubric in ELSEWHERE:
        return
    printed = [metric for metric in results_of(rubric).metrics if metric.estimate.low is not None]
    assert printed
    for metric in printed:
        assert simulation_of(metric.name) in SIMULATIONS, metric.name
