"""Checks requests and new entities before they are accepted, with the code that later applies and stores them.

A command that is accepted can then be rejected only because of what happened before it. `RequestContext` checks bodies,
`Commands` checks entities before their rows are written.
"""

from collections.abc import Mapping

import orjson
from pydantic import ValidationError

from steelyard.api.http.errors import Invalid, TooLarge, invalid
from steelyard_schema.bounds import Unkeepable, check_json
from steelyard_schema.commands import MalformedCommand
from steelyard_schema.stored import check_create


def check_body(content: Mapping[str, object], size: int, limit: int) -> None:
    """Raise TooLarge, and Invalid for a value that the platform could not store."""
    if size > limit:
        raise _too_large(content, size, limit)
    try:
        check_json(content)
    except Unkeepable as error:
        raise Invalid(str(error), field=error.field or "body") from error


def check_entity(content: Mapping[str, object], message: bytes, revision: str, limit: int) -> None:
    """Raise TooLarge or Invalid if the aggregator would not apply the CreateEntity command of this content."""
    try:
        check_create(message, revision, limit)
    except Unkeepable as error:
        if error.too_large:
            raise _too_large(content, len(orjson.dumps(content)), limit) from error
        raise Invalid(str(error), field=error.field or "body") from error
    except MalformedCommand as error:
        raise Invalid(f"body: {error}", field="body") from error
    except ValidationError as error:
        raise invalid(error) from error


def _too_large(content: Mapping[str, object], size: int, limit: int) -> TooLarge:
    """Return the error, which names the largest field."""
    sizes = {name: _size(value, size) for name, value in content.items()}
    name = max(sizes, key=lambda field: sizes[field], default="body")
    return TooLarge(
        f"{name}: has {sizes.get(name, size)} of {size} bytes; {limit} are allowed in all, with those that the "
        "platform adds",
        field=name,
    )


def _size(value: object, total: int) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # orjson writes no value that is nested too deeply: its field counts as the largest
        return total
