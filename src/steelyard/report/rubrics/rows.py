"""Functions that rubrics share: the targets of a row, the text of an answer, and the common columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from steelyard.report.results import Answer
from steelyard.report.rubrics.columns import named, value
from steelyard.types import Json

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
    """Return the texts of which the answer should be one: those of a list without its nulls, or of `{"text": …}`
    (SQuAD). Raises NoTarget.
    """
    truth = value(column, answer.row)
    if isinstance(truth, Mapping) and "text" in truth:
        truth = truth["text"]
    several = truth if isinstance(truth, list | tuple) else (truth,)
    texts = tuple(text_of(one) for one in several if one is not None)
    if not texts:
        raise NoTarget(f"row {answer.index} of the dataset has no target in the column {named(column)}")
    return texts


def answer_text(answer: Answer, field: str) -> str | None:
    """Return the text of an answer; None where the row was skipped or the field is null."""
    if not answer.responses:
        return None
    response: Mapping[str, Any] = answer.responses[0]
    if field not in response:
        there = ", ".join(sorted(response)) or "nothing"
        raise NoField(f"the answer to row {answer.index} has no field {field!r}; it has {there}")
    said = response[field]
    return None if said is None else text_of(said)


def score_row(score: float, truth: Sequence[str], said: str | None, correct: bool) -> Json:
    """Return the columns of every rubric for one answer."""
    return {"score": score, "label": " | ".join(truth), "prediction": said, "correct": correct}


def right_or_wrong(right: bool, truth: Sequence[str], said: str | None) -> Json:
    return score_row(float(right), truth, said, right)


def text_of(value: object) -> str:
    """Return a value as text: 3, 3.0 and "3" give the same."""
    match value:
        case str():
            return value
        # Before numbers, since a boolean is one; as JSON writes it.
        case bool():
            return "true" if value else "false"
        # Parquet has made floats of whole numbers wherever one row of the column is null or a fraction.
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)
