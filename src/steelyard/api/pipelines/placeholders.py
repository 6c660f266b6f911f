"""Placeholders in the requests of a pipeline's nodes: `$(keyword)`, `$(node)` and `$(node.id)`. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from steelyard_common.types import Json, JsonValue

_PLACEHOLDER = re.compile(r"\$\(([^()$]{1,255})\)")


def placeholders(value: JsonValue) -> Iterator[str]:
    """Yield the names within all texts of a value."""
    match value:
        case str():
            yield from _PLACEHOLDER.findall(value)
        case dict():
            for item in value.values():
                yield from placeholders(item)
        case list():
            for item in value:
                yield from placeholders(item)


def count_filled_bytes(value: JsonValue, texts: Mapping[str, str]) -> int:
    """Return how many bytes `fill` would add to the value's JSON, or take from it. Raises KeyError as it does."""
    return sum(
        number * (len(texts[name].encode()) - len(f"$({name})".encode()))
        for name, number in Counter(placeholders(value)).items()
    )


def fill(value: JsonValue, texts: Mapping[str, str]) -> JsonValue:
    """Return the value with texts for its placeholders. Raises KeyError for a name without a value."""
    match value:
        case str():
            return _PLACEHOLDER.sub(lambda match: texts[match[1]], value)
        case dict():
            return {name: fill(item, texts) for name, item in value.items()}
        case list():
            return [fill(item, texts) for item in value]
    return value


def with_field(content: Json, path: str, value: JsonValue) -> Json:
    """Return the object with a value at a path of field names such as `client.batchSize`.

    Raises ValueError where a value on the path has no fields.
    """
    name, dot, rest = path.partition(".")
    if not dot:
        return {**content, name: value}
    inner = content.get(name, {})
    if not isinstance(inner, dict):
        raise ValueError(f"{name} has no field {rest}")
    return {**content, name: with_field(inner, rest, value)}
