"""The shape of answers: the output's Arrow schema, and a check of each answer against it.

An answer is checked when it arrives, not when its part is written: so it is its own row that is malformed, never a
whole part that cannot be written.
"""

import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from steelyard_common.bounded_schema import read_schema
from steelyard_common.types import JsonValue, shorten
from steelyard_evaluation.engine.lean import spare_pandas
from steelyard_evaluation.engine.narrow_floats import is_pairs
from steelyard_evaluation.engine.rows import as_text

spare_pandas()  # here, because whatever makes arrays for an evaluation comes by here first

Kind = Any
"""An Arrow type; which one, a predicate of `pa.types` has said."""
Check = Callable[[JsonValue], JsonValue]
"""Gives the value as Arrow takes it, or raises Malformed."""

INDEX, REPLICATION, RESPONSES, RESPONSE_INDEX = "_index_", "_replication_", "responses", "_response_index_"


class Malformed(ValueError):
    """An answer does not have the shape of the interface's output schema."""


def output_schema(arrow_schema: str) -> pa.Schema:
    """The schema of the parts from an interface's `outputSchema.arrowSchema`: the output's, or the answer's alone.

    `responses` may always be null: a skipped row lacks it.
    """
    try:
        schema = read_schema(arrow_schema)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"interface.outputSchema.arrowSchema is not an Arrow schema in base64: {error}"
        ) from error
    if RESPONSES in schema.names:
        responses = schema.field(RESPONSES).type
        if not pa.types.is_list(responses) or not pa.types.is_struct(responses.value_type):
            raise ValueError(f"interface.outputSchema: responses must be a list of structs, not {responses}")
        fields = list(responses.value_type)
    else:
        fields = list(schema)
    # These columns are the engine's own: a schema that declares them, as published ones do, describes the
    # whole output.
    payload = [field for field in fields if field.name not in {INDEX, REPLICATION, RESPONSE_INDEX}]
    if not payload:
        raise ValueError("interface.outputSchema describes no field of an answer")
    item = pa.struct([pa.field(RESPONSE_INDEX, pa.int64()), *payload])
    columns: dict[str, pa.DataType] = {INDEX: pa.int64(), REPLICATION: pa.string(), RESPONSES: pa.list_(item)}
    return pa.schema(columns)


class Shape:
    """Checks the answers of one service, and numbers them."""

    def __init__(self, schema: pa.Schema) -> None:
        item = schema.field(RESPONSES).type.value_type
        payload = [field for field in item if field.name != RESPONSE_INDEX]
        self._check = _struct(pa.struct(payload))

    def __call__(self, answers: list[JsonValue]) -> list[dict[str, JsonValue]]:
        """The answers to one row, with their `_response_index_`."""
        checked = []
        for number, answer in enumerate(answers):
            try:
                item = self._check(answer)
            except Malformed as error:
                raise Malformed(f"response {number}: {error}") from None
            item[RESPONSE_INDEX] = number
            checked.append(item)
        return checked


def _check(kind: pa.DataType) -> Check:
    """The check of one type; Arrow itself judges types that services seldom answer with."""
    for applies, build in _BUILDERS:
        if applies(kind):
            return build(kind)
    return _by_arrow(kind)


def _instance(expected: type, name: str) -> Check:
    def check(value: JsonValue) -> JsonValue:
        # Not isinstance: `true` is an int to Python, and Arrow would write it as 1.
        if type(value) is not expected:
            raise Malformed(f"expected {name}, got {short(value)}")
        return value

    return check


def _integer(kind: pa.DataType) -> Check:
    signed = pa.types.is_signed_integer(kind)
    low = -(1 << (kind.bit_width - 1)) if signed else 0
    high = (1 << (kind.bit_width - (1 if signed else 0))) - 1

    def check(value: JsonValue) -> JsonValue:
        if type(value) is not int or not low <= value <= high:
            raise Malformed(f"expected an integer ({kind}), got {short(value)}")
        return value

    return check


def _number(value: JsonValue) -> JsonValue:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise Malformed(f"expected a number, got {short(value)}")


def _struct(kind: Kind) -> Check:
    """Fields that the schema does not name are dropped; at least one that it names must be there."""
    fields = [
        (field.name, _pairs(field.type) if is_pairs(field) else _check(field.type), field.nullable)
        for field in kind
    ]

    def check(value: JsonValue) -> JsonValue:
        if type(value) is not dict:
            raise Malformed(f"expected an object, got {short(value)}")
        item = {}
        for name, check_field, nullable in fields:
            child = value.get(name)
            if child is not None:
                try:
                    item[name] = check_field(child)
                except Malformed as error:
                    raise Malformed(f"{name}: {error}") from None
            elif not nullable:
                raise Malformed(f"there is no {name}")
        # A service's error object with status 200 would otherwise pass as an answer whose fields are all
        # null.
        if not item and not any(name in value for name, _, _ in fields):
            raise Malformed(f"there is none of {', '.join(name for name, _, _ in fields)} in {short(value)}")
        return item

    return check


def _list(kind: Kind) -> Check:
    check_item = _check(kind.value_type)
    length = kind.list_size if pa.types.is_fixed_size_list(kind) else None

    def check(value: JsonValue) -> JsonValue:
        if type(value) is not list:
            raise Malformed(f"expected a list, got {short(value)}")
        if length is not None and len(value) != length:
            raise Malformed(f"expected {length} items, got {len(value)}")
        return [None if item is None else check_item(item) for item in value]

    return check


def _map(kind: Kind) -> Check:
    if not pa.types.is_string(kind.key_type):
        return _by_arrow(kind)
    check_item = _check(kind.item_type)

    def check(value: JsonValue) -> JsonValue:
        if type(value) is not dict:
            raise Malformed(f"expected an object, got {short(value)}")
        # Arrow takes a map as pairs; an object would become a struct.
        return [(key, None if item is None else check_item(item)) for key, item in value.items()]

    return check


def _pairs(kind: Kind) -> Check:
    check_item = _check(kind.value_type.field("value").type)

    def check(value: JsonValue) -> JsonValue:
        if type(value) is not dict:
            raise Malformed(f"expected an object, got {short(value)}")
        return [
            {"key": key, "value": None if item is None else check_item(item)} for key, item in value.items()
        ]

    return check


def _binary(value: JsonValue) -> JsonValue:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Malformed(f"expected base64, got {short(value)}") from None


def _time(kind: pa.DataType) -> Check:
    def check(value: JsonValue) -> JsonValue:
        try:
            time = datetime.fromisoformat(value)
            # A column of nanoseconds ends in 2262, and UTC may lie outside the years 1 to 9999 where local time does
            # not: the first would fail the whole part when it is written, the second each reader of it.
            pa.array([time.astimezone(UTC) if time.tzinfo else time], type=kind)
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            raise Malformed(f"expected a time (ISO 8601) within {kind}, got {short(value)}") from None
        return time

    return check


def _by_arrow(kind: pa.DataType) -> Check:
    def check(value: JsonValue) -> JsonValue:
        try:
            if pa.types.is_date(kind):
                value = date.fromisoformat(value)
            pa.array([value], type=kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Malformed(f"expected {kind}, got {short(value)}: {error}") from None
        return value

    return check


def short(value: JsonValue) -> str:
    """Return the beginning of a value as JSON, for a message."""
    return shorten(json.dumps(value, ensure_ascii=False, default=as_text), 80)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


_BUILDERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Check]], ...] = (
    (_is_text, lambda _: _instance(str, "a string")),
    (pa.types.is_boolean, lambda _: _instance(bool, "a boolean")),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, lambda _: _number),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (_is_list, _list),
    (_is_bytes, lambda _: _binary),
    (pa.types.is_timestamp, _time),
)
