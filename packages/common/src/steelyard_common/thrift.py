"""Thrift's compact protocol, in which the footer and the headers of Parquet's pages are written.

Only what these hold is read: no sets and no maps. A text that is nested deeper, has more items or goes on is an
IndexError.
"""

from typing import Any

MOST_ITEMS = 100_000
"""Most items of one list: three bytes of it can stand for a kilobyte."""
_NUMBERS, _DOUBLE, _BYTES, _LISTS, _STRUCT, _DEEPEST = (4, 5, 6), 7, 8, (9, 10), 12, 8


def read_struct(content: bytes, place: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and where it ends. IndexError for one that goes on."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := content[place]) != 0:
        place += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, place = _zigzag(content, place)
        # Most fields of a footer are numbers of one byte: the calls for them took half of the time.
        if kind in _NUMBERS and (byte := content[place]) < 128:
            fields[number], place = (byte >> 1) ^ -(byte & 1), place + 1
        else:
            fields[number], place = _value(content, place, kind, depth)
    return fields, place + 1


def _value(content: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _NUMBERS:
        return _zigzag(content, place)
    if kind in (1, 2):
        return kind == 1, place
    if kind == 3:
        return content[place], place + 1
    if kind == _BYTES:
        length, place = _varint(content, place)
        if place + length > len(content):
            raise IndexError
        return content[place : place + length], place + length
    if kind == _DOUBLE:
        return None, place + 8
    if depth >= _DEEPEST:
        raise IndexError
    if kind == _STRUCT:
        return read_struct(content, place, depth + 1)
    if kind in _LISTS:
        return _list(content, place, depth + 1)
    raise IndexError  # nothing else is in a footer or a header


def _list(content: bytes, place: int, depth: int) -> tuple[list[Any], int]:
    head, place = content[place], place + 1
    kind, count = head & 15, head >> 4
    if count == 15:
        count, place = _varint(content, place)
    if count > MOST_ITEMS:
        raise IndexError
    items = []
    for _ in range(count):
        # A truth value of a list has a byte of its own.
        item, place = (
            (content[place] == 1, place + 1) if kind in (1, 2) else _value(content, place, kind, depth)
        )
        items.append(item)
    return items, place


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise IndexError


def _zigzag(content: bytes, place: int) -> tuple[int, int]:
    value, place = _varint(content, place)
    return (value >> 1) ^ -(value & 1), place
