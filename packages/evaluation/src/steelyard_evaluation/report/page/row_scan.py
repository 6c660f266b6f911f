"""One more pass over verified outputs, after scoring: tokens, rows without an answer, rows that are shown."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.bounded_parquet import batches, open_parquet
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.answers import BATCH, memory_mapped
from steelyard_evaluation.report.row_scores import RowScores
from steelyard_evaluation.report.silence import Silence
from steelyard_evaluation.report.statistics.intervals import Integers

Take = Callable[[pa.Table, list[pa.Table]], None]
Ask = Callable[[Any], pa.Table]


@dataclass
class Tokens:
    """Tokens that the service reported; None where it reported none."""

    prompt: int | None = None
    completion: int | None = None
    longest: int | None = None
    """The most completion tokens of one response."""
    finished: Counter[str] = field(default_factory=Counter)
    """Responses by the reason for which they ended."""
    responses: int = 0
    silence: Silence = field(default_factory=Silence)

    def add(self, responses: Any) -> None:
        kind = responses.type.value_type
        names = {kind.field(number).name for number in range(kind.num_fields)}
        answers = responses.flatten()
        self.silence.add(responses)
        self.responses += len(answers)
        if "prompt_tokens" in names:
            self.prompt = _sum(self.prompt, pc.sum(pc.struct_field(answers, "prompt_tokens")).as_py())
        if "completion_tokens" in names:
            completions = pc.struct_field(answers, "completion_tokens")
            self.completion = _sum(self.completion, pc.sum(completions).as_py())
            most = pc.max(completions).as_py()
            self.longest = most if self.longest is None or (most or 0) > self.longest else self.longest
        if "finish_reason" in names:
            counts = pc.value_counts(pc.drop_null(pc.struct_field(answers, "finish_reason")))
            for usage in counts.to_pylist():
                self.finished[usage["values"]] += usage["counts"]

    def numbers(self) -> dict[str, JsonValue]:
        return {
            "prompt": self.prompt,
            "completion": self.completion,
            "longestAnswer": self.longest,
            "responses": self.responses,
            "finished": dict(sorted(self.finished.items())),
        }


class Reading:
    """Takes the verified files one after the other, together with the scores of the same rows."""

    def __init__(self, scores: Sequence[pa.Table], chosen: Integers) -> None:
        self._scores = [RowScores(table) for table in scores]
        self._chosen = pa.array(chosen, pa.int64())
        self._failed: list[pa.Table] = []
        self._rows: list[pa.Table] = []
        self._picked: list[list[pa.Table]] = [[] for _ in scores]
        self.tokens = Tokens()

    @property
    def failures(self) -> pa.Table:
        """`_index_` and `_replication_` of the rows without an answer."""
        return pa.concat_tables(self._failed)

    @property
    def rows(self) -> pa.Table:
        """The chosen rows of the output."""
        return pa.concat_tables(self._rows)

    @property
    def scores(self) -> list[pa.Table]:
        """Scores of these rows, by each rubric."""
        return [pa.concat_tables(tables) for tables in self._picked]

    def add(self, path: Path, every: Take | None = None) -> None:
        """The rows of one file; `every` gets all of them and their scores, not only the chosen."""
        for batch in batches(path, BATCH, ["_index_", "_replication_", "responses"]):
            table = pa.Table.from_batches([batch])
            self.tokens.add(batch.column("responses"))
            self._failed.append(
                table.select(["_index_", "_replication_"]).filter(pc.is_null(table["responses"]))
            )
            mask = pc.is_in(table["_index_"], value_set=self._chosen)
            self._rows.append(table.filter(mask))
            lookups = [scores.lookup(table) for scores in self._scores]
            for picked, scores in zip(self._picked, lookups, strict=True):
                picked.append(scores.filter(mask))
            if every is not None:
                every(table, lookups)


def question_reader(dataset: Sequence[Path], indexes: Integers | None) -> Ask:
    """Return a function that gives whole rows of the dataset by `_index_`, in the order of the call."""
    tables = [memory_mapped(path) if indexes is None else _some(path, indexes) for path in dataset]
    # Files of one dataset may lack a column that others have; missing values are null.
    whole = pa.concat_tables(tables, promote_options="default")
    order = np.argsort(whole["_index_"].to_numpy(), kind="stable")
    known = whole["_index_"].to_numpy()[order]

    def rows(counts: Any) -> pa.Table:
        places = order[np.searchsorted(known, np.asarray(counts, dtype=np.int64))]
        if not places.size:
            return whole.slice(0, 0)
        first = places.min()  # taking from few chunks: from all of them would copy the whole table first
        return whole.slice(first, places.max() - first + 1).take(places - first)

    return rows


def _some(path: Path, indexes: Integers) -> pa.Table:
    positions = pa.array(indexes, pa.int64())
    with open_parquet(path) as file:
        few = [
            batch.filter(pc.is_in(batch.column("_index_"), value_set=positions))
            for batch in batches(path, BATCH)
        ]
        return pa.Table.from_batches(few, file.schema_arrow)


def _sum(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more
