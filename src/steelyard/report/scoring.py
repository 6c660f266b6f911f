"""Scores every row of a verified output, one file at a time, into one Parquet file.

Reports, verification and `eval score` call it. In addition to the rubric's columns the file has a `group:<column>` for
each column to group by, and `_cluster_`, a number, if rows are clustered by a column.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard.errors import SteelyardError
from steelyard.evaluation.manifest import Manifest
from steelyard.report.answers import Questions, View, local_copy, read_answers
from steelyard.report.errors import ReportFailed
from steelyard.report.layout import CLUSTER
from steelyard.report.results import Answer, Bounds, Counts, Metric, Results, Rubric, ScoresTogether
from steelyard.report.rubrics.calls import rubric_code, rubric_failed
from steelyard.report.rubrics.rows import text_of
from steelyard.report.statistics.groups import (
    GROUP,
    columns_of,
    group_figure,
    group_numbers,
    group_scores,
    group_table,
)
from steelyard.report.statistics.power import power_line, power_numbers
from steelyard.report.statistics.reducers import reduce_scores, right_or_wrong
from steelyard.report.status import COLUMN as STATUS
from steelyard.report.status import counts_of, with_resolved_status, with_status, without_left_out
from steelyard.report.wording import counted, percent
from steelyard.schema.faults import error_text
from steelyard.storage.store import Store

Progress = Callable[[int, int], None]


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
    table = pq.read_table(path)
    with rubric_code(type(rubric), "in together"):
        return rubric.together(table)


def summarise(rubric: Rubric, scores: pa.Table, reducers: Sequence[str] = ()) -> Results:
    """Return the rubric's results, with additions for every rubric: counts, reducers, groups, detectable differences.

    A rubric gets the rows that are not left out, or all of them if it says so (`sees_left_out`). Raises UsageError for
    reducers that do not fit, RubricFailed.
    """
    scores = with_status(scores)
    kept = without_left_out(scores)
    with rubric_code(type(rubric), "in summarise"):
        own = rubric.summarise(scores if getattr(rubric, "sees_left_out", False) else kept)
        if not isinstance(own, Results):
            raise TypeError(f"it returned {type(own).__name__} instead of Results")
    results = _with_counts(own, counts_of(scores))
    if not results.metrics or "score" not in scores.column_names:
        return results
    lead, binary = results.metrics[0], right_or_wrong(scores)
    groups = [group_scores(scores, column, lead, binary) for column in columns_of(scores)]
    drawn = [figure for group in groups if (figure := group_figure(group, lead))]
    clusters = pc.count_distinct(kept[CLUSTER]).as_py() if CLUSTER in kept.column_names else None
    line = power_line(lead, pc.count_distinct(kept["_index_"]).as_py(), clusters, binary=binary)
    added: dict[str, Any] = {"power": power_numbers(lead, clusters, binary=binary)}
    if groups:
        added["groups"] = {group.column: group_numbers(group) for group in groups}
    return replace(
        results,
        metrics=(*results.metrics, *reduce_scores(scores, lead, reducers)),
        figures=(*results.figures, *drawn),
        tables=(*(group_table(group, lead) for group in groups), *results.tables),
        limits=(*results.limits, *((line,) if line else ())),
        numbers={**results.numbers, **added},
    )


def _with_counts(results: Results, counts: Counts) -> Results:
    """Add the number of rows by status; the headline names rows that failed or are left out."""
    bounds = results.bounds or (_bounds(results.metrics[0], counts) if results.metrics else None)
    sentences = [results.headline, *_unscored_sentences(counts, bounds)]
    return replace(results, headline=" ".join(sentences), counts=counts, bounds=bounds)


def _bounds(lead: Metric, counts: Counts) -> Bounds | None:
    """Return the share if all failed rows were wrong, and if all were right; None for any other number."""
    value = lead.estimate.value
    # Only where the lead is over all rows: of a number over some of them, failed rows say nothing.
    if lead.unit != "share" or value is None or not counts.failed or lead.estimate.n != counts.denominator:
        return None
    return Bounds(value, min(1.0, value + counts.failed / counts.denominator))


def _unscored_sentences(counts: Counts, bounds: Bounds | None) -> Iterator[str]:
    """Yield a sentence for the rows that failed, and one for those that are left out."""
    if counts.failed and bounds:
        right = percent(bounds.all_failed_right)
        yield f"{counted(counts.failed, counts.noun)} failed, counted as wrong: {right} if all were right."
    elif counts.failed:
        yield f"{counted(counts.failed, counts.noun)} failed."
    if counts.left_out:
        they = "it" if counts.left_out == 1 else "they"
        yield f"{counted(counts.left_out, counts.noun)} left out: {they} could not be graded."


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
            row[GROUP + name] = None if value is None else text_of(value)
        if self.grouping.cluster_by is not None:
            row[CLUSTER] = self._cluster(answer)
        return row

    def _cluster(self, answer: Answer) -> int:
        """Return the number of the answer's cluster. A row without a value has a cluster of its own, below zero."""
        value = answer.row[str(self.grouping.cluster_by)]
        if value is None:
            return -1 - answer.index
        return self.numbers.setdefault(text_of(value), len(self.numbers))
