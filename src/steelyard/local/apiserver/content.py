"""Request bodies as values, bounded: no value is deeper or larger than what every part of the server can work on."""

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
        raise BadContent(str(error)) from error
    # Hardly any body has so many brackets at all: counting them saves the walk.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_too_deep(value):
        raise BadContent(TOO_DEEP)
    return value


def is_too_deep(value: Any) -> bool:
    """Tell whether lists and objects are nested deeper than `MAX_DEPTH`."""
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
