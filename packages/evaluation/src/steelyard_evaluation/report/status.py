"""Status of each row of scores: scored, failed or left out. Page, JSON, comparison, export, audit and verification
count rows by it alone.

A row is scored if the rubric gave a number. It failed if there is no answer to score; it counts as 0. It is left out if
its answer could not be graded; it counts nowhere, and reports say so. The three add up to all rows.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_evaluation.report.results import Answer, Counts, Rubric
from steelyard_evaluation.report.rubrics.answer import is_missing
from steelyard_evaluation.report.statistics.intervals import Floats

Status: TypeAlias = Literal["scored", "failed", "left out"]
SCORED: Status = "scored"
FAILED: Status = "failed"
LEFT_OUT: Status = "left out"
STATUSES: tuple[Status, ...] = (SCORED, FAILED, LEFT_OUT)
COLUMN = "status"
UNIT = b"unit"
"""Key in the schema's metadata: the noun for what a row of scores is about, if it is not a question."""


def with_resolved_status(rubric: Rubric, answer: Answer, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rubric's row with its status, and with the score and correctness that follow from it.

    A rubric may give the status itself. A failed row never has a score above 0: a system gains nothing by silence.
    """
    given = row.get(COLUMN)  # an older rubric's column of this name may hold anything
    status = given if given in STATUSES else _derive_status(rubric, answer, row.get("score"))
    if status == LEFT_OUT:
        return {**row, "score": None, "correct": None, COLUMN: status}
    if status == FAILED:
        return {**row, "score": min(0.0, row.get("score") or 0.0), "correct": False, COLUMN: status}
    return {**row, COLUMN: status}


def _derive_status(rubric: Rubric, answer: Answer, score: float | None) -> Status:
    """Return the status; a row without a response, or with null in the field that the rubric reads, failed."""
    field = getattr(rubric, "field", None)
    response = answer.responses[0] if answer.responses else None
    if response is None or (isinstance(field, str) and field in response and is_missing(response[field])):
        return FAILED
    return SCORED if score is not None and isfinite(score) else LEFT_OUT


def with_status(scores: pa.Table) -> pa.Table:
    """Return the scores with the column `status`. Files of earlier versions lack it: there, a row without a prediction
    failed.
    """
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


def without_left_out(scores: pa.Table) -> pa.Table:
    """Return all rows but those that are left out."""
    scores = with_status(scores)
    column: Any = scores[COLUMN]
    return scores.filter(pc.not_equal(column, pa.scalar(str(LEFT_OUT))))


def with_own_score(scores: pa.Table) -> pa.Table:
    """Return the rows that are not left out and have a score of their own; a document of BLEU lacks one."""
    kept = without_left_out(scores)
    if "score" not in kept.column_names:
        return kept
    return kept.filter(pa.array(np.isfinite(score_values(kept))))


def has_status(scores: pa.Table, status: Status) -> Any:
    """Return a mask of the rows with this status."""
    column: Any = with_status(scores)[COLUMN]
    return pc.equal(column, pa.scalar(str(status)))


def count_statuses(scores: pa.Table) -> Counts:
    """Return the number of rows with each status."""
    statuses: Any = pc.value_counts(with_status(scores)[COLUMN])
    rows = {status["values"]: status["counts"] for status in statuses.to_pylist()}
    noun = (scores.schema.metadata or {}).get(UNIT, b"row").decode()
    return Counts(rows.get(SCORED, 0), rows.get(FAILED, 0), rows.get(LEFT_OUT, 0), noun)


def score_values(scores: pa.Table) -> Floats:
    """Return the score of each row: NaN if it is left out, 0 or less if it failed.

    A failed row without any score has NaN too: for numbers other than shares, 0 may be the best.
    """
    scores = with_status(scores)
    values = np.array(scores["score"].to_numpy(), dtype=np.float64)
    failed = np.asarray(has_status(scores, FAILED).to_numpy(), dtype=np.bool_)
    # `minimum` keeps NaN, so a failed row without a score stays without one.
    values[failed] = np.minimum(0.0, values[failed])
    values[np.asarray(has_status(scores, LEFT_OUT).to_numpy(), dtype=np.bool_)] = np.nan
    return values


def wrong_rows(scores: pa.Table) -> Any:
    """Return a mask of the rows that were scored and are not correct."""
    scored: Any = has_status(scores, SCORED)
    correct: Any = scores["correct"]
    return pc.and_not(scored, pc.fill_null(correct, True))


def row_noun(scores: pa.Table) -> str:
    """Return the noun for what a row of scores is about: `question`, or the file's own, such as `document`."""
    return (scores.schema.metadata or {}).get(UNIT, b"question").decode()
