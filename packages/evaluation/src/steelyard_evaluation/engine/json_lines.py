"""Columns of JSON objects: as Arrow where that changes no value, else as JSON text.

Used for prompt files and for data sources. All rows are seen before the first is kept: they decide together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa

from steelyard_common.types import Json, JsonValue
from steelyard_evaluation.engine.rows import MARK as JSON_MARK
from steelyard_evaluation.engine.rows import (
    BadColumn,
    find_repeated_key,
    holds_json,
    is_json,
    json_texts,
    too_long_integer,
)
from steelyard_evaluation.engine.table_files import (
    BOM,
    CELLS,
    CELLS_RATIO,
    DAMAGED,
    PIECE_CELLS,
    BadTable,
    bad_encoding,
    check_columns,
    damage_fault,
    longest_row,
    most_values,
    open_bytes,
)
from steelyard_schema.bounds import FREE_DEPTH

_ROWS, _PIECE_BYTES, _VALUE_BYTES = 4096, 16 << 20, 32
_HEAD = 64 << 10

_Shape = frozenset[str] | str
"""Keys of an object at one place, or the name of another kind of value."""

_NAMES = {
    bool: "true or false",
    int: "whole numbers",
    float: "numbers",
    str: "texts",
    list: "lists",
    dict: "objects",
}


@dataclass
class _Column:
    kind: pa.DataType = field(default_factory=pa.null)
    shapes: dict[str, _Shape] = field(default_factory=dict)
    """Shape of every value so far, by place."""
    types: set[type] = field(default_factory=set)
    """Python types of the values so far; null does not count."""
    as_json: bool = False

    @property
    def _nested(self) -> bool:
        return bool(self.types & {dict, list})

    def add(self, name: str, values: Sequence[JsonValue]) -> None:
        self.types |= {type(value) for value in values if value is not None}
        if self._nested:
            self.as_json = self.as_json or not all(self._has_shape("", value) for value in values)
        # Arrow has one type for all: it would make 1.0 of a whole number beside a fraction.
        elif self.types == {int, float}:
            self.as_json, self.kind = True, pa.float64()
            return
        if self._nested and self.as_json:
            return
        try:
            inferred = pa.array(values).type
            schemas = [pa.schema([(name, kind)]) for kind in (self.kind, inferred)]
            self.kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        except (pa.ArrowException, OverflowError) as error:
            # Whole numbers of 64 bits without a sign, alone or beside negative ones.
            if self.types == {int}:
                self.kind = pa.uint64()
            elif not self._nested:
                raise BadColumn(self._explain(name, error)) from error
            self.as_json = True

    def _has_shape(self, place: str, value: JsonValue) -> bool:
        """Return whether Arrow would give back the value as it is, beside all values before."""
        if value is None:
            return True
        shape: _Shape = frozenset(value) if isinstance(value, dict) else type(value).__name__
        # An object without keys has no form in Parquet.
        if self.shapes.setdefault(place, shape) != shape or shape == frozenset():
            return False
        if isinstance(value, dict):
            return all(self._has_shape(f"{place}.{key}", child) for key, child in value.items())
        return not isinstance(value, list) or all(self._has_shape(f"{place}[]", child) for child in value)

    def _explain(self, name: str, error: Exception) -> str:
        kinds = sorted(_NAMES[kind] for kind in self.types)
        if len(kinds) > 1:
            return f"the column {name!r} holds {' and '.join(kinds)}; it should hold one type"
        return f"the column {name!r}: {error}"


class Columns:
    """The columns of all rows so far."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def add(self, rows: Sequence[Mapping[str, JsonValue]]) -> None:
        """Take further rows into account. Raises BadColumn for values that no one type holds."""
        for name in dict.fromkeys(name for row in rows for name in row):
            self._columns.setdefault(name, _Column()).add(name, [row.get(name) for row in rows])

    def __len__(self) -> int:
        return len(self._columns)

    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(name, pa.string(), metadata=JSON_MARK)
                if column.as_json
                else pa.field(name, column.kind)
                for name, column in self._columns.items()
            ]
        )


def to_batch(rows: Sequence[Mapping[str, JsonValue]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows in the schema of all. Raises ArrowInvalid, OverflowError."""
    columns: list[Any] = []
    for field_ in schema:
        values = [row.get(field_.name) for row in rows]
        columns.append(json_texts(values) if is_json(field_) else pa.array(values, field_.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_texts(batch: pa.RecordBatch) -> None:
    """Raise BadTable for a text of a column marked as JSON that is not JSON, or is nested too deep.

    Raises BadColumn for a text that is not UTF-8.
    """
    for field_, column in zip(batch.schema, batch.columns, strict=True):
        if not holds_json(field_):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise BadColumn(f"the column {field_.name!r}: {error}") from error
        where = f"the column {field_.name!r} is marked as JSON: a text"
        for text in column.to_pylist():
            if text is not None:
                _check_depth(_parse(text.encode(), where), where)


# ---- files


def json_schema(path: Path) -> tuple[pa.Schema, int]:
    """Return the columns of a whole file, and the number of its rows. Raises BadTable.

    The file has one object to a line, or is one array of objects.
    """
    columns, count = Columns(), 0
    for first, rows in _pieces(path, check=True):
        try:
            columns.add(rows)
        except BadColumn as error:
            raise BadTable(f"from line {first} on: {error}") from error
        count += len(rows)
        check_columns(len(columns))
        _check_cells(path, count, len(columns))
    if count and not columns.schema().names:
        raise BadTable("is not JSON lines: its objects have no keys")
    return columns.schema(), count


def json_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the schema of all. Raises BadTable."""
    for first, rows in _pieces(path, max(1, PIECE_CELLS // max(1, len(schema.names))), check=False):
        try:
            yield to_batch(rows, schema)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise BadTable(f"from line {first} on: {error}") from error


def _check_cells(path: Path, rows: int, columns: int) -> None:
    """Raise BadTable for rows that would have very many columns, most of them without a value."""
    if (cells := rows * columns) > max(CELLS, CELLS_RATIO * path.stat().st_size):
        raise BadTable(
            f"has {columns} different keys in {rows} rows: {cells} cells; {CELLS} are allowed, "
            f"or {CELLS_RATIO} for each of its bytes: write such keys as a list"
        )


def _pieces(path: Path, most: int = _ROWS, *, check: bool) -> Iterator[tuple[int, list[Json]]]:
    """Yield the objects in lists, each with the number of its first one; `check` looks for what parsers drop."""
    first, size, rows = 1, 0, list[Json]()
    try:
        for number, length, row in _objects(path, check=check):
            first = first if rows else number
            size += length
            rows.append(row)
            if len(rows) >= min(most, _ROWS) or size > _PIECE_BYTES:
                yield first, rows
                size, rows = 0, []
    except DAMAGED as error:
        raise damage_fault(error) from error
    if rows:
        yield first, rows


def _objects(path: Path, *, check: bool) -> Iterator[tuple[int, int, Json]]:
    """Yield the objects with their numbers and sizes, one to a line or all in one array."""
    with open_bytes(path) as file:
        if _is_array(file):
            yield from _elements(path, check=check)
            return
    longest, most = longest_row(path), most_values(path)
    with open_bytes(path) as file:
        number = 0
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise BadTable(f"line {number} is longer than {longest} bytes")
            _check_values(line, most, f"line {number}")
            if number == 1:
                line = line.removeprefix(BOM)
            if line.strip():
                yield number, len(line) + _VALUE_BYTES * _values(line), _line(path, line, number, check=check)


def _is_array(file: BinaryIO) -> bool:
    start = file.read(_HEAD).removeprefix(BOM).lstrip()
    while not start:
        if not (piece := file.read(_HEAD)):
            return False
        start = piece.lstrip()
    return start.startswith(b"[")


def _elements(path: Path, *, check: bool) -> Iterator[tuple[int, int, Json]]:
    with open_bytes(path) as file:
        longest = longest_row(path)
        text = file.read(longest + 1)
    if len(text) > longest:
        raise BadTable(f"it is one array of more than {longest} bytes; write one object to a line")
    _check_values(text, most_values(path), "it")
    elements = _parse(text.removeprefix(BOM), "it")
    if check:
        _check_kept(text, "it")
        _check_depth(elements, "it")
    for number, value in enumerate(elements, 1):
        yield number, 0, _object(value, f"element {number}")


def _line(path: Path, line: bytes, number: int, *, check: bool) -> Json:
    try:
        row = _object(_parse(line, f"line {number}"), f"line {number}")
    except BadTable as error:
        if number == 1 and (cause := _cause(path, line)):
            raise BadTable(f"is not JSON lines: {cause}") from error
        raise
    if check:
        _check_kept(line, f"line {number}", keys=len(row))
        _check_depth(row, f"line {number}")
    return row


def _values(text: bytes) -> int:
    """Return about the number of values of a JSON text, at least."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _check_values(text: bytes, most: int, where: str) -> None:
    if (values := _values(text)) > most:
        raise BadTable(f"{where} has {values} values; {most} are allowed")


def _check_depth(value: JsonValue, where: str) -> None:
    """Raise BadTable for a value nested deeper than readers and writers follow by recursion."""
    level: list[JsonValue] = [value]
    for _ in range(FREE_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise BadTable(f"{where} is nested deeper than {FREE_DEPTH} levels")


def _check_kept(text: bytes, where: str, keys: int = 0) -> None:
    """Raise BadTable for what the parser drops or rounds. `keys` is the number that it found, if they are few."""
    # Each key has a quote and a colon: where there are more of these than keys, one may be hidden.
    if text.count(b'":') + text.count(b'" ') > keys and (key := find_repeated_key(text)):
        raise BadTable(f"{where}: the key {key!r} is there twice")
    if rounded := too_long_integer(text):
        raise BadTable(f"{where}: the number {rounded[:40]} does not fit into 64 bits; write it as text")


def _parse(text: bytes, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        try:
            text.decode()
        except UnicodeDecodeError:
            raise bad_encoding(text, f"{where}: ") from error
        if word := _NO_NUMBER.search(text):
            raise BadTable(
                f"{where} is not JSON: {word[1].decode()} is not a number in JSON: write null"
            ) from error
        raise BadTable(f"{where} is not JSON: {error.msg} at character {error.pos + 1}") from error


def _object(value: Any, where: str) -> Json:
    if not isinstance(value, dict):
        raise BadTable(f"{where} is not a JSON object; there should be one object a line")
    return value


def _cause(path: Path, line: bytes) -> str | None:
    """Return what a file seems to be whose first line is not a JSON object."""
    if line.lstrip().startswith(b"{'"):
        return "its values are written as Python shows them: write them as JSON, in double quotes"
    if line.lstrip().startswith(b"{"):
        with open_bytes(path) as file:
            text = file.read(longest_row(path))
        if _values(text) > most_values(path):
            return None  # only its first line was counted
        try:
            whole = orjson.loads(text.removeprefix(BOM))
        except orjson.JSONDecodeError:
            return None
        lists = [name for name, value in whole.items() if isinstance(value, list)]
        advice = f"the list under {lists[0]!r} alone" if lists else "one object to a line"
        return f"it is one object over several lines: write {advice}"
    if b"," in line and not line.lstrip().startswith(b"["):
        return "it looks like CSV: end its name in .csv"
    return None


_NO_NUMBER = re.compile(rb"[:\[,]\s*(-?(?:NaN|Infinity))\b")
