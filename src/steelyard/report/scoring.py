"""Scores every row of a verified output, one file at a time, into one Parquet file.

`make_report` and whatever scores again call it. Beside the rubric's columns there is a `group:<column>` for each
column to group by, and `_cluster_`, a number, where rows that share a value of a column depend on each other.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard.evaluation.manifest import Manifest
from steelyard.report.errors import ReportFailed
from steelyard.report.groups import GROUP, columns_of, group_figure, group_numbers, group_table, grouped
from steelyard.report.joined import Questions, View, answers, local_copy
from steelyard.report.power import power_line, power_numbers
from steelyard.report.reducers import reduced, right_or_wrong
from steelyard.report.results import Answer, Results, Rubric
from steelyard.report.rubrics.rows import text_of
from steelyard.storage.store import Store

Progress = Callable[[int, int], None]

CLUSTER = "_cluster_"


@dataclass(frozen=True)
class Grouping:
    """By which columns of the dataset the scores are told apart, and by which rows hang together."""

    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the dataset that it reads."""
        return (*self.group_by, *((self.cluster_by,) if self.cluster_by else ()))

    @property
    def fields(self) -> list["pa.Field[Any]"]:
        """The columns of the scores that it adds."""
        groups: list[pa.Field[Any]] = [pa.field(GROUP + name, pa.string()) for name in self.group_by]
        if self.cluster_by is None:
            return groups
        return [pa.field(CLUSTER, pa.int64(), metadata={"column": self.cluster_by}), *groups]


@dataclass(frozen=True)
class Output:
    """A verified output: where it lies, which files vouch for it, and how the rubric sees it."""

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
    """Scores of every row, in the order of the output, written to `path`; its folder holds one local copy at a time.

    `questions` has the columns of the rubric and of `grouping`.
    """
    keys: list[pa.Field[Any]] = [pa.field("_index_", pa.int64()), pa.field("_replication_", pa.string())]
    schema = pa.schema([*keys, *rubric.scores, *grouping.fields])
    score = _Scorer(rubric, grouping)
    done = 0
    with pq.ParquetWriter(path, schema) as writer:
        for number, entry in enumerate(output.manifest.files):
            local = await local_copy(output.store, entry, path.parent, number)
            for batch in answers(local, questions, output.view):
                rows = await asyncio.to_thread(score, batch)
                writer.write_table(pa.Table.from_pylist(rows, schema))
                done += len(rows)
                progress(done, output.manifest.rows.present)
            local.unlink()
    if done == 0:
        raise ReportFailed("NothingToScore", "the verified output has no rows")
    return path


def summarise(rubric: Rubric, scores: pa.Table, reducers: Sequence[str] = ()) -> Results:
    """What the rubric finds, and what is added to every rubric: replications, groups, and what this size can see.

    UsageError for reducers that do not fit.
    """
    results = rubric.summarise(scores)
    if not results.metrics or "score" not in scores.column_names:
        return results
    lead, binary = results.metrics[0], right_or_wrong(scores)
    groups = [grouped(scores, column, lead, binary) for column in columns_of(scores)]
    drawn = [figure for found in groups if (figure := group_figure(found, lead))]
    clusters = pc.count_distinct(scores[CLUSTER]).as_py() if CLUSTER in scores.column_names else None
    line = power_line(lead, pc.count_distinct(scores["_index_"]).as_py(), clusters)
    added: dict[str, Any] = {"power": power_numbers(lead, clusters)}
    if groups:
        added["groups"] = {found.column: group_numbers(found) for found in groups}
    return replace(
        results,
        metrics=(*results.metrics, *reduced(scores, lead, reducers)),
        figures=(*results.figures, *drawn),
        tables=(*(group_table(found, lead) for found in groups), *results.tables),
        limits=(*results.limits, *((line,) if line else ())),
        numbers={**results.numbers, **added},
    )


@dataclass
class _Scorer:
    """Scores batches; remembers the numbers that values of the cluster column got."""

    rubric: Rubric
    grouping: Grouping
    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, batch: Sequence[Answer]) -> list[dict[str, Any]]:
        return [self._row(answer) for answer in batch]

    def _row(self, answer: Answer) -> dict[str, Any]:
        try:
            scored = self.rubric.score(answer)
        except ValueError as error:
            raise ReportFailed("CannotScore", str(error), row=str(answer.index)) from error
        row = {"_index_": answer.index, "_replication_": answer.replication, **scored}
        for name in self.grouping.group_by:
            value = answer.row[name]
            row[GROUP + name] = None if value is None else text_of(value)
        if self.grouping.cluster_by is not None:
            row[CLUSTER] = self._cluster(answer)
        return row

    def _cluster(self, answer: Answer) -> int:
        """A row without a value hangs together with no other: its number is its own, below zero."""
        value = answer.row[str(self.grouping.cluster_by)]
        if value is None:
            return -1 - answer.index
        return self.numbers.setdefault(text_of(value), len(self.numbers))
