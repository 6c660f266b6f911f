"""Status of each row of scores: scored, failed or left out. Page, JSON, comparison, export, audit and verification
count rows by it and by nothing else.

A row is scored where the rubric gave a number; failed where there is no answer to score, which counts as 0; left out
where there is an answer and nobody could grade it, which counts nowhere and is said. The three add up to all rows.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.report.results import Answer, Counts, Rubric
from steelyard.report.statistics.intervals import Floats

Status: TypeAlias = Literal["scored", "failed", "left out"]
SCORED: Status = "scored"
FAILED: Status = "failed"
LEFT_OUT: Status = "left out"
STATUSES: tuple[Status, ...] = (SCORED, FAILED, LEFT_OUT)
COLUMN = "status"
UNIT = b"unit"
"""Key in the schema's metadata: the noun of what a row of scores is, where it is not a question."""


def settled(rubric: Rubric, answer: Answer, row: Mapping[str, Any]) -> dict[str, Any]:
    """The rubric's row with its status, and with what follows from it for score and correctness.

    A rubric that knows better gives the status itself. Silence never earns anything: a score above 0 is taken away.
    """
    given = row.get(COLUMN)  # an older rubric's column of this name may hold anything
    status = given if given in STATUSES else _derived(rubric, answer, row.get("score"))
    if status == LEFT_OUT:
        return {**row, "score": None, "correct": None, COLUMN: status}
    if status == FAILED:
        return {**row, "score": min(0.0, row.get("score") or 0.0), "correct": False, COLUMN: status}
    return {**row, COLUMN: status}


def _derived(rubric: Rubric, answer: Answer, score: float | None) -> Status:
    if not answer.responses or _silent(rubric, answer.responses[0]):
        return FAILED
    return SCORED if score is not None and isfinite(score) else LEFT_OUT


def _silent(rubric: Rubric, response: Mapping[str, Any]) -> bool:
    """True for a response with null in the field that the rubric reads."""
    field = getattr(rubric, "field", None)
    return isinstance(field, str) and field in response and response[field] is None


def with_status(scores: pa.Table) -> pa.Table:
    """The scores with the column, which files of earlier versions lack: there, no prediction is no answer."""
    if COLUMN in scores.column_names:
        return scores
    names = scores.column_names
    nothing = pa.nulls(scores.num_rows, pa.bool_())
    unscored: Any = pc.is_null(scores["score"], nan_is_null=True) if "score" in names else nothing
    correct: Any = scores["correct"] if "correct" in names else nothing
    right = pc.fill_null(correct, False)
    silent: Any = pc.is_null(scores["prediction"]) if "prediction" in names else nothing
    failed: Any = pc.and_(silent, pc.invert(right))
    answered: Any = pc.if_else(pc.fill_null(failed, False), FAILED, SCORED)
    left_out: Any = pc.fill_null(unscored, False)
    return scores.append_column(COLUMN, pc.if_else(left_out, LEFT_OUT, answered))


def counted(scores: pa.Table) -> pa.Table:
    """The rows that count: all but those that are left out."""
    scores = with_status(scores)
    column: Any = scores[COLUMN]
    return scores.filter(pc.not_equal(column, pa.scalar(str(LEFT_OUT))))


def numbered(scores: pa.Table) -> pa.Table:
    """The rows that count and have a number of their own; a document of BLEU has none."""
    kept = counted(scores)
    if "score" not in kept.column_names:
        return kept
    return kept.filter(pa.array(np.isfinite(values_of(kept))))


def has_status(scores: pa.Table, status: Status) -> Any:
    """A mask of the rows with this status."""
    column: Any = with_status(scores)[COLUMN]
    return pc.equal(column, pa.scalar(str(status)))


def counts_of(scores: pa.Table) -> Counts:
    """Number of rows with each status."""
    statuses: Any = pc.value_counts(with_status(scores)[COLUMN])
    rows = {status["values"]: status["counts"] for status in statuses.to_pylist()}
    noun = (scores.schema.metadata or {}).get(UNIT, b"row").decode()
    return Counts(rows.get(SCORED, 0), rows.get(FAILED, 0), rows.get(LEFT_OUT, 0), noun)


def values_of(scores: pa.Table) -> Floats:
    """The score of each row: NaN where it is left out, 0 or less where it failed.

    NaN also where a failed row has no score at all: of numbers that are no shares, 0 may be the best.
    """
    scores = with_status(scores)
    values = np.array(scores["score"].to_numpy(), dtype=np.float64)
    failed = np.asarray(has_status(scores, FAILED).to_numpy(), dtype=np.bool_)
    values[failed] = np.minimum(0.0, values[failed])
    values[np.asarray(has_status(scores, LEFT_OUT).to_numpy(), dtype=np.bool_)] = np.nan
    return values


def wrong_rows(scores: pa.Table) -> Any:
    """A mask of the rows with an answer that was scored and is not correct."""
    scored: Any = has_status(scores, SCORED)
    correct: Any = scores["correct"]
    return pc.and_not(scored, pc.fill_null(correct, True))


def unit_of(scores: pa.Table) -> str:
    """The noun of what a row of scores is: `question`, or what the file says, such as `document`."""
    return (scores.schema.metadata or {}).get(UNIT, b"question").decode()
