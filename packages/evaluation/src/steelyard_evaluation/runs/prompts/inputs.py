"""The prompt file as the dataset of a run: read in batches whatever its format, chosen from, numbered, written once.

`_index_` is the number of a row in its file, so that the rows of a part of a file can be compared with those of the
whole.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.engine.rows import BadColumn, plain_batch, plain_schema, row_numbers, to_rows
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.engine.table_files import TITLES, BadTable, find_form
from steelyard_evaluation.engine.tables import Table, open_table, unite
from steelyard_evaluation.runs.folder import INPUTS_FILE, RunFolder
from steelyard_evaluation.runs.request import HUB, SourceSpec
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_schema.columns import lacking

Numbers = npt.NDArray[np.int64]
GROUP_ROWS = 4096
GROUP_BYTES = 8 << 20
FEW = 20


class Rows(Protocol):
    """A table that can be read again and again: a file, or a dataset of the hub."""

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """The files that the rows are read from, by content."""
        ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def count(self) -> int: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class FileRows:
    """The rows of one file."""

    table: Table
    schema: pa.Schema
    files: tuple[FileEntry, ...]
    location: str

    @property
    def count(self) -> int:
        return self.table.count

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.table.batches():
                yield plain_batch(batch, self.schema)
        except BadTable as error:
            raise UsageError(f"{self.location}: {error}") from error


def open_rows(source: SourceSpec) -> Rows:
    """Open the rows of `source`; UsageError says why they cannot be read."""
    if source.location.startswith(HUB):
        from steelyard_evaluation.runs.prompts.hub import open_hub_rows

        return _writable(open_hub_rows(source), source.location)
    path = Path(source.location)
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "there is no such file"
        raise UsageError(f"{source.location}: {what}")
    form = source.format or find_form(path.name)
    if form is None:
        raise UsageError(
            f"{source.location}: give its format with --format: {', '.join(sorted(TITLES))} "
            "(by default it is what the name ends in)"
        )
    try:
        table = open_table(path, form)
        schema, (table,) = unite([table])
    except BadTable as error:
        raise UsageError(f"{source.location}: {error}") from error
    # Of the file as it is now: a run that goes on after it was edited is refused by this digest.
    entry = FileEntry(path=path.name, size=path.stat().st_size, sha256=file_sha256(path), rows=table.count)
    return FileRows(table, schema, (entry,), source.location)


def _writable(rows: Rows, location: str) -> Rows:
    """Return the rows in types that the dataset can hold, or raise UsageError, which names the column."""
    try:
        schema = plain_schema(rows.schema)
    except BadColumn as error:
        raise UsageError(f"{location}: {error}") from error
    return rows if schema == rows.schema else _PlainRows(rows, schema, location)


@dataclass(frozen=True)
class _PlainRows:
    """Rows of types that JSON and Parquet know only by another name: dictionaries, views, half floats, …"""

    rows: Rows
    schema: pa.Schema
    location: str

    @property
    def files(self) -> tuple[FileEntry, ...]:
        return self.rows.files

    @property
    def count(self) -> int:
        return self.rows.count

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.rows.batches():
            try:
                yield plain_batch(batch, self.schema)
            except BadColumn as error:
                raise UsageError(f"{self.location}: {error}") from error


def map_columns(schema: pa.Schema, columns: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    """The dataset's columns: their names, and the file's. UsageError for a map that does not fit."""
    for new, old in columns.items():
        if old not in schema.names:
            raise UsageError(
                f"--map {new}={old}: {name} has no column {old!r}; {lacking([old], schema.names)}"
            )
        if new in schema.names and new not in columns.values() and new != old:
            raise UsageError(f"--map {new}={old}: {name} has a column {new!r} already")
    renamed = set(columns.values())
    pairs = [(old, old) for old in schema.names if old not in renamed] + list(columns.items())
    order = {name: number for number, name in enumerate(schema.names)}
    pairs.sort(key=lambda pair: order[pair[1]])
    doubles = {new for new, count in Counter(new for new, _ in pairs).items() if count > 1}
    if doubles:
        raise UsageError(f"{name}: the column {min(doubles)!r} is there twice")
    return pairs


def select_numbers(source: SourceSpec, count: int) -> Numbers | None:
    """The numbers of the rows that are asked, in order; None for all."""
    rest = count if source.limit is None else min(source.limit, count)
    if source.sample is not None and source.sample < rest:
        # Unshuffled and sorted: rows keep their order and their numbers, so samples of two runs can be
        # compared.
        drawn = np.random.default_rng(source.seed).choice(rest, source.sample, replace=False, shuffle=False)
        return np.sort(drawn.astype(np.int64))
    return None if rest == count else np.arange(rest, dtype=np.int64)


def select_batches(rows: Rows, source: SourceSpec) -> Iterator[pa.RecordBatch]:
    """The dataset in batches: the chosen rows under their new names, `_index_` first."""
    pairs = map_columns(rows.schema, source.columns, source.location)
    own = next((old for new, old in pairs if new == INDEX), None)
    selected = select_numbers(source, rows.count)
    for numbers, batch in _number_batches(rows, selected):
        index = pa.array(numbers) if own is None else _own_index(batch, own, source.location)
        kept = [(new, batch.schema.get_field_index(old)) for new, old in pairs if new != INDEX]
        # With the fields, whose metadata says which texts are JSON.
        fields = [
            pa.field(INDEX, pa.int64()),
            *(batch.schema.field(place).with_name(new) for new, place in kept),
        ]
        columns = [index, *(batch.column(place) for _, place in kept)]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _number_batches(rows: Rows, selected: Numbers | None) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
    """Batches of the selected rows, with their numbers; none is empty."""
    start = 0
    for batch in rows.batches():
        numbers = np.arange(start, start + batch.num_rows, dtype=np.int64)
        kept = batch
        if selected is not None:
            low, high = np.searchsorted(selected, [start, start + batch.num_rows])
            numbers = selected[low:high]
            kept = batch.take(numbers - start)
            # No row behind here is selected: of a large file only the beginning is read.
            if high == len(selected) and not len(numbers):
                return
        start += batch.num_rows
        if len(numbers):
            yield numbers, kept


def first_rows(rows: Rows, source: SourceSpec) -> list[dict[str, JsonValue]]:
    """A few of the rows that are asked."""
    for batch in select_batches(rows, source):
        return to_rows(batch.slice(0, FEW))
    return []


def write_dataset(rows: Rows, source: SourceSpec, folder: RunFolder) -> Path:
    """The dataset on disk, next to its final place: `RunFolder.root` puts it there whole. Blocking."""
    folder.path.mkdir(parents=True, exist_ok=True)
    path = folder.path / f".#{INPUTS_FILE}"
    count = 0
    writer: pq.ParquetWriter | None = None
    try:
        for group in _groups(select_batches(rows, source)):
            table = pa.Table.from_batches(group)
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
            count += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    if not count:
        raise UsageError(f"{source.location}: has no rows to ask")
    return path


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches for one row group each: many rows, but bounded in memory."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if (
            sum(batch.num_rows for batch in group) >= GROUP_ROWS
            or sum(batch.nbytes for batch in group) >= GROUP_BYTES
        ):
            yield group
            group = []
    if group:
        yield group


def _own_index(batch: pa.RecordBatch, name: str, location: str) -> "pa.Array[JsonValue]":
    column = batch.column(batch.schema.get_field_index(name))
    try:
        return row_numbers(column, of_any_type=True)
    except BadColumn as error:
        raise UsageError(f"{location}: {name} {error}") from error
