"""Writes JSON Schemas as lines, one a field, without the texts that people read."""

import json
from collections.abc import Iterator
from typing import Any

from steelyard_common.types import Json

TEXTS = ("description", "title", "message")
"""Keywords whose values are for people: they may change without a change of the API."""
INNER = ("properties", "items", "additionalProperties", "required")


def field_lines(path: str, node: Json, marks: str = "") -> Iterator[str]:
    """A line for the node and each field below it; `marks` follow the node's own path."""
    keywords = {name: value for name, value in node.items() if name not in INNER}
    inner = node.get("additionalProperties")
    if isinstance(inner, bool):
        keywords["additionalProperties"] = inner
    yield f"{path}{marks} {compact(keywords)}"
    required = node.get("required", ())
    for name, field in sorted(node.get("properties", {}).items()):
        yield from field_lines(f"{path}.{name}", field, " required" if name in required else "")
    if "items" in node:
        yield from field_lines(f"{path}[]", node["items"])
    if isinstance(inner, dict):
        yield from field_lines(f"{path}.*", inner)


def compact(node: Any) -> str:
    """The node as JSON in one line, without texts."""
    return json.dumps(_without_texts(node), sort_keys=True, ensure_ascii=False)


def _without_texts(node: Any) -> Any:
    match node:
        case dict():
            # A field may be called `title`; then its schema is an object, not a text.
            return {
                name: _without_texts(value)
                for name, value in node.items()
                if name not in TEXTS or not isinstance(value, str)
            }
        case list():
            return [_without_texts(value) for value in node]
        case _:
            return node
