"""Reads answers with their questions: verified files joined with the dataset on `_index_`, one batch at a time.

Both sides are copied to the local disk. A file that has another digest than verification recorded is refused.
"""

import asyncio
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard_common.bounded_parquet import batches, open_parquet
from steelyard_evaluation.engine.adapters import Adapter, AdapterSpec, create_pipeline
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.storage.checked import without_checks
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import Store, display_name
from steelyard_schema.columns import column_text, lacking, optional, parts, present

BATCH = 4096
OUTPUT_COLUMNS = frozenset({"_index_", "_replication_", "responses"})


@dataclass(frozen=True)
class View:
    """A pipeline of adapters through which one side is read, or none."""

    adapter: Adapter | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.adapter is None:
            return row
        try:
            shown = list(self.adapter([row]))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ReportFailed("BadView", f"the view fails: {error}", row=str(row.get("_index_"))) from error
        if len(shown) != 1:
            message = f"a view must keep one row per row; it made {len(shown)}"
            raise ReportFailed("BadView", message, row=str(row.get("_index_")))
        return shown[0]


def make_view(pipeline: Sequence[AdapterSpec] | None) -> View:
    """Return the view of this pipeline; without one, the data as they are. Raises ReportFailed."""
    if not pipeline:
        return View()
    try:
        return View(create_pipeline(pipeline))
    except (ValueError, NotImplementedError) as error:
        raise ReportFailed("BadView", str(error)) from error


async def local_copy(store: Store, entry: FileEntry, folder: Path, number: int) -> Path:
    """Copy the file to `folder`. Raises ReportFailed unless it is the one that was verified."""
    path = folder / f"{number:06d}.parquet"
    await without_checks(store).download(entry.path, path)
    # Of the copy, which is what is read from now on: the store's object may be replaced meanwhile.
    digest = await asyncio.to_thread(file_sha256, path)
    if digest != entry.sha256:
        path.unlink()
        raise ReportFailed(
            "DigestMismatch",
            f"{display_name(store.url, entry.path)} is not the file that was verified: "
            f"its SHA-256 is {digest}, the manifest says {entry.sha256}",
        )
    return path


def memory_mapped(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a Parquet file as a table mapped from disk, so that texts that are not read take no memory. Blocking."""
    # The mapping keeps the file's blocks when its name is gone, and frees them with the table.
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file, open_parquet(path) as source:
        names = source.schema_arrow.names if columns is None else list(columns)
        # Files of one dataset may order their columns differently; mapped, they have to be one table.
        fields: list[pa.Field[Any]] = [_plain_field(source.schema_arrow.field(name)) for name in names]
        kept = pa.schema(fields).with_metadata(source.schema_arrow.metadata or {})
        with pa.ipc.new_file(file.name, kept) as sink:
            for batch in batches(path, BATCH, names):
                sink.write_table(pa.Table.from_batches([batch.select(names)]).cast(kept))
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()


def _plain_field(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """Return the field of the plain values: a file in Arrow's format takes one dictionary for all batches alone."""
    kind: Any = field.type
    return field.with_type(kind.value_type) if pa.types.is_dictionary(kind) else field


class Questions:
    """The dataset's columns that a rubric reads, looked up by `_index_`."""

    def __init__(self, files: Sequence[Path], columns: Sequence[str], view: View) -> None:
        if not files:
            raise ReportFailed("NothingToScore", "the manifest names no file of the dataset")
        self._view = view
        table = _join([self._load(path, columns) for path in files])
        # A dataset may number its rows in any order: they are found by binary search, not by place.
        self._order = np.argsort(table["_index_"].to_numpy(), kind="stable")
        self._index = table["_index_"].to_numpy()[self._order]
        self._columns = table.drop_columns(["_index_"])

    def _load(self, path: Path, columns: Sequence[str]) -> pa.Table:
        if self._view.adapter is None:
            return memory_mapped(path, _names(columns, open_parquet(path).schema_arrow.names))
        shown = (self._view(row) for row in read_rows(path))
        return pa.Table.from_pylist([{name: row[name] for name in _names(columns, row)} for row in shown])

    def rows(self, indexes: Sequence[int]) -> Sequence[Mapping[str, Any]]:
        """Return the view's rows of these indexes, in their order. Raises ReportFailed for an unknown one."""
        requested = np.asarray(indexes, dtype=np.int64)
        positions = np.searchsorted(self._index, requested)
        nearest = np.minimum(positions, max(0, self._index.size - 1))
        missing = self._index.size == 0 or (self._index[nearest] != requested)
        if np.any(missing):
            index = int(requested[np.argmax(missing)])
            raise ReportFailed(
                "NoSuchRow", f"the dataset has no row {index}, but the output has", row=str(index)
            )
        if not self._columns.num_columns:  # a table without columns forgets how many rows it has
            return [{} for _ in indexes]
        positions = self._order[nearest]
        # Only the chunks around these rows: `take` from all of them would first copy the whole column.
        first = positions.min()
        near = self._columns.slice(first, positions.max() - first + 1)
        return to_rows(near.take(positions - first))


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    """Return one table of all files, whose columns may have types of different widths. Raises ReportFailed."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ReportFailed(
            "BadDataset", f"the files of the dataset have different columns: {error}"
        ) from error


def read_answers(path: Path, questions: Questions, view: View) -> Iterator[list[Answer]]:
    """Yield the rows of one verified file in batches, each row with its question."""
    for batch in batches(path, BATCH):
        rows = [view(row) for row in to_rows(batch)]
        if rows and (lost := OUTPUT_COLUMNS - rows[0].keys()):
            raise ReportFailed("BadView", f"the evaluation's view drops {', '.join(sorted(lost))}")
        # A batch at a time: one lookup for thousands of rows, where one for each would take most of the
        # scoring.
        question_rows = questions.rows([row["_index_"] for row in rows])
        yield [
            Answer(row["_index_"], row["_replication_"], question, row["responses"])
            for row, question in zip(rows, question_rows, strict=True)
        ]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    for batch in batches(path, BATCH):
        yield from to_rows(batch)


def _names(requested: Sequence[str], available: Collection[str]) -> list[str]:
    """Return `_index_` and the columns of the dataset that the requested names stand for, each once."""
    names = {"_index_": None}
    for column in ("_index_", *requested):
        name = present(column, available)
        if name is not None:
            names[name] = None
        elif not optional(column):
            raise ReportFailed(
                "NoSuchColumn",
                f"the dataset has no column {column_text(column)}; {lacking(parts(column), available)}",
            )
    return list(names)
