"""Prompt files by format, each as batches of Arrow in constant memory: Parquet, Arrow, JSON lines, CSV.

CSV is text and stays text: `007` is not a number. The columns of JSON lines are those of all lines together.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.errors import UsageError
from steelyard.runs.request import Format
from steelyard.types import JsonValue

BATCH = 4096

_SUFFIXES: Mapping[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
}


class Reader(Protocol):
    """One open format: it can be read several times."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def count(self) -> int: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


def format_of(path: Path) -> Format | None:
    return _SUFFIXES.get(path.suffix.lower())


@dataclass(frozen=True)
class _Table:
    """A format of Arrow's own."""

    schema: pa.Schema
    count: int
    read: Callable[[], Iterator[pa.RecordBatch]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.read()


def _parquet(path: Path) -> Reader:
    try:
        file = pq.ParquetFile(path)
        schema, count = file.schema_arrow.remove_metadata(), file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path}: is not Parquet: {error}") from error

    def read() -> Iterator[pa.RecordBatch]:
        # Without pre-buffering a row group is read in pieces: memory does not grow with its size.
        yield from pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20).iter_batches(BATCH)

    return _Table(schema, count, read)


def _arrow(path: Path) -> Reader:
    """An Arrow file, or a stream in a file."""

    def read() -> Iterator[pa.RecordBatch]:
        source = pa.memory_map(str(path))
        try:
            file = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            # The same ending is used for two formats: a file with a footer, and a stream without one.
            yield from _pieces(pa.ipc.open_stream(source))
            return
        yield from _pieces(file.get_batch(number) for number in range(file.num_record_batches))

    try:
        batches = read()
        # A stream does not say how many rows it has: it is read once to count them, mapped and without a
        # copy.
        first = next(batches, None)
        count = (first.num_rows if first is not None else 0) + sum(batch.num_rows for batch in batches)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path}: is not Arrow: {error}") from error
    schema = pa.schema([]) if first is None else first.schema.remove_metadata()
    return _Table(schema, count, read)


def _pieces(batches: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH):
            yield batch.slice(start, BATCH)


def _csv(path: Path) -> Reader:
    from pyarrow import csv

    def opened(kinds: dict[str, pa.DataType]) -> csv.CSVStreamingReader:
        return csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=1 << 20),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            # An empty cell of a text column is empty text: prompts and answers may be so on purpose.
            convert_options=csv.ConvertOptions(column_types=kinds, strings_can_be_null=False),
        )

    def read() -> Iterator[pa.RecordBatch]:
        try:
            yield from _pieces(opened(kinds))
        except pa.ArrowInvalid as error:
            raise _no_csv(path, error) from error

    try:
        # The names first, then every column as text: Arrow guesses types from the first block and fails at a
        # later one.
        names = opened({}).schema.names
    except pa.ArrowInvalid as error:
        raise _no_csv(path, error) from error
    kinds: dict[str, pa.DataType] = dict.fromkeys(names, pa.string())
    return _Table(pa.schema(kinds), sum(batch.num_rows for batch in read()), read)


def _no_csv(path: Path, error: Exception) -> UsageError:
    said = "its text should be UTF-8, and is not" if "UTF8" in str(error) else f"is not CSV: {error}"
    return UsageError(f"{path}: {said}")


@dataclass(frozen=True)
class _JsonLines:
    """One object a line. `schema` comes from a first pass over all of them."""

    path: Path
    schema: pa.Schema
    count: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        kind = pa.struct(list(self.schema))
        for line, rows in _lines(self.path):
            try:
                structs: Any = pa.array(rows, kind)
            # A whole number beyond 2**53 whose column has fractions in a later batch: no float is the same number.
            except pa.ArrowInvalid as error:
                raise UsageError(f"{self.path}, from line {line} on: {error}") from error
            yield pa.RecordBatch.from_struct_array(structs)


def _jsonl(path: Path) -> Reader:
    schema, count = pa.schema([]), 0
    for line, rows in _lines(path):
        try:
            inferred = pa.schema(list(pa.array(rows).type))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UsageError(f"{path}, from line {line} on: {_mixed(rows) or error}") from error
        except OverflowError as error:
            raise UsageError(f"{path}, from line {line} on: holds a whole number beyond 64 bits") from error
        try:
            # Later lines may have further columns, or fractions where whole numbers stood: all lines decide.
            schema = pa.unify_schemas([schema, inferred], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UsageError(f"{path}, from line {line} on: other types than before: {error}") from error
        count += len(rows)
    return _JsonLines(path, schema, count)


def _lines(path: Path) -> Iterator[tuple[int, list[dict[str, JsonValue]]]]:
    """The lines' objects, BATCH at a time, with the number of the first line."""
    rows: list[dict[str, JsonValue]] = []
    first = 1
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise UsageError(f"{path}, line {number}: is not JSON: {error}") from error
            # An object without fields would leave no column to write, where all lines are so.
            if not isinstance(row, dict) or not row:
                hint = "; there should be one object a line" if number == 1 else ""
                raise UsageError(f"{path}, line {number}: is not a JSON object with columns{hint}")
            rows.append(row)
            if len(rows) == BATCH:
                yield first, rows
                rows, first = [], number + 1
    if rows:
        yield first, rows


def _mixed(rows: list[dict[str, JsonValue]]) -> str | None:
    """The column that holds values of different types, in words."""
    for name in dict.fromkeys(key for row in rows for key in row):
        kinds = {type(row[name]).__name__ for row in rows if row.get(name) is not None}
        if len(kinds - {"int"}) > 1 or (len(kinds) > 1 and kinds != {"int", "float"}):
            return f"the column {name!r} holds {' and '.join(sorted(kinds))}; it should hold one type"
    return None


FORMATS: Mapping[Format, Callable[[Path], Reader]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "jsonl": _jsonl,
    "csv": _csv,
}
