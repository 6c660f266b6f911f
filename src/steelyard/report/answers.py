"""The answers beside their questions.

Verified files joined with the dataset on `_index_`, one batch at a time.

Both sides are copied to local disk, and digested on the way: a file that is not what verification saw is
refused.
"""

import asyncio
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard.evaluation.adapters import Adapter, AdapterSpec, create_pipeline
from steelyard.evaluation.manifest import FileEntry
from steelyard.report.errors import ReportFailed
from steelyard.report.results import Answer
from steelyard.report.rubrics.columns import named, optional, present
from steelyard.storage.digest import sha256_of
from steelyard.storage.store import Store

BATCH = 4096
OUTPUT_COLUMNS = frozenset({"_index_", "_replication_", "responses"})


@dataclass(frozen=True)
class View:
    """Way of reading one side: a pipeline of adapters, or none."""

    adapter: Adapter | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.adapter is None:
            return row
        try:
            shown = list(self.adapter([row]))
        except (ValueError, TypeError, LookupError) as error:
            raise ReportFailed("BadView", f"the view fails: {error}", row=_row(row)) from error
        if len(shown) != 1:
            raise ReportFailed(
                "BadView", f"a view must keep one row per row; it made {len(shown)}", row=_row(row)
            )
        return shown[0]


def make_view(pipeline: Sequence[AdapterSpec] | None) -> View:
    """No view, and a view without a pipeline, show the data as they are."""
    if not pipeline:
        return View()
    try:
        return View(create_pipeline(pipeline))
    except (ValueError, NotImplementedError) as error:
        raise ReportFailed("BadView", str(error)) from error


async def local_copy(store: Store, entry: FileEntry, folder: Path, number: int) -> Path:
    """The file on local disk; refused unless it is the one that verification saw."""
    path = folder / f"{number:06d}.parquet"
    await store.download(entry.path, path)
    digest = await asyncio.to_thread(sha256_of, path)
    if digest != entry.sha256:
        path.unlink()
        raise ReportFailed(
            "DigestMismatch",
            f"{store.url}/{entry.path} is not the file that was verified: "
            f"its SHA-256 is {digest}, the manifest says {entry.sha256}",
        )
    return path


def opened(path: Path) -> pq.ParquetFile:
    """Open a file for reading in pieces: a large row group is never in memory whole."""
    return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)


def mapped(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file as a table that lies on disk: texts that nobody looks at take no memory. Blocking."""
    with tempfile.NamedTemporaryFile(suffix=".arrow") as there, opened(path) as source:
        names = source.schema_arrow.names if columns is None else list(columns)
        kept = source.schema_arrow.empty_table().select(names).schema
        with pa.ipc.new_file(there.name, kept) as sink:
            for batch in source.iter_batches(BATCH, columns=names):
                sink.write_batch(batch.select(names))
        return pa.ipc.open_file(pa.memory_map(there.name)).read_all()


class Questions:
    """The dataset's columns that a rubric reads, found by `_index_`."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str], view: View) -> None:
        if not files:
            raise ReportFailed("NothingToScore", "the manifest names no file of the dataset")
        self._files = files
        self._view = view
        table = pa.concat_tables([self._read(path, columns) for path in files])
        self._order = np.argsort(table["_index_"].to_numpy(), kind="stable")
        self._index = table["_index_"].to_numpy()[self._order]
        self._columns = table.drop_columns(["_index_"])

    def _read(self, path: Path, columns: Sequence[str]) -> pa.Table:
        if self._view.adapter is None:
            return mapped(path, _names(columns, pq.read_schema(path).names))
        shown = (self._view(row) for row in rows_of(path))
        return pa.Table.from_pylist([{name: row[name] for name in _names(columns, row)} for row in shown])

    def rows(self, indexes: Sequence[int]) -> Sequence[Mapping[str, Any]]:
        """The view's rows of these indexes, in their order."""
        wanted = np.asarray(indexes, dtype=np.int64)
        places = np.searchsorted(self._index, wanted)
        nearest = np.minimum(places, max(0, self._index.size - 1))
        missing = self._index.size == 0 or (self._index[nearest] != wanted)
        if np.any(missing):
            index = int(wanted[np.argmax(missing)])
            raise ReportFailed(
                "NoSuchRow", f"the dataset has no row {index}, but the output has", row=str(index)
            )
        if not self._columns.num_columns:  # a table without columns forgets how many rows it has
            return [{} for _ in indexes]
        places = self._order[nearest]
        first = places.min()  # taking from few chunks: from all of them would copy the whole column first
        near = self._columns.slice(first, places.max() - first + 1)
        return near.take(places - first).to_pylist()

    def whole_rows(self, indexes: Sequence[int]) -> dict[int, dict[str, Any]]:
        """All columns of a few rows, for people to look at."""
        wanted = pa.array(sorted(indexes), pa.int64())
        shown: dict[int, dict[str, Any]] = {}
        for path in self._files:
            for batch in opened(path).iter_batches(BATCH):
                few = batch.filter(pc.is_in(batch.column("_index_"), value_set=wanted))
                shown |= {row["_index_"]: row for row in few.to_pylist(maps_as_pydicts="strict")}
        return shown


def answers(path: Path, questions: Questions, view: View) -> Iterator[list[Answer]]:
    """The rows of one verified file, each with its question."""
    for batch in opened(path).iter_batches(BATCH):
        rows = [view(row) for row in batch.to_pylist(maps_as_pydicts="strict")]
        if rows and (lost := OUTPUT_COLUMNS - rows[0].keys()):
            raise ReportFailed("BadView", f"the evaluation's view drops {', '.join(sorted(lost))}")
        question_rows = questions.rows([row["_index_"] for row in rows])
        yield [
            Answer(row["_index_"], row["_replication_"], question, row["responses"])
            for row, question in zip(rows, question_rows, strict=True)
        ]


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    for batch in opened(path).iter_batches(BATCH):
        yield from batch.to_pylist(maps_as_pydicts="strict")


def _names(wanted: Sequence[str], there: Collection[str]) -> list[str]:
    """`_index_` and the columns that are meant, each once."""
    names = {"_index_": None}
    for column in ("_index_", *wanted):
        name = present(column, there)
        if name is not None:
            names[name] = None
        elif not optional(column):
            raise ReportFailed(
                "NoSuchColumn", f"the dataset has no column {named(column)}; it has {', '.join(there)}"
            )
    return list(names)


def _row(row: Mapping[str, Any]) -> str:
    return str(row.get("_index_"))
