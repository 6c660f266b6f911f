"""Functions that rubrics share: the targets of a row, the text of an answer, and the common columns.

What counts as an answer, and which values are equal, is defined in `answer`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics.answer import answer_in, are_equal, is_blank, is_missing, to_text
from steelyard_schema.columns import column_text, value

TARGET = "target|answer|label"
"""Columns that may hold the target, unless the rubric names another."""
FIELD = "text"
"""Field of a response that is scored unless the rubric names another."""

COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("score", pa.float64()),
    ("label", pa.string()),
    ("prediction", pa.string()),
    ("correct", pa.bool_()),
)
SCHEMA = pa.schema(list(COLUMNS))


class NoTarget(ValueError):
    """The dataset has no target for this row, so that it cannot be scored."""


class NoField(ValueError):
    """The answer has no field of this name."""


def schema(*more: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*COLUMNS, *more])


def targets(answer: Answer, column: str) -> tuple[str, ...]:
    """Return the texts of the targets. Raises NoTarget."""
    return tuple(map(to_text, target_values(answer, column)))


def target_values(answer: Answer, column: str) -> tuple[object, ...]:
    """Return the values that are right answers, as `values_in` has them. Raises NoTarget."""
    values = values_in(value(column, answer.row))
    if not values:
        raise NoTarget(f"row {answer.index} of the dataset has no target in the column {column_text(column)}")
    return values


def values_in(truth: object) -> tuple[object, ...]:
    """Return the values of a target: those of a list without its nulls, or of `{"text": …}` (SQuAD)."""
    if isinstance(truth, Mapping) and "text" in truth:
        truth = truth["text"]
    several = truth if isinstance(truth, list | tuple) else (truth,)
    return tuple(one for one in several if not is_missing(one))


def answer_text(answer: Answer, field: str) -> str | None:
    """Return the text of an answer without thoughts; None where the row was skipped or the field is null."""
    said = answer_value(answer, field)
    return None if said is None else to_text(said)


def overlap_text(answer: Answer, target: str, field: str) -> str | None:
    """Return the text of an answer for rubrics that count what it shares with the targets; None as `answer_text`.

    An answer that is equal to a target has its text: for the number 3, "3.0" shares all.
    """
    said = answer_value(answer, field)
    if said is None:
        return None
    equal = (one for one in target_values(answer, target) if are_equal(said, one))
    return to_text(next(equal, said))


def is_empty_as_asked(answer: Answer, target: str, field: str) -> bool:
    """Return whether an answer is empty, and a target as well: it is right, though there is nothing to be shared."""
    said = answer_value(answer, field)
    if said is None or not is_blank(to_text(said)):
        return False
    return any(are_equal(said, one) for one in target_values(answer, target))


def answer_value(answer: Answer, field: str) -> object:
    """Return the value that an answer has in a field, a text without thoughts; None where there is none."""
    said = value_said(answer, field)
    return answer_in(said) if isinstance(said, str) else said


def value_said(answer: Answer, field: str) -> object:
    """Return the value in a field of a response as it came; None where the row was skipped or the field is null.

    Raises NoField.
    """
    if not answer.responses:
        return None
    response: Mapping[str, Any] = answer.responses[0]
    if field not in response:
        there = ", ".join(sorted(response)) or "nothing"
        raise NoField(f"the answer to row {answer.index} has no field {field!r}; it has {there}")
    said = response[field]
    return None if is_missing(said) else said


def score_row(score: float, truth: Sequence[str], said: str | None, correct: bool) -> Json:
    """Return the columns of every rubric for one answer."""
    return {"score": score, "label": " | ".join(truth), "prediction": said, "correct": correct}


def right_or_wrong(right: bool, truth: Sequence[str], said: str | None) -> Json:
    return score_row(float(right), truth, said, right)
