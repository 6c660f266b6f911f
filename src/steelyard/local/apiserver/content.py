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


class BadContent(ValueError):
    """A body that is no JSON, or JSON that no object can hold."""


def decoded(body: bytes) -> Any:
    """The value of a body. Raises BadContent."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadContent(_syntax_fault(body) or str(error)) from error
    # Hardly any body has so many brackets at all: counting them saves the walk.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_too_deep(value):
        raise BadContent(TOO_DEEP)
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


def _is_in_list(text: str) -> bool:
    """Return whether the innermost bracket that is open at the end of a text is a list's."""
    opened = ""
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(\\.|[^"\\])*"', "", text)):
        opened = opened + bracket if bracket in "[{" else opened[:-1]
    return opened.endswith("[")


def is_too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested deeper than `MAX_DEPTH`."""
    level: list[Any] = [value]
    # Level by level and not by recursion, which is what must be kept from going too deep.
    for _ in range(MAX_DEPTH):
        level = [below for item in level for below in _below(item)]
        if not level:
            return False
    return True


def _below(value: Any) -> Iterator[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict | list))
