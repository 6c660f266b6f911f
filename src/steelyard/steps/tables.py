"""Tables in CSV, JSON lines and Parquet, read in batches of Arrow, in constant memory.

Nothing is guessed that would lose something: a column of CSV holds numbers only if every number is written as it would
be written back, so that `007` stays a text, and dates stay the texts that they are.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from steelyard.types import Json

BLOCK_BYTES = 4 << 20
LINE_BYTES = 16 << 20
"""Longest line of JSON."""
ARRAY_BYTES = 64 << 20
"""Largest file that is one JSON array: it is read at once."""
_ROWS = 4096
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
_UNREADABLE = (pa.ArrowException, *_DAMAGED)

Batches = Iterator[pa.RecordBatch]


class BadTable(Exception):
    """A file that is not a table of its form; the text says where and why."""


@dataclass(frozen=True)
class Form:
    """A form of table files."""

    name: str
    schema: Callable[[Path], pa.Schema]
    """Reads the whole file, if its form has no schema of its own."""
    batches: Callable[[Path, pa.Schema], Batches]
    """Reads the rows again, in a schema that holds them."""


def form_of(path: str) -> Form | None:
    """Return the form of a file by the end of its name, or None for a file that is not a table."""
    name = path.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        return None if path.lower().endswith(".gz") else PARQUET
    return next((form for ends, form in _TEXTS.items() if name.endswith(ends)), None)


def united(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return a schema that holds the rows of all. Raises BadTable, which names the column."""
    try:
        schema = pa.unify_schemas(list(schemas), promote_options="permissive")
    except (pa.ArrowException, ValueError) as error:
        raise BadTable(f"the files have different columns: {error}") from error
    return pa.schema([_storable(field) for field in schema])


def _storable(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """A column without any value is one of texts: Parquet and most readers know no type of nothing."""
    return pa.field(field.name, _typed(field.type))


def _typed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_typed(kind.value_type))
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            raise BadTable("a column holds only empty objects, which Parquet cannot keep")
        return pa.struct([_storable(kind.field(number)) for number in range(kind.num_fields)])
    if pa.types.is_dictionary(kind):
        return _typed(kind.value_type)
    return kind


# ---- CSV


def _csv_options(path: Path, kinds: dict[str, pa.DataType]) -> dict[str, Any]:
    delimiter = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
    return {
        "read_options": pc_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        "parse_options": pc_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": pc_csv.ConvertOptions(
            column_types=kinds, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    }


def _csv_texts(path: Path) -> Batches:
    """Yield the rows with every value as text. Raises BadTable."""
    try:
        with _plain(path) as file:
            first = file.readline(LINE_BYTES)
        names = pc_csv.read_csv(io.BytesIO(first), **_csv_options(path, {})).column_names
    except _UNREADABLE as error:
        raise BadTable(f"its first line names no columns: {error}") from error
    if len(set(names)) < len(names):
        raise BadTable("its first line names a column twice")
    yield from _csv_rows(path, dict.fromkeys(names, pa.string()))


def _csv_rows(path: Path, kinds: dict[str, pa.DataType]) -> Batches:
    try:
        with _plain(path) as file, pc_csv.open_csv(file, **_csv_options(path, kinds)) as reader:
            yield from reader
    except _UNREADABLE as error:
        raise BadTable(str(error)) from error


def _csv_schema(path: Path) -> pa.Schema:
    kinds: dict[str, pa.DataType] = {}
    for batch in _csv_texts(path):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            kinds[name] = _narrowest(column, kinds.get(name, pa.null()))
    return pa.schema(list(kinds.items()))


def _narrowest(column: "pa.Array[Any]", known: pa.DataType) -> pa.DataType:
    """Return the type of a column's values so far; texts, where no other type holds every one of them."""
    if pa.types.is_string(known) or column.null_count == len(column):
        return known
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        if _is_written_as(column, kind):
            both = {str(known), str(kind)} - {"null"}
            if len(both) == 1:
                return kind
            if both == {"int64", "double"}:
                return pa.float64()
            return pa.string()
    return pa.string()


def _is_written_as(column: "pa.Array[Any]", kind: pa.DataType) -> bool:
    """Return whether every text is a value of the type, and for whole numbers the only way to write it."""
    try:
        values = pc.cast(column, kind)
    except pa.ArrowException:
        return False
    if pa.types.is_floating(kind):
        # A number with a leading zero is the code of something; one of many digits would lose the last of them.
        return not pc.any(pc.match_substring_regex(column, r"^[-+]?0[0-9]|^[-+]?[0-9]{16,}$")).as_py()
    if pa.types.is_boolean(kind):
        return not pc.any(pc.match_substring_regex(column, "^[01]$")).as_py()
    return bool(pc.all(pc.equal(pc.cast(values, pa.string()), column)).as_py())


def _csv_batches(path: Path, schema: pa.Schema) -> Batches:
    kinds = {field.name: field.type for field in schema}
    nested = [name for name, kind in kinds.items() if pa.types.is_nested(kind)]
    if nested:
        raise BadTable(f"column {nested[0]}: lists and objects of other files cannot be read from CSV")
    yield from _csv_rows(path, kinds)


# ---- JSON lines


def _objects(path: Path) -> Iterator[tuple[int, Json]]:
    """Yield the objects of a file with their numbers, one to a line or all in one array. Raises BadTable."""
    with _plain(path) as file:
        start = file.read(1)
        while start.isspace():
            start = file.read(1)
    with _plain(path) as file:
        if start == b"[":
            for number, value in enumerate(_parsed(_whole(file), "it"), 1):
                yield number, _object(value, f"element {number}")
            return
        number = 0
        while line := file.readline(LINE_BYTES):
            number += 1
            if len(line) == LINE_BYTES and not line.endswith(b"\n"):
                raise BadTable(f"line {number} is longer than {LINE_BYTES} bytes")
            if line.strip():
                yield number, _object(_parsed(line, f"line {number}"), f"line {number}")


def _whole(file: BinaryIO) -> bytes:
    content = file.read(ARRAY_BYTES + 1)
    if len(content) > ARRAY_BYTES:
        raise BadTable(f"it is one array of more than {ARRAY_BYTES} bytes; write one object to a line")
    return content


def _parsed(text: bytes, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadTable(f"{where} is not JSON: {error}") from error


def _object(value: Any, where: str) -> Json:
    if not isinstance(value, dict):
        raise BadTable(f"{where} is not a JSON object")
    return value


def _pieces(path: Path) -> Iterator[tuple[int, list[Json]]]:
    """Yield the objects in lists of at most `_ROWS`, each with the number of its first one. Raises BadTable."""
    first, rows = 1, list[Json]()
    try:
        for number, row in _objects(path):
            first = first if rows else number
            rows.append(row)
            if len(rows) == _ROWS:
                yield first, rows
                rows = []
    except _DAMAGED as error:
        raise BadTable(str(error)) from error
    if rows:
        yield first, rows


def _json_schema(path: Path) -> pa.Schema:
    schema = pa.schema([])
    for first, rows in _pieces(path):
        names = dict.fromkeys(name for row in rows for name in row)
        try:
            # pyarrow reads the columns of the first row alone, unless it gets their names.
            columns = {name: pa.array([row.get(name) for row in rows]).type for name in names}
            schema = pa.unify_schemas(
                [schema, pa.schema(list(columns.items()))], promote_options="permissive"
            )
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise BadTable(f"from line {first} on: {error}") from error
    return schema


def _json_batches(path: Path, schema: pa.Schema) -> Batches:
    for first, rows in _pieces(path):
        try:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise BadTable(f"from line {first} on: {error}") from error


# ---- Parquet


def _parquet_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path).remove_metadata()
    except (pa.ArrowException, OSError) as error:
        raise BadTable(f"it is not a Parquet file: {error}") from error


def _parquet_batches(path: Path, schema: pa.Schema) -> Batches:
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            yield from file.iter_batches(
                _ROWS, columns=[name for name in schema.names if name in file.schema_arrow.names]
            )
    except (pa.ArrowException, OSError) as error:
        raise BadTable(f"it cannot be read: {error}") from error


def _plain(path: Path) -> BinaryIO:
    """Open a file; what is compressed by gzip is read as what was compressed."""
    if path.name.lower().endswith(".gz"):
        return gzip.open(path)  # type: ignore[return-value]  # a GzipFile reads like any file
    return path.open("rb")


PARQUET = Form("Parquet", _parquet_schema, _parquet_batches)
_CSV = Form("CSV", _csv_schema, _csv_batches)
_JSON = Form("JSON lines", _json_schema, _json_batches)
_TEXTS = {".csv": _CSV, ".tsv": _CSV, ".jsonl": _JSON, ".ndjson": _JSON, ".json": _JSON}
