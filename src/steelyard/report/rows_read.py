"""One more pass over verified outputs, after scoring: tokens, rows without an answer, rows that are shown."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard.report.joined import BATCH, Questions, View
from steelyard.report.rows import Row
from steelyard.report.rows_errors import Records
from steelyard.report.statistics import Integers

Json = Any
Take = Callable[[Row], None]
Ask = Callable[[Sequence[int]], Mapping[int, Mapping[str, Json]]]


@dataclass
class Tokens:
    """What the service told of its work. None: it told nothing."""

    prompt: int | None = None
    completion: int | None = None
    longest: int | None = None
    """The most completion tokens of one response."""
    finished: Counter[str] = field(default_factory=Counter)
    """Responses by the reason for which they ended."""
    responses: int = 0

    def add(self, responses: Any) -> None:
        kind = responses.type.value_type
        names = {kind.field(number).name for number in range(kind.num_fields)}
        each = responses.flatten()
        self.responses += len(each)
        if "prompt_tokens" in names:
            self.prompt = _sum(self.prompt, pc.sum(pc.struct_field(each, "prompt_tokens")).as_py())
        if "completion_tokens" in names:
            told = pc.struct_field(each, "completion_tokens")
            self.completion = _sum(self.completion, pc.sum(told).as_py())
            most = pc.max(told).as_py()
            self.longest = most if self.longest is None or (most or 0) > self.longest else self.longest
        if "finish_reason" in names:
            counts = pc.value_counts(pc.drop_null(pc.struct_field(each, "finish_reason")))
            for found in counts.to_pylist():
                self.finished[found["values"]] += found["counts"]

    def numbers(self) -> dict[str, Json]:
        return {
            "prompt": self.prompt,
            "completion": self.completion,
            "longestAnswer": self.longest,
            "responses": self.responses,
            "finished": dict(sorted(self.finished.items())),
        }


class Reading:
    """Takes the verified files one after the other, beside the scores of the same rows."""

    def __init__(
        self,
        scores: Sequence[pa.Table],
        replications: Sequence[str],
        records: Records,
        chosen: Integers,
        questions: Ask,
    ) -> None:
        self._scores = scores
        self._numbers = {name: number for number, name in enumerate(replications)}
        self._records = records
        self._chosen = pa.array(chosen, pa.int64())
        self._questions = questions
        self._failed: list[pa.Table] = []
        self._done = 0
        self.tokens = Tokens()
        self.rows: list[Row] = []

    @property
    def failed(self) -> pa.Table:
        """`_index_` and `_replication_` of the rows without an answer."""
        return pa.concat_tables(self._failed)

    def add(self, path: Path, every: Take | None = None) -> None:
        """The rows of one file; `every` gets all of them, not only the chosen."""
        for batch in pq.ParquetFile(path).iter_batches(BATCH):
            responses = batch.column("responses")
            self.tokens.add(responses)
            keys = pa.Table.from_batches([batch]).select(["_index_", "_replication_"])
            self._failed.append(keys.filter(pc.is_null(responses)))
            mask = pc.is_in(batch.column("_index_"), value_set=self._chosen)
            if every is not None:
                for row in self._joined(batch, slice(None)):
                    every(row)
            self.rows += self._joined(batch, mask)
            self._done += batch.num_rows

    def _joined(self, batch: pa.RecordBatch, mask: Any) -> Iterator[Row]:
        whole = isinstance(mask, slice)
        few = batch if whole else batch.filter(mask)
        if not few.num_rows:
            return
        here = [table.slice(self._done, batch.num_rows) for table in self._scores]
        scores = [(part if whole else part.filter(mask)).to_pylist() for part in here]
        asked = self._questions(_integers(few.column("_index_")))
        for number, row in enumerate(few.to_pylist(maps_as_pydicts="strict")):
            key = (row["_index_"], row["_replication_"])
            yield Row(
                index=row["_index_"],
                replication=self._numbers.get(row["_replication_"], 0),
                question=asked[row["_index_"]],
                responses=row["responses"],
                scores=[each[number] for each in scores],
                error=self._records.rows.get(key, {}) if row["responses"] is None else None,
            )


def asked(dataset: Sequence[Path], indexes: Integers, *, every: bool = False) -> Ask:
    """Gives the whole rows of the dataset by `_index_`: of these indexes, or of `every` one, which takes its memory."""
    if every:
        names = dict.fromkeys(
            name for path in dataset for name in pq.read_schema(path).names if name != "_index_"
        )
        questions = Questions(dataset, tuple(names), View())
        return lambda wanted: dict(zip(wanted, questions.rows(wanted), strict=True))
    wanted = pa.array(indexes, pa.int64())
    rows: dict[int, Mapping[str, Json]] = {}
    for path in dataset:
        for batch in pq.ParquetFile(path).iter_batches(BATCH):
            few = batch.filter(pc.is_in(batch.column("_index_"), value_set=wanted))
            rows |= {row["_index_"]: row for row in few.to_pylist(maps_as_pydicts="strict")}
    return lambda wanted: {index: rows[index] for index in wanted}


def _integers(column: Any) -> list[int]:
    return [int(index) for index in column.to_numpy()]


def _sum(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more
