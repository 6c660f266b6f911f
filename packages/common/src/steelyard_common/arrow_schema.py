"""Reads names and types from schemas of Arrow without pyarrow, which takes 60 MB of a process and 150 of an image.

The API and the services show schemas, and read no rows. A schema is a message of FlatBuffers, counted before it is read
(`bounded_schema`). Types are written as pyarrow writes them.
"""

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_common.bounded_schema import field_place, follow, table_fault

DEPTH = 64
"""Most levels of fields within fields."""
NULL, INT, FLOATING, BINARY, UTF8, BOOL, DECIMAL, DATE, TIME, TIMESTAMP, INTERVAL, LIST, STRUCT = range(1, 14)
UNION, FIXED_BINARY, FIXED_LIST, MAP, DURATION, LARGE_BINARY, LARGE_UTF8, LARGE_LIST = range(14, 22)
RUN_END_ENCODED, BINARY_VIEW, UTF8_VIEW, LIST_VIEW, LARGE_LIST_VIEW = range(22, 27)
"""Numbers of types in Arrow's own schema of FlatBuffers (Schema.fbs)."""
DICTIONARY, EXTENSION = 100, 101
"""Numbers of our own, for types that a field has beside its own."""
_PLAIN = {
    NULL: "null",
    BINARY: "binary",
    UTF8: "string",
    BOOL: "bool",
    LARGE_BINARY: "large_binary",
    LARGE_UTF8: "large_string",
    BINARY_VIEW: "binary_view",
    UTF8_VIEW: "string_view",
}
_LISTS = {
    LIST: "list",
    LARGE_LIST: "large_list",
    FIXED_LIST: "fixed_size_list",
    LIST_VIEW: "list_view",
    LARGE_LIST_VIEW: "large_list_view",
}
_UNITS = ("s", "ms", "us", "ns")
_INTERVALS = ("month_interval", "day_time_interval", "month_day_nano_interval")
_SCHEMA_HEADER = 1
_CONTINUED = b"\xff\xff\xff\xff"
_EXTENSION_NAME = "ARROW:extension:name"
_EXTENSIONS = frozenset(
    {"arrow.bool8", "arrow.fixed_shape_tensor", "arrow.json", "arrow.opaque", "arrow.uuid"}
)
"""Extensions that pyarrow knows; of others it reads the type below. Their parameters are left out of texts."""


class BadArrowSchema(ValueError):
    """A schema cannot be read; the message says why."""


@dataclass(frozen=True)
class ArrowType:
    """Type of a field: its number, its text as pyarrow writes it, and the fields or the type within."""

    number: int
    text: str
    children: tuple["ArrowField", ...] = ()
    """Fields within; of a dictionary one, with the type of its values."""


@dataclass(frozen=True)
class ArrowField:
    """One column, or one part of a column."""

    name: str
    type: ArrowType
    nullable: bool = True

    @property
    def text(self) -> str:
        """Name and type, as a struct shows its parts."""
        return f"{self.name}: {self.type.text}{'' if self.nullable else ' not null'}"


def read_fields(text: str) -> list[ArrowField]:
    """Return the fields of a schema in a base64 text. Raises BadArrowSchema."""
    try:
        data = base64.b64decode(text, validate=True)
        start = 8 if data[:4] == _CONTINUED else 4
        (length,) = struct.unpack_from("<i", data, start - 4)
        message = data[start : start + length]
        if fault := table_fault(message):
            raise BadArrowSchema(fault)
        reader = _Reader(message)
        (root,) = struct.unpack_from("<I", message)
        if length > len(message) or reader.number(root, 1, "B", 0) != _SCHEMA_HEADER:
            raise BadArrowSchema("it is no message with a schema")
        return [reader.field(field, 0) for field in reader.tables(reader.table(root, 2), 1)]
    except BadArrowSchema:
        raise
    except (ValueError, LookupError, struct.error) as error:
        raise BadArrowSchema(f"it cannot be read: {error}") from error


class _Reader:
    """Reads tables of FlatBuffers. Raises ValueError, LookupError and struct.error for broken ones."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self, table: int, slot: int, form: str, default: int) -> int:
        place = field_place(self._data, table, slot)
        return int(struct.unpack_from(f"<{form}", self._data, place)[0]) if place else default

    def text(self, table: int, slot: int) -> str:
        if not (place := field_place(self._data, table, slot)):
            return ""
        start = follow(self._data, place) + 4
        (length,) = struct.unpack_from("<I", self._data, start - 4)
        if start + length > len(self._data):
            raise ValueError("a text ends outside")
        return self._data[start : start + length].decode()

    def table(self, table: int, slot: int) -> int:
        if not (place := field_place(self._data, table, slot)):
            raise ValueError(f"a table lacks its field {slot}")
        return follow(self._data, place)

    def tables(self, table: int, slot: int) -> list[int]:
        if not (place := field_place(self._data, table, slot)):
            return []
        vector = follow(self._data, place)
        (count,) = struct.unpack_from("<I", self._data, vector)
        return [follow(self._data, vector + 4 + 4 * item) for item in range(count)]

    def numbers(self, table: int, slot: int) -> list[int] | None:
        if not (place := field_place(self._data, table, slot)):
            return None
        vector = follow(self._data, place)
        (count,) = struct.unpack_from("<I", self._data, vector)
        return list(struct.unpack_from(f"<{count}i", self._data, vector + 4))

    def field(self, table: int, depth: int) -> ArrowField:
        if depth > DEPTH:
            raise ValueError(f"fields lie within more than {DEPTH} others")
        children = tuple(self.field(child, depth + 1) for child in self.tables(table, 5))
        number = self.number(table, 2, "B", 0)
        kind = ArrowType(number, self.type_text(number, self.table(table, 3), children), children)
        if field_place(self._data, table, 4):
            kind = self.dictionary(self.table(table, 4), kind)
        extension = next(
            (self.text(pair, 1) for pair in self.tables(table, 6) if self.text(pair, 0) == _EXTENSION_NAME),
            "",
        )
        if extension in _EXTENSIONS:
            kind = ArrowType(EXTENSION, f"extension<{extension}>", (ArrowField("storage", kind),))
        return ArrowField(self.text(table, 0), kind, bool(self.number(table, 1, "B", 0)))

    def dictionary(self, encoding: int, values: ArrowType) -> ArrowType:
        indices = self.int_text(self.table(encoding, 1)) if field_place(self._data, encoding, 1) else "int32"
        text = (
            f"dictionary<values={values.text}, indices={indices}, ordered={self.number(encoding, 2, 'B', 0)}>"
        )
        return ArrowType(DICTIONARY, text, (ArrowField("values", values),))

    def int_text(self, table: int) -> str:
        signed = self.number(table, 1, "B", 0)
        return f"{'' if signed else 'u'}int{self.number(table, 0, 'i', 0)}"

    def type_text(self, number: int, table: int, children: Sequence[ArrowField]) -> str:
        if number in _PLAIN:
            return _PLAIN[number]
        if number in _LISTS:
            (item,) = children
            size = f"[{self.number(table, 0, 'i', 0)}]" if number == FIXED_LIST else ""
            return f"{_LISTS[number]}<{item.text}>{size}"
        match number:
            case _ if number in (STRUCT, UNION, MAP, RUN_END_ENCODED):
                return self.composite_text(number, table, children)
            case _ if number in (DATE, TIME, TIMESTAMP, INTERVAL, DURATION):
                return self.time_text(number, table)
            case _ if number == INT:
                return self.int_text(table)
            case _ if number == FLOATING:
                return ("halffloat", "float", "double")[self.number(table, 0, "h", 0)]
            case _ if number == DECIMAL:
                precision, scale = (self.number(table, slot, "i", 0) for slot in (0, 1))
                return f"decimal{self.number(table, 2, 'i', 128)}({precision}, {scale})"
            case _ if number == FIXED_BINARY:
                return f"fixed_size_binary[{self.number(table, 0, 'i', 0)}]"
            case _:
                raise ValueError(f"there is no type {number}")

    def time_text(self, number: int, table: int) -> str:
        default = 0 if number in (TIMESTAMP, INTERVAL) else 1
        unit = self.number(table, 0, "h", default)
        if number == DATE:
            return ("date32[day]", "date64[ms]")[unit]
        if number == TIME:
            return f"time{self.number(table, 1, 'i', 32)}[{_UNITS[unit]}]"
        if number == TIMESTAMP:
            zone = self.text(table, 1)
            return f"timestamp[{_UNITS[unit]}{f', tz={zone}' if zone else ''}]"
        return _INTERVALS[unit] if number == INTERVAL else f"duration[{_UNITS[unit]}]"

    def composite_text(self, number: int, table: int, children: Sequence[ArrowField]) -> str:
        if number == STRUCT:
            return f"struct<{', '.join(child.text for child in children)}>"
        if number == UNION:
            codes = self.numbers(table, 1) or range(len(children))
            mode = ("sparse", "dense")[self.number(table, 0, "h", 0)]
            members = [f"{child.text}={code}" for child, code in zip(children, codes, strict=True)]
            return f"{mode}_union<{', '.join(members)}>"
        if number == RUN_END_ENCODED:
            ends, values = children
            return f"run_end_encoded<run_ends: {ends.type.text}, values: {values.type.text}>"
        (entries,) = children
        key, value = entries.type.children
        return f"map<{key.type.text}, {value.type.text}{', keys_sorted' if self.number(table, 0, 'B', 0) else ''}>"
