"""Columns of Arrow as the values of rows: exactly what the file says, or a refusal that names the column.

Arrow gives all objects of a column the same keys, and all values one type. JSON does not: a message may have a name
or tool calls that others lack. A column that would change on its way through Arrow is kept as JSON text, marked in
the metadata of its field, and read back here. `json_lines`, `csv_lines` and the ingestion of datasets write such
columns.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import date, time
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.narrow_floats import make_widen

MARK: dict[bytes | str, bytes | str] = {b"steelyard.json": b"1"}
"""Metadata of a field whose texts are JSON."""
CHAT_COLUMNS = frozenset({"messages", "tools", "functions", "tool_choice", "response_format"})
_KEPT_NULLS = frozenset({"content"})
"""Keys that a message may hold as null on purpose: an assistant's beside its tool calls."""


_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_MOST_DIGITS = 20


class BadColumn(ValueError):
    """A column whose values cannot become JSON; the text says which, and why."""


def is_json(field: "pa.Field[Any]") -> bool:
    """Return whether the texts of a field are JSON. The mark says nothing about other values."""
    return (field.metadata or {}).get(b"steelyard.json") == b"1" and pa.types.is_string(field.type)


def holds_json(field: "pa.Field[Any]") -> bool:
    """Return whether the texts of a field are JSON, by its mark or by its type."""
    return is_json(field) or _is_extension(field.type, "arrow.json")


def to_rows(batch: "pa.RecordBatch | pa.Table") -> list[dict[str, Any]]:
    """Return the rows as Python objects. ValueError where a value has no form."""
    if not batch.num_columns:
        return [{} for _ in range(batch.num_rows)]
    columns = [_values(batch.column(number), field) for number, field in enumerate(batch.schema)]
    names = batch.schema.names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which the rows are kept. Raises BadColumn for a type that has no form in JSON."""
    twice = {name for name, count in Counter(schema.names).items() if count > 1}
    if twice:
        raise BadColumn(f"the column {min(twice)!r} is there twice")
    return pa.schema([_plain_field(field) for field in schema])


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in a schema that `plain_schema` made of theirs. Raises BadColumn."""
    columns = []
    for field, column in zip(schema, batch.columns, strict=True):
        try:
            column.validate(full=True)  # Parquet is read without a look at the encoding of its texts
            columns.append(cast(column, field))
        except (pa.ArrowException, ValueError) as error:
            raise BadColumn(f"the column {field.name!r}: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def json_texts(values: Iterable[JsonValue]) -> "pa.Array[Any]":
    """Return a column of JSON texts; null stays null."""
    texts = [None if value is None else orjson.dumps(value, default=as_text).decode() for value in values]
    return pa.array(texts, pa.string())


def as_text(value: object) -> str:
    """Return the text of a value that JSON has no type for: base64 of bytes, ISO's notation of times."""
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def find_repeated_key(line: bytes) -> str | None:
    """Return a key that an object of a JSON text has twice: parsers keep the last in silence."""
    repeated: list[str] = []

    def pairs(items: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        row = dict(items)
        if len(row) < len(items):
            repeated.append(
                next(name for name, count in Counter(name for name, _ in items).items() if count > 1)
            )
        return row

    try:
        json.loads(line, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None  # its reader reports what is wrong
    return repeated[0] if repeated else None


def too_long_integer(line: bytes) -> str | None:
    """Return a whole number of a JSON text that 64 bits do not hold: parsers round it in silence."""
    if not _LONG_NUMBER.search(line):
        return None
    rounded: list[str] = []

    def whole(text: str) -> int:
        if len(text) > _MOST_DIGITS or not -(2**63) <= int(text) < 2**64:
            rounded.append(text)
        return 0

    try:
        json.loads(line, parse_int=whole)
    except (ValueError, RecursionError):
        return None  # its reader reports what is wrong
    return rounded[0] if rounded else None


def row_numbers(column: Any, *, of_any_type: bool = False) -> "pa.Array[Any]":
    """Return a column of row numbers as int64. Raises BadColumn unless all of them are whole numbers from 0.

    `of_any_type` takes texts and floats that are whole numbers: formats such as CSV have no others.
    """
    types, kind = pa.types, column.type
    numbers: Any = None
    if types.is_integer(kind) or (of_any_type and (types.is_floating(kind) or types.is_string(kind))):
        with suppress(pa.ArrowInvalid):
            numbers = pc.cast(column, pa.int64())
    must = "must hold a whole number from 0 in every row"
    if column.null_count:
        raise BadColumn(f"{must}; one is empty")
    if numbers is None or (pc.min(numbers).as_py() or 0) < 0:
        wrong = next((value for value in column.to_pylist() if not _is_row_number(value)), str(kind))
        said = wrong if isinstance(wrong, str) else json.dumps(wrong, default=as_text)
        raise BadColumn(f"{must}, not {said[:80]}")
    return numbers  # type: ignore[no-any-return]


def _is_row_number(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isdecimal() and int(value) < 2**63
    whole = type(value) is int or (type(value) is float and value.is_integer())
    return whole and 0 <= value < 2**63  # type: ignore[operator]


def _values(column: Any, field: "pa.Field[Any]") -> Sequence[Any]:
    if holds_json(field):
        texts = column.to_pylist()
        return [None if text is None else orjson.loads(text) for text in texts]
    kind = field.type
    if kind != _with_times(kind, pa.string()):
        column = _without_nanoseconds(column, kind)
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (ValueError, OverflowError):
        if not pa.types.is_temporal(kind):
            raise
        values = pc.cast(column, pa.string()).to_pylist()  # before the year 1, after 9999
    if (widen := make_widen(kind)) is not None:
        values = [widen(value) for value in values]
    if _is_chat(field):
        return [_without_nulls(value) for value in values]
    if pa.types.is_struct(kind):  # a whole row as one column
        for name in [child.name for child in kind if is_json(child)]:
            for value in filter(None, values):
                value[name] = None if value[name] is None else orjson.loads(value[name])
    return values


def _without_nanoseconds(column: Any, kind: Any) -> Any:
    """Python's times have microseconds; others become texts, whether pandas is there or not."""
    try:
        return pc.cast(column, _with_times(kind))
    except pa.ArrowInvalid:
        return pc.cast(column, _with_times(kind, pa.string()))


def _with_times(kind: Any, time: pa.DataType | None = None) -> Any:
    """Return a type in which `time`, or one of microseconds, stands in the place of times with nanoseconds."""
    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return time or pa.timestamp("us", kind.tz)
    if types.is_struct(kind):
        return pa.struct([child.with_type(_with_times(child.type, time)) for child in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, _with_times(kind.item_type, time))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_with_times(kind.value_type, time)))
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_with_times(kind.value_type, time)), kind.list_size)
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_times(kind.value_type, time)))
    return kind


def _is_chat(field: "pa.Field[Any]") -> bool:
    """Return whether the objects of a column are parts of a request to a chat model."""
    kind: Any = field.type
    if not _is_nested(kind):
        return False
    if field.name in CHAT_COLUMNS:
        return True
    item: Any = kind.value_type if _is_list(kind) else None
    return item is not None and pa.types.is_struct(item) and {"role", "content"} <= set(item.names)


def _without_nulls(value: Any) -> Any:
    """Leave out the keys that a struct of Arrow holds as null: it cannot leave them out itself."""
    match value:
        case dict():
            return {
                key: _without_nulls(child)
                for key, child in value.items()
                if child is not None or key in _KEPT_NULLS
            }
        case list():
            return [_without_nulls(child) for child in value]
        case _:
            return value


def _plain_field(field: "pa.Field[Any]") -> "pa.Field[Any]":
    if _is_extension(field.type, "arrow.json"):
        return pa.field(field.name, pa.string(), metadata=MARK)
    try:
        kind = plain_type(field.type)
    except BadColumn as error:
        raise BadColumn(f"the column {field.name!r} {error}") from error
    return pa.field(field.name, kind, metadata=MARK if is_json(field) else None)


def plain_type(kind: Any) -> pa.DataType:
    """Return the type in which values of `kind` are kept. Raises BadColumn where they have no form in JSON."""
    for is_kind, plain in _PLAIN:
        if is_kind(kind):
            return plain(kind)
    if isinstance(kind, pa.BaseExtensionType):
        raise BadColumn(f"is of the extension type {kind.extension_name}; cast it, or leave it out")
    return kind  # type: ignore[no-any-return]


def _plain_struct(kind: Any) -> pa.DataType:
    if not kind.num_fields:
        raise BadColumn("holds objects that have no field in any row; leave it out")
    return pa.struct([pa.field(child.name, plain_type(child.type)) for child in kind])


def _plain_map(kind: Any) -> pa.DataType:
    if not (pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type)):
        raise BadColumn(f"is a map with keys of type {kind.key_type}; keys in JSON are texts")
    return pa.map_(kind.key_type, plain_type(kind.item_type))


def _without_form(kind: Any) -> pa.DataType:
    raise BadColumn(f"is of type {kind}, which JSON has no form for; cast it, or leave it out")


_Rule = tuple[Callable[[Any], bool], Callable[[Any], pa.DataType]]
_PLAIN: tuple[_Rule, ...] = (
    (pa.types.is_dictionary, lambda kind: plain_type(kind.value_type)),
    (pa.types.is_run_end_encoded, lambda kind: plain_type(kind.value_type)),
    (pa.types.is_string_view, lambda _: pa.string()),
    (pa.types.is_binary_view, lambda _: pa.binary()),
    (lambda kind: _is_extension(kind, "arrow.uuid"), lambda _: pa.string()),
    (lambda kind: _is_extension(kind, "arrow.bool8"), lambda _: pa.bool_()),
    (pa.types.is_decimal32, lambda kind: pa.decimal128(kind.precision, kind.scale)),
    (pa.types.is_decimal64, lambda kind: pa.decimal128(kind.precision, kind.scale)),
    (pa.types.is_fixed_size_list, lambda kind: pa.list_(plain_type(kind.value_type), kind.list_size)),
    (pa.types.is_large_list, lambda kind: pa.large_list(plain_type(kind.value_type))),
    (pa.types.is_large_list_view, lambda kind: pa.large_list(plain_type(kind.value_type))),
    (pa.types.is_list, lambda kind: pa.list_(plain_type(kind.value_type))),
    (pa.types.is_list_view, lambda kind: pa.list_(plain_type(kind.value_type))),
    (pa.types.is_struct, _plain_struct),
    (pa.types.is_map, _plain_map),
    (pa.types.is_union, _without_form),
    (pa.types.is_interval, _without_form),
    (pa.types.is_duration, _without_form),
)
"""Rules for types that Parquet does not know, or whose values are not what JSON has."""


def cast(column: Any, field: "pa.Field[Any]") -> "pa.Array[Any]":
    """Return a column in the type of a field; as JSON texts where the field says so."""
    kind: Any = column.type
    if is_json(field) and not pa.types.is_string(kind):
        source: pa.Field[Any] = pa.field(field.name, kind)
        return json_texts(_values(column, source))
    if kind == field.type:
        return column  # type: ignore[no-any-return]
    if _is_extension(kind, "arrow.uuid"):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    if isinstance(kind, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_run_end_encoded(kind):
        return cast(pc.call_function("run_end_decode", [column]), field)
    if pa.types.is_dictionary(kind):
        return cast(column.dictionary_decode(), field)
    if _is_nested(kind):
        # No cast reaches into views and dictionaries, and that of a list view makes an array that is not valid.
        return pa.array(column.to_pylist(), field.type)  # type: ignore[no-any-return]
    return pc.cast(column, field.type)  # type: ignore[no-any-return]


def _is_nested(kind: Any) -> bool:
    return bool(pa.types.is_nested(kind))


def _is_list(kind: Any) -> bool:
    types = pa.types
    return (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _is_extension(kind: Any, name: str) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == name
