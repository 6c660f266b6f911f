"""Our scores of the rows that the originals score, under the originals' names."""

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from steelyard_evaluation.report.results import Answer, Results, Rubric
from steelyard_evaluation.report.rubrics.choice import MultipleChoice
from steelyard_evaluation.report.rubrics.classification import Classification
from steelyard_evaluation.report.rubrics.contract import make_scores
from steelyard_evaluation.report.rubrics.judge import kappa_estimate
from steelyard_evaluation.report.rubrics.numeric import Close
from steelyard_evaluation.report.rubrics.overlap import Bleu, ChrF, Rouge, Tokenizer
from steelyard_evaluation.report.rubrics.text import Contains, ExactMatch, NormalisedMatch, Regex, TokenF1

Rows = dict[str, Any]
Numbers = dict[str, list[float]]


def _answers(rows: list[Rows], said: str, target: str) -> list[Answer]:
    return [Answer(n, "r0", {"target": row[target]}, [{"text": row[said]}]) for n, row in enumerate(rows)]


def sacrebleu(rows: Rows) -> Numbers:
    answers = _answers(rows["texts"], "said", "targets")
    rubrics: dict[str, Rubric] = {
        f"BLEU, tokenizer {name}{', lower case' if lower else ''}": Bleu(tokenize=name, lowercase=lower)
        for name in get_args(Tokenizer)
        for lower in (False, True)
    }
    rubrics |= {f"chrF2{'+' * order}": ChrF(word_order=order) for order in (0, 1, 2)}
    figures = {}
    for name, rubric in rubrics.items():
        scores = make_scores(rubric, answers)
        figures[f"{name}: corpus"] = [
            _value(rubric.summarise(scores), "bleu" if name.startswith("B") else "chrf")
        ]
        figures[f"{name}: sentences"] = _column(scores["score"])
    return figures


def rouge_score(rows: Rows) -> Numbers:
    scores = make_scores(Rouge(), _answers(rows["texts"], "said", "targets"))
    return {f"ROUGE-{variant}": _column(scores[f"rouge{variant}"]) for variant in ("1", "2", "L")}


def scikit_learn(rows: Rows) -> Numbers:
    answers = [
        Answer(
            n, "r0", {"label": row["truth"]}, [{"label": row["said"], "probabilities": row["probabilities"]}]
        )
        for n, row in enumerate(rows["labels"])
    ]
    rubric = Classification()
    results = rubric.summarise(make_scores(rubric, answers))
    classes, ranked = results.numbers["perClass"], results.numbers["ranking"].classes
    labels = [label.label for label in classes]
    first, second = (
        np.array([labels.index(row[name]) for row in rows["labels"]]) for name in ("said", "second")
    )
    figures = {
        "accuracy": [_value(results, "accuracy")],
        "confusion": [
            float(n) for line in results.numbers["confusion"]["matrix"] for n in line[: len(labels)]
        ],
        "Cohen's kappa": [_known(kappa_estimate(first, second, np.arange(len(first))).value)],
        "area under ROC": [_known(label.roc_auc.value) for label in ranked],
        "area under precision-recall": [_known(label.pr_auc.value) for label in ranked],
        "Brier score": [_value(results, "brier")],
    }
    for name in ("precision", "recall", "f1"):
        shown = "F1" if name == "f1" else name
        figures[f"{shown}, per class"] = [getattr(label, name).value or 0.0 for label in classes]
        for average in ("macro", "weighted"):
            # The weighted recall is the accuracy, which has the name once.
            known = "accuracy" if (name, average) == ("recall", "weighted") else f"{name}_{average}"
            figures[f"{shown}, {average}"] = [_value(results, known)]
    return figures


def inspect_ai(rows: Rows) -> Numbers:
    ours: dict[str, tuple[Rubric, str, str]] = {
        "match(exact)": (ExactMatch(ignore_case=True), "said", "target"),
        "includes": (Contains(ignore_case=True), "said", "target"),
        "exact": (NormalisedMatch(), "said", "target"),
        "f1": (TokenF1(), "said", "target"),
        "pattern": (Regex(r"([\pL\pN_]+)", group=1), "said", "target"),
        "match(numeric)": (Close(), "numeric", "number"),
        "math": (Close(), "numeric", "number"),
        "answer(letter)": (MultipleChoice(most=4), "lettered", "letter"),
        "choice": (MultipleChoice(most=4), "lettered", "letter"),
    }
    return {
        name: [rubric.score(answer)["score"] for answer in _answers(rows["answers"], said, target)]
        for name, (rubric, said, target) in ours.items()
    }


SCORES: dict[str, Callable[[Rows], Numbers]] = {
    "sacrebleu": sacrebleu,
    "rouge_score": rouge_score,
    "scikit_learn": scikit_learn,
    "inspect_ai": inspect_ai,
}


def _value(results: Results, name: str) -> float:
    return _known(next(metric.estimate.value for metric in results.metrics if metric.name == name))


def _known(value: float | None) -> float:
    """A number that has to be there."""
    if value is None:
        raise ValueError("no number, where the original has one")
    return value


def _column(column: "pa.ChunkedArray[Any]") -> list[float]:
    return [_known(value) for value in column.to_pylist()]
