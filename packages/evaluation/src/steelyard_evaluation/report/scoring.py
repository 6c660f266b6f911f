"""Scores every row of a verified output, one file at a time, into one Parquet file.

Reports, verification and `eval score` call it. In addition to the rubric's columns the file has a `group:<column>` for
each column to group by, and `_cluster_`, a number, if rows are clustered by a column.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard_common.bounded_parquet import read_table
from steelyard_common.errors import SteelyardError
from steelyard_evaluation.engine.manifest import Manifest
from steelyard_evaluation.report.answers import Questions, View, local_copy, read_answers
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.layout import CLUSTER
from steelyard_evaluation.report.results import (
    Answer,
    Bounds,
    Counts,
    Metric,
    Results,
    Rubric,
    ScoresTogether,
)
from steelyard_evaluation.report.rubrics.answer import is_missing, to_text
from steelyard_evaluation.report.rubrics.calls import rubric_code, rubric_failed
from steelyard_evaluation.report.rubrics.unread import explain_no_number, without_number
from steelyard_evaluation.report.statistics.groups import (
    GROUP,
    group_columns,
    group_figure,
    group_numbers,
    group_scores,
    group_table,
)
from steelyard_evaluation.report.statistics.intervals import Estimate, proportion, row_clusters
from steelyard_evaluation.report.statistics.power import power_line, power_numbers
from steelyard_evaluation.report.statistics.reducers import reduce_scores, right_or_wrong
from steelyard_evaluation.report.status import COLUMN as STATUS
from steelyard_evaluation.report.status import (
    FAILED,
    count_statuses,
    has_status,
    score_values,
    with_resolved_status,
    with_status,
    without_left_out,
)
from steelyard_evaluation.report.wording import count_noun, percent
from steelyard_evaluation.storage.store import Store
from steelyard_schema.faults import error_text

Progress = Callable[[int, int], None]
CLOSE = 1e-9
"""Relative difference below which two means of the same scores are one number."""


@dataclass(frozen=True)
class Grouping:
    """Columns of the dataset that define groups of scores, and those that define clusters."""

    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the dataset that it reads."""
        return (*self.group_by, *((self.cluster_by,) if self.cluster_by else ()))

    @property
    def fields(self) -> list["pa.Field[Any]"]:
        """Columns of the scores that it adds."""
        groups: list[pa.Field[Any]] = [pa.field(GROUP + name, pa.string()) for name in self.group_by]
        if self.cluster_by is None:
            return groups
        return [pa.field(CLUSTER, pa.int64(), metadata={"column": self.cluster_by}), *groups]


@dataclass(frozen=True)
class Output:
    """A verified output: its store, its manifest, and the view through which the rubric reads it."""

    store: Store
    manifest: Manifest
    view: View


async def score_output(
    rubric: Rubric,
    output: Output,
    questions: Questions,
    path: Path,
    grouping: Grouping = Grouping(),
    progress: Progress = lambda done, total: None,
) -> Path:
    """Write the scores of every row, in the order of the output, to `path`; its folder holds one local copy at a time.

    `questions` has the columns of the rubric and of `grouping`. Raises ReportFailed.
    """
    keys: list[pa.Field[Any]] = [pa.field("_index_", pa.int64()), pa.field("_replication_", pa.string())]
    # Rubrics of earlier versions have a column of this name with a meaning of its own.
    with rubric_code(type(rubric), "in scores"):
        own = [field for field in rubric.scores if field.name != STATUS]
        schema = pa.schema([*keys, *own, pa.field(STATUS, pa.string()), *grouping.fields])
        schema = schema.with_metadata(rubric.scores.metadata)
    score = _Scorer(rubric, grouping)
    done = 0
    with pq.ParquetWriter(path, schema) as writer:
        for number, entry in enumerate(output.manifest.files):
            local = await local_copy(output.store, entry, path.parent, number)
            for batch in read_answers(local, questions, output.view):
                rows = await asyncio.to_thread(score, batch)
                with rubric_code(type(rubric), "in score"):
                    table = pa.Table.from_pylist(rows, schema)
                writer.write_table(table)
                done += len(rows)
                progress(done, output.manifest.rows.present)
            local.unlink()
    if done == 0:
        raise ReportFailed("NothingToScore", "the verified output has no rows")
    if isinstance(rubric, ScoresTogether):
        scores = await asyncio.to_thread(_together, rubric, path)
        await asyncio.to_thread(pq.write_table, scores, path)
    return path


def _together(rubric: ScoresTogether, path: Path) -> pa.Table:
    table = read_table(path)
    with rubric_code(type(rubric), "in together"):
        return rubric.together(table)


def summarise(rubric: Rubric, scores: pa.Table, reducers: Sequence[str] = ()) -> Results:
    """Return the rubric's results, with additions for every rubric: counts, reducers, groups, detectable differences.

    They have no number where no row got an answer that could be read.

    A rubric gets the rows that are not left out, or all of them if it says so (`sees_left_out`). Raises UsageError for
    reducers that do not fit, RubricFailed.
    """
    scores = with_status(scores)
    kept = without_left_out(scores)
    with rubric_code(type(rubric), "in summarise"):
        own = rubric.summarise(scores if getattr(rubric, "sees_left_out", False) else kept)
        if not isinstance(own, Results):
            raise TypeError(f"it returned {type(own).__name__} instead of Results")
    if not own.metrics or "score" not in scores.column_names:
        return _with_counts(_with_answered(own, scores), count_statuses(scores))
    if (why := explain_no_number(rubric, scores)) is not None:
        others = getattr(rubric, "sees_left_out", False)
        nothing = _with_counts(without_number(own, why, others=others), count_statuses(scores))
        return replace(nothing, numbers={**nothing.numbers, "power": None})
    results = _with_counts(_with_answered(own, scores), count_statuses(scores))
    lead = results.metrics[0]
    binary = lead.unit == "share" and right_or_wrong(scores)
    # Groups and reducers are means of rows, which the first number may not be (BLEU of the corpus).
    of_rows = mean_of_rows(results.metrics, kept)
    groups = [group_scores(scores, column, of_rows, binary) for column in group_columns(scores)]
    drawn = [figure for group in groups if (figure := group_figure(group, of_rows))]
    clusters = pc.count_distinct(kept[CLUSTER]).as_py() if CLUSTER in kept.column_names else None
    questions = int(pc.count_distinct(kept["_index_"]).as_py())
    line = power_line(lead, questions, clusters, binary=binary)
    added: dict[str, Any] = {"power": power_numbers(lead, questions, clusters, binary=binary)}
    if of_rows.name != lead.name:
        added["meanOfRows"] = {"name": of_rows.name, "title": of_rows.title}
    if groups:
        added["groups"] = {group.column: group_numbers(group) for group in groups}
    return replace(
        results,
        metrics=(*results.metrics, *reduce_scores(scores, of_rows, reducers)),
        figures=(*results.figures, *drawn),
        tables=(*(group_table(group, of_rows) for group in groups), *results.tables),
        limits=(*results.limits, *((line,) if line else ())),
        numbers={**results.numbers, **added},
    )


def _with_answered(results: Results, scores: pa.Table) -> Results:
    """Add the share of all rows that got an answer, where some did not. A row that is left out has an answer."""
    failed = np.asarray(has_status(scores, FAILED).to_numpy(), dtype=np.bool_)
    if not results.metrics or not failed.any():
        return results
    answered = proportion(~failed, row_clusters(scores))
    note = f"{count_statuses(scores).noun}s that got an answer at all"
    lead, *others = [metric for metric in results.metrics if metric.name != "answered"] or results.metrics
    return replace(results, metrics=(lead, Metric("answered", "Answered", answered, note=note), *others))


def mean_of_rows(metrics: Sequence[Metric], kept: pa.Table) -> Metric:
    """Return the metric that is the mean of the rows' scores; if none is, that mean by its own name."""
    values = score_values(kept)
    values = values[np.isfinite(values)]
    lead = metrics[0]
    if not values.size:
        return lead
    mean = float(values.mean())
    for metric in metrics:
        value = metric.estimate.value
        if value is not None and abs(value - mean) <= CLOSE * max(1.0, abs(mean)):
            return metric
    estimate = Estimate(mean, None, None, "mean over rows", int(values.size))
    return Metric("score", "Mean score", estimate, lead.unit, "mean of the rows' scores", lead.scale)


def _with_counts(results: Results, counts: Counts) -> Results:
    """Add the number of rows by status; the headline names rows that failed or are left out."""
    bounds = results.bounds or (_bounds(results.metrics[0], counts) if results.metrics else None)
    sentences = [results.headline, *_status_sentences(counts, bounds)]
    return replace(results, headline=" ".join(sentences), counts=counts, bounds=bounds)


def _bounds(lead: Metric, counts: Counts) -> Bounds | None:
    """Return the share if all failed rows were wrong, and if all were right; None for any other number."""
    value = lead.estimate.value
    # Only where the lead is over all rows: of a number over some of them, failed rows say nothing.
    if lead.unit != "share" or value is None or not counts.failed or lead.estimate.n != counts.denominator:
        return None
    return Bounds(value, min(1.0, value + counts.failed / counts.denominator))


def _status_sentences(counts: Counts, bounds: Bounds | None) -> Iterator[str]:
    """Yield a sentence for the rows that failed, and one for those that are left out."""
    if counts.failed and bounds:
        right = percent(bounds.all_failed_right)
        yield f"{count_noun(counts.failed, counts.noun)} failed, counted as wrong: {right} if all were right."
    elif counts.failed:
        yield f"{count_noun(counts.failed, counts.noun)} failed."
    if counts.left_out:
        they = "it" if counts.left_out == 1 else "they"
        yield f"{count_noun(counts.left_out, counts.noun)} left out: {they} could not be graded."


@dataclass
class _Scorer:
    """Function that scores batches; it remembers the numbers of the cluster column's values."""

    rubric: Rubric
    grouping: Grouping
    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, batch: Sequence[Answer]) -> list[dict[str, Any]]:
        return [self._row(answer) for answer in batch]

    def _row(self, answer: Answer) -> dict[str, Any]:
        row = {"_index_": answer.index, "_replication_": answer.replication}
        # Not by `rubric_code`, which would take longer than the scoring of many rubrics.
        try:
            row |= with_resolved_status(self.rubric, answer, self.rubric.score(answer))
        except ValueError as error:
            raise ReportFailed("CannotScore", error_text(error), row=str(answer.index)) from error
        except SteelyardError:
            raise
        # The code of a rubric may raise anything, and may also end the process.
        except (Exception, SystemExit) as error:
            where = f"in score (row {answer.index})"
            raise rubric_failed(type(self.rubric), where, error) from error
        for name in self.grouping.group_by:
            value = answer.row[name]
            row[GROUP + name] = None if is_missing(value) else to_text(value)
        if self.grouping.cluster_by is not None:
            row[CLUSTER] = self._cluster(answer)
        return row

    def _cluster(self, answer: Answer) -> int:
        """Return the number of the answer's cluster. A row without a value has a cluster of its own, below zero."""
        value = answer.row[str(self.grouping.cluster_by)]
        if is_missing(value):
            return -1 - answer.index
        return self.numbers.setdefault(to_text(value), len(self.numbers))
