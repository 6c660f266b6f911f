"""Answers that a rubric could not read: the column with the reason, a table of reasons, and results without a number.

A number says how good answers are. Where no row got an answer that could be read, there is none.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_evaluation.report.results import Cell, Results, Rubric, Table
from steelyard_evaluation.report.rubrics.rows import schema
from steelyard_evaluation.report.statistics.intervals import Estimate
from steelyard_evaluation.report.status import SCORED, count_statuses, has_status, score_values

UNREAD = schema(("unread", pa.string()))
"""Columns of every rubric, and the reason why nothing was read; null if something was, or there is no answer."""
_MOST = 15


def unread_tables(scores: pa.Table) -> tuple[Table, ...]:
    """Return a table of the reasons by frequency, without the details of single answers behind a colon."""
    reasons = [reason.partition(":")[0] for reason in scores["unread"].to_pylist() if reason is not None]
    if not reasons:
        return ()
    counts = sorted(Counter(reasons).items(), key=lambda row: (-row[1], row[0]))[:_MOST]
    note = "These answers count as wrong: what can be read in two ways is not guessed."
    return (Table("Answers that were not read", ("Reason", "Answers"), tuple(counts), note),)


def explain_no_number(rubric: Rubric, scores: pa.Table) -> str | None:
    """Return the sentence for scores without a single answer that could be read; None if there is one.

    An answer cannot be read if it is empty, if the rubric finds in it nothing to compare with the target, or no verdict
    on it can be read. A right answer was read, whatever it says: an empty one may be what the target asks for.
    """
    scored = scores.filter(has_status(scores, SCORED))
    blank: Any = pc.equal(pc.utf8_trim_whitespace(scored["prediction"]), pa.scalar(""))
    nothing_found = _unread_mask(rubric, scored)
    empty: Any = pc.and_not(pc.fill_null(blank, False), nothing_found)
    unread: Any = pc.or_(empty, nothing_found)
    values = score_values(scored)
    if np.any((np.nan_to_num(values) != 0) | ~np.asarray(unread.to_numpy(), dtype=np.bool_)):
        return None
    counts = count_statuses(scores)
    if not counts.present:
        return None
    if not scored.num_rows:
        return "No answer could be graded." if counts.left_out else "No row was answered."
    return (
        "No row was answered: every answer is empty." if pc.all(empty).as_py() else "No answer could be read."
    )


def _unread_mask(rubric: Rubric, scored: pa.Table) -> Any:
    """Return a mask of the answers in which the rubric found nothing."""
    if "unread" in scored.column_names:
        return pc.is_valid(scored["unread"])
    if (unread := getattr(rubric, "unread", None)) is not None:
        return pa.chunked_array([pa.array(unread(scored), pa.bool_())])
    # What is not compared with the target need not be a prediction.
    missing = pc.is_null(scored["prediction"])
    return pc.and_(missing, pa.scalar(getattr(rubric, "compares", None) is not None))


def without_number(results: Results, why: str, *, others: bool) -> Results:
    """Return results whose numbers are left out because of `why`; with `others`, the leading one alone.

    Tables of counts stay; figures, and tables of estimates, do not.
    """
    lead, *further = (metric for metric in results.metrics if metric.name != "answered")
    left_out = [lead] if others else [lead, *further]
    nothing = [
        replace(metric, estimate=Estimate(None, None, None, why, metric.estimate.n)) for metric in left_out
    ]
    return replace(
        results,
        headline=why,
        metrics=(*nothing, *(further if others else ())),
        figures=(),
        tables=tuple(table for table in results.tables if not any(map(_has_estimate, table.rows))),
        limits=(),
        numbers=results.numbers if others else {},
        bounds=None,
    )


def _has_estimate(row: tuple[Cell, ...]) -> bool:
    return any(isinstance(cell, Estimate) for cell in row)
