"""The rubric `classification.Classification`: one label per answer, with probabilities where the system gives them.

It reads `label` of the dataset view and `responses[0].label`, optionally `responses[0].probabilities`, of the output;
its arguments may name other fields. Labels of different types are equal by the rules of `answer`. A question without an
answer counts as wrong: a system gains nothing by staying silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import Json, value_text
from steelyard_evaluation.report.page import figures
from steelyard_evaluation.report.page.page import BEST_AT_ZERO
from steelyard_evaluation.report.page.ranking_figures import area_metrics, area_table, curves
from steelyard_evaluation.report.results import Answer, Compared, Figure, Metric, Results, Table
from steelyard_evaluation.report.rubrics.answer import comparison_label
from steelyard_evaluation.report.rubrics.normalisation import normal_form
from steelyard_evaluation.report.rubrics.rows import answer_value, values_in
from steelyard_evaluation.report.statistics.calibration import Calibration, StatedProbabilities, calibration
from steelyard_evaluation.report.statistics.confusion import (
    NO_ANSWER,
    OTHER,
    Averages,
    CodedLabels,
    PerClass,
    encode,
    matrix,
    merge_strange,
    per_class,
)
from steelyard_evaluation.report.statistics.intervals import Estimate, proportion, row_clusters
from steelyard_evaluation.report.statistics.ranking import (
    MOST_CLASSES,
    Ranking,
    probability_matrix,
    ranking,
    to_pairs,
)
from steelyard_evaluation.report.summary import ScoreKind, summarise_scores
from steelyard_evaluation.report.summary import limits as limits_of_scores
from steelyard_evaluation.report.wording import count, count_noun, interval, percent
from steelyard_schema.columns import value

_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("score", pa.float64()),
    ("label", pa.string()),
    ("prediction", pa.string()),
    ("correct", pa.bool_()),
    ("probability", pa.float64()),  # of the answer given
    ("brier", pa.float64()),
    # Pairs, and no map of Arrow, which few programs read.
    ("probabilities", pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())]))),
]
MOST_LABELS = 2000
"""Most labels for metrics of each class: with more they say nothing, and cost gigabytes."""


class NoLabel(ValueError):
    """The dataset has no label for this row, or several, so that it cannot be scored."""


@dataclass(frozen=True)
class Classification:
    bins: int = 10
    target: str = "label"
    field: str = "label"
    normalise: bool = False
    """True if labels are compared without case, punctuation and articles, for a model that writes "Positive."."""

    compares: ClassVar[Compared] = "labels"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return pa.schema(_COLUMNS)

    def score(self, answer: Answer) -> Json:
        labels = values_in(value(self.target, answer.row))
        if not labels:
            raise NoLabel(f"row {answer.index} of the dataset has no {self.target}")
        if len(labels) > 1:
            several = value_text([*labels])
            raise NoLabel(f"row {answer.index} of the dataset has several labels: {several}; one is compared")
        truth = labels[0]
        response: Mapping[str, Any] = answer.responses[0] if answer.responses else {}
        answered = answer_value(answer, self.field)
        label = self._label_text(truth, answered)
        prediction = None if answered is None else self._label_text(answered, truth)
        probabilities = dict(response.get("probabilities") or {})
        stated = {self._label_text(name, truth): share for name, share in probabilities.items()}
        usable = prediction in stated and all(
            isinstance(share, int | float) and 0 <= share <= 1 + 1e-6 for share in stated.values()
        )
        return {
            "score": float(prediction == label),
            "label": label,
            "prediction": prediction,
            "correct": prediction == label,
            "probability": min(1.0, stated[prediction]) if usable and prediction is not None else None,
            "brier": _brier_score(stated, label) if usable else None,
            "probabilities": to_pairs(stated) if usable and len(stated) <= MOST_CLASSES else None,
        }

    def _label_text(self, label: object, other: object) -> str:
        """Return the text of a label; that of `other`, with which it is compared, is the same if they are equal."""
        text = comparison_label(label, other)
        return normal_form(text) if self.normalise else text

    def summarise(self, scores: pa.Table) -> Results:
        clusters = row_clusters(scores)
        labels = scores["label"].to_pylist()
        # A model that writes sentences has thousands of "classes": together, they are one column of errors.
        predictions, strange = merge_strange(scores["prediction"].to_pylist(), labels)
        if len(set(labels)) > MOST_LABELS:
            return _summarise_without_classes(scores, len(set(labels)))
        coded = encode(labels, predictions, clusters)
        correct = np.asarray(scores["correct"].to_numpy(), dtype=np.bool_)
        accuracy = proportion(correct, clusters)
        answered = proportion(coded.prediction >= 0, clusters)
        classes, averages = per_class(coded)
        # Recall weighted by the classes' sizes is the accuracy: one quantity has one interval.
        averages = replace(averages, weighted={**averages.weighted, "recall": accuracy})
        calibrated = self._calibration(scores)
        ranked = _ranking(scores, coded)
        metrics = (*_metrics(accuracy, averages, calibrated), *area_metrics(ranked))
        limits = [*_limits(scores, accuracy, answered, calibrated)]
        if strange:
            limits.append(
                f"{count(strange)} different predictions are no label of the dataset; they are shown as {OTHER}."
            )
        return Results(
            headline=_headline(accuracy, answered),
            metrics=metrics,
            figures=(*_figures(metrics, classes, coded, calibrated), *curves(ranked)),
            tables=(_class_table(classes), *_confusions(coded), *area_table(ranked)),
            limits=tuple(limits),
            numbers=_numbers(classes, averages, coded, calibrated) | {"ranking": ranked},
        )

    def _calibration(self, scores: pa.Table) -> Calibration | None:
        stated = scores.filter(pc.is_valid(scores["probability"]))
        if stated.num_rows == 0:
            return None
        return calibration(
            StatedProbabilities(
                confidence=stated["probability"].to_numpy(),
                correct=np.asarray(stated["correct"].to_numpy(), dtype=np.bool_),
                brier=stated["brier"].to_numpy(),
                clusters=row_clusters(stated),
            ),
            bins=self.bins,
        )


def _summarise_without_classes(scores: pa.Table, labels: int) -> Results:
    results = summarise_scores(scores, ScoreKind("accuracy", "Accuracy", note="answers that were right"))
    limit = f"The dataset has {count(labels)} labels: too many for figures of each."
    return replace(results, limits=(*results.limits, limit))


def _ranking(scores: pa.Table, coded: CodedLabels) -> Ranking | None:
    """Return the curves; None without probabilities, with one class, or with very many."""
    # Files of scores of earlier versions have no such column.
    if "probabilities" not in scores.column_names or len(coded.labels) > MOST_CLASSES:
        return None
    stated = np.asarray(pc.is_valid(scores["probabilities"]).to_numpy(), dtype=np.bool_)
    if not stated.any():
        return None
    shares = probability_matrix(scores["probabilities"].filter(pa.array(stated)), coded.labels)
    return ranking(coded.labels, coded.truth[stated], shares, coded.clusters[stated])


def _brier_score(stated: Mapping[str, float], label: str) -> float:
    """Return the squared distance from certainty of the right label; a class that is not listed has 0."""
    return sum((share - (name == label)) ** 2 for name, share in stated.items()) + (label not in stated)


def _headline(accuracy: Estimate, answered: Estimate) -> str:
    if accuracy.value is None:
        return "There are no answers to score."
    all_answered = answered.value == 1
    reach = count_noun(accuracy.n, "answer" if all_answered else "row")
    right = "were right" if all_answered else "were answered right"
    return f"Of {reach}, {percent(accuracy.value)} {right} (95 % interval {interval(accuracy)})."


def _metrics(accuracy: Estimate, averages: Averages, calibrated: Calibration | None) -> tuple[Metric, ...]:
    metrics = [Metric("accuracy", "Accuracy", accuracy, note="answers that were right")]
    titles = {"precision": "precision", "recall": "recall", "f1": "F1"}
    for kind, of in (("macro", averages.macro), ("weighted", averages.weighted)):
        note = "every class counts the same" if kind == "macro" else "every answer counts the same"
        metrics += [
            Metric(f"{name}_{kind}", f"{kind.capitalize()} {titles[name]}", of[name], note=note)
            for name in of
            if (name, kind) != ("recall", "weighted")  # it is the accuracy
        ]
    if calibrated:
        metrics.append(
            Metric(
                "calibration_error",
                "RMS calibration error",
                calibrated.error,
                note="root mean square gap between stated probability and share correct, debiased",
            )
        )
        note = "0 is perfect, 2 is certain and wrong"
        metrics.append(Metric("brier", "Brier score", calibrated.brier, "number", note, (0.0, 2.0)))
    return tuple(metrics)


def _figures(
    metrics: tuple[Metric, ...],
    classes: tuple[PerClass, ...],
    coded: CodedLabels,
    calibrated: Calibration | None,
) -> tuple[Figure, ...]:
    shown = [
        figures.intervals(
            "Main metrics with 95 % confidence intervals",
            [m for m in metrics if m.unit == "share" and m.name not in BEST_AT_ZERO],
        )
    ]
    if len(coded.labels) <= figures.MOST_CLASSES:
        shown.append(figures.confusion_matrix(coded.labels, matrix(coded)))
    bars = [(row.label, row.f1) for row in classes]
    shown.append(figures.class_bars("F1 of each class", bars))
    if calibrated:
        shown.append(figures.reliability(calibrated))
    return tuple(shown)


def _class_table(classes: tuple[PerClass, ...]) -> Table:
    rows = tuple((c.label, c.support, c.predicted, c.precision, c.recall, c.f1) for c in classes)
    columns = ("Class", "Support", "Predicted", "Precision", "Recall", "F1")
    note = (
        "Precision: of the answers that named this class, the share that were right. Recall: of those that "
        "should have named it, the share that did. F1 is their harmonic mean. In brackets the 95 % interval: "
        "that of a share; F1's is carried over from the share of right answers among those that involve the class."
    )
    return Table("Each class", columns, rows, note)


def _confusions(coded: CodedLabels) -> tuple[Table, ...]:
    counts = matrix(coded)
    names = (*coded.labels, NO_ANSWER)
    wrong = [
        (coded.labels[true], names[predicted], int(counts[true, predicted]))
        for true, predicted in zip(*np.nonzero(counts), strict=True)
        if true != predicted
    ]
    if not wrong:
        return ()
    wrong.sort(key=lambda row: -row[2])
    title = "Most frequent confusions" + (
        "" if len(wrong) <= 15 else f" (the 15 most frequent of {len(wrong)} pairs)"
    )
    return (Table(title, ("Should be", "Predicted", "Answers"), tuple(wrong[:15])),)


def _limits(
    scores: pa.Table, accuracy: Estimate, answered: Estimate, calibrated: Calibration | None
) -> tuple[str, ...]:
    limits = [*limits_of_scores(scores, accuracy, answered)]
    if calibrated:
        limits.append(
            f"The expected calibration error (ECE), the mean gap as it is, is {percent(calibrated.plug_in)}; a "
            "perfectly calibrated system with so many answers would read about "
            f"{percent(calibrated.plug_in_of_chance)}, by chance alone."
        )
    if calibrated and calibrated.rows < accuracy.n:
        limits.append(
            f"Only {count(calibrated.rows)} answers came with probabilities; calibration is theirs alone."
        )
    return tuple(limits)


def _numbers(
    classes: tuple[PerClass, ...], averages: Averages, coded: CodedLabels, calibrated: Calibration | None
) -> Json:
    return {
        "perClass": list(classes),
        "averages": averages,
        "confusion": {
            "labels": list(coded.labels),
            "columns": [*coded.labels, NO_ANSWER],
            "matrix": matrix(coded).tolist(),
        },
        "calibration": calibrated,
    }
