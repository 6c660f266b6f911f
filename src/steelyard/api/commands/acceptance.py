"""What is accepted has been judged: a request and the entity of it, by the code that will judge and keep it.

What is accepted later than this can only fail by the order of things. `Call` asks about bodies, `Commands` about
entities before their rows are written.
"""

from collections.abc import Mapping

import orjson
from pydantic import ValidationError

from steelyard.api.http.errors import Invalid, TooLarge, invalid
from steelyard.schema.bounds import Unkeepable, check_json
from steelyard.schema.commands import MalformedCommand
from steelyard.schema.stored import check_create


def check_body(content: Mapping[str, object], size: int, limit: int) -> None:
    """Raises TooLarge, and Invalid for a value that no part of the platform could keep."""
    if size > limit:
        raise _too_large(content, size, limit)
    try:
        check_json(content)
    except Unkeepable as error:
        raise Invalid(str(error), field=error.field or "body") from error


def check_entity(content: Mapping[str, object], message: bytes, revision: str, limit: int) -> None:
    """Whether the aggregator will take the CreateEntity command of this content. Raises TooLarge, Invalid."""
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
    """It names the largest field."""
    sizes = {name: _size(value, size) for name, value in content.items()}
    name = max(sizes, key=lambda each: sizes[each], default="body")
    return TooLarge(
        f"{name}: has {sizes.get(name, size)} of {size} bytes, where {limit} are allowed in all, with what the "
        "platform adds",
        field=name,
    )


def _size(value: object, most: int) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # nested too deep to be written
        return most
