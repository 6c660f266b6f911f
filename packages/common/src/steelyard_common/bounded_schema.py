"""Schemas of Arrow from strangers, counted before one is made of them.

A schema is a table of FlatBuffers whose parts may be named as often as one likes: with four bytes each, half a megabyte
names one long name a hundred thousand times, or doubles the fields of an object at each level. Everything is counted as
if it were written out. Entities hold such schemas, and so do Parquet and Arrow files.
"""

import base64
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the API reads few schemas, and starts without pyarrow
    import pyarrow as pa

FIELDS, BYTES_PER_FIELD = 100_000, 16
"""Most fields and pairs of metadata, at all levels: so many, and no more than one for so many bytes."""
TEXT_BYTES, TEXT_RATIO = 16 << 20, 4
"""Most bytes of names and metadata: so many, and no more than so many times the bytes of the schema."""
_CONTINUED = b"\xff\xff\xff\xff"


def read_schema(text: str) -> "pa.Schema":
    """Return the schema in a base64 text. Raises ArrowInvalid, also for one that stands for more than is allowed."""
    import pyarrow as pa

    try:
        data = base64.b64decode(text, validate=True)
        if fault := schema_fault(data):
            raise pa.ArrowInvalid(fault)
        return pa.ipc.read_schema(pa.py_buffer(data))
    except pa.ArrowInvalid:
        raise
    except (ValueError, OSError, EOFError, pa.ArrowException) as error:
        raise pa.ArrowInvalid(str(error)) from error


def schema_fault(data: bytes) -> str:
    """Return why a schema is not read; empty where it may be. `data` is a message that begins with its length."""
    return table_fault(data[8 if data[:4] == _CONTINUED else 4 :])


def table_fault(data: bytes) -> str:
    """Return the same of a message without its length."""
    try:
        message = struct.unpack_from("<I", data)[0]
        counter = _Counter(data)
        counter.add_metadata(message, 4)
        if header := field_place(data, message, 2):
            counter.add_schema(follow(data, header))
    except (struct.error, IndexError) as error:
        return f"its message cannot be read: {error}"
    except OverflowError as error:
        return str(error)
    return ""


class _Counter:
    """Adds up the fields and the texts of a schema. Raises OverflowError for too many of them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._most_fields = min(FIELDS, len(data) // BYTES_PER_FIELD)
        self._most_texts = min(TEXT_BYTES, TEXT_RATIO * len(data))
        self._fields = self._texts = 0

    def add_schema(self, schema: int) -> None:
        self.add_metadata(schema, 2)
        waiting = self._field_places(schema, 1)
        while waiting:
            field = waiting.pop()
            self._add_text(field, 0)
            self.add_metadata(field, 6)
            if kind := field_place(self._data, field, 3):
                self._add_kind(field, follow(self._data, kind))
            waiting += self._field_places(field, 5)

    def add_metadata(self, table: int, number: int) -> None:
        """Add pairs of texts; each counts as a field too."""
        for pair in self._field_places(table, number):
            self._add_text(pair, 0)
            self._add_text(pair, 1)

    def _add_kind(self, field: int, kind: int) -> None:
        """Add what a type has beside its numbers: the numbers of a union's members, the name of a time zone."""
        place = field_place(self._data, field, 2)
        number = self._data[place] if place else 0
        if number in (_TIMESTAMP, _UNION):
            self._add_text(kind, 1, 4 if number == _UNION else 1)

    def _field_places(self, table: int, number: int) -> list[int]:
        """Return the places of the tables in a vector, after they were counted."""
        place = field_place(self._data, table, number)
        if not place:
            return []
        vector = follow(self._data, place)
        count = struct.unpack_from("<I", self._data, vector)[0]
        self._fields += count
        if self._fields > self._most_fields:
            raise OverflowError(f"it stands for more than the {self._most_fields} fields that are allowed")
        return [follow(self._data, vector + 4 + 4 * item) for item in range(count)]

    def _add_text(self, table: int, number: int, width: int = 1) -> None:
        if place := field_place(self._data, table, number):
            self._texts += width * struct.unpack_from("<I", self._data, follow(self._data, place))[0]
        if self._texts > self._most_texts:
            raise OverflowError(
                f"it stands for more than the {self._most_texts} bytes of names that are allowed"
            )


_TIMESTAMP, _UNION = 10, 14


def field_place(data: bytes, table: int, number: int) -> int:
    """Return the place of a field in a table of FlatBuffers; 0 where it is left out. Raises struct.error."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, entries + place)[0]
    return table + offset if offset else 0


def follow(data: bytes, place: int) -> int:
    """Return the place that an offset leads to. Raises struct.error."""
    target: int = place + struct.unpack_from("<I", data, place)[0]
    return target
