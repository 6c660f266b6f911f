"""Request bodies as values, bounded: no value is deeper or larger than what every part of the server can work on."""

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

# Values are walked by functions that call themselves, and Python ends those after 1,000 calls; the JSON writer ends
# after 254 levels. A real server takes 10,000. A manifest has about 20 levels, a definition's schema 60.
MAX_DEPTH = 128
TOO_DEEP = f"exceeded max depth: at most {MAX_DEPTH} levels of lists and objects are taken here"
MAX_PARTS = 50_000
"""Most lists and objects of a body: of two bytes each, defaults and faults make a thousand. A large definition has
20,000.
"""
TOO_MANY = f"a body has at most {MAX_PARTS} lists and objects"


class BadContent(ValueError):
    """The body is not JSON, or no object can hold it."""


def decode_json(body: bytes) -> Any:
    """The value of a body. Raises BadContent."""
    # Counted before they are made; the brackets of texts, which count for nothing, seldom are that many.
    if body.count(b"{") + body.count(b"[") > MAX_PARTS and _parts(body) > MAX_PARTS:
        raise BadContent(TOO_MANY)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadContent(_syntax_fault(body) or str(error)) from error
    # Hardly any body has so many brackets at all: counting them saves the walk.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        check_shape(value)
    return value


# What Go says of a character, by what Python's reader says of it.
_FAULTS = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
}
_MARKS = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_BEGINNINGS = re.compile(rb'\\.|["\[{]', re.DOTALL)


def _syntax_fault(body: bytes) -> str:
    """Fault of JSON in Go's words; empty where Python's slower reader sees none."""
    text = body.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        at = len(text) - len(text[error.pos :].lstrip())
        if at >= len(text) or error.msg.startswith("Unterminated string"):
            return "unexpected end of JSON input"
        if error.msg.startswith("Expecting ',' delimiter"):
            place = "after array element" if _is_in_list(text[:at]) else "after object key:value pair"
        else:
            place = _FAULTS.get(error.msg, "looking for beginning of value")
        return f"invalid character '{text[at]}' {place}"
    except (ValueError, RecursionError):
        return ""
    return ""


def _parts(body: bytes) -> int:
    """Return how many lists and objects begin in JSON."""
    parts, quoted = 0, False
    for match in _BEGINNINGS.finditer(body):
        if match[0] == b'"':
            quoted = not quoted
        elif not quoted and len(match[0]) == 1:
            parts += 1
            if parts > MAX_PARTS:
                break
    return parts


def _is_in_list(text: str) -> bool:
    """Return whether the innermost bracket that is open at the end of a text is a list's."""
    opened: list[str] = []
    quoted = False
    # Mark by mark: a pattern for whole texts keeps a note of every character of a long one.
    for match in _MARKS.finditer(text):
        mark = match[0]
        if mark == '"':
            quoted = not quoted
        elif quoted or mark.startswith("\\"):
            continue
        elif mark in "[{":
            opened.append(mark)
        elif opened:
            opened.pop()
    return opened[-1:] == ["["]


def check_shape(value: Any) -> None:
    """Raise BadContent for a value of too many levels, or of too many lists and objects."""
    level: list[Any] = [value]
    parts = 0
    # Level by level and not by recursion, which is what must be kept from going too deep.
    for _ in range(MAX_DEPTH):
        level = [below for item in level for below in _below(item)]
        if not level:
            return
        parts += len(level)
        if parts > MAX_PARTS:
            raise BadContent(TOO_MANY)
    raise BadContent(TOO_DEEP)


def is_too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested deeper than `MAX_DEPTH`."""
    try:
        check_shape(value)
    except BadContent as error:
        return str(error) == TOO_DEEP
    return False


def _below(value: Any) -> Iterator[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict | list))
