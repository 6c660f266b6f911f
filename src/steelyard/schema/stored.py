"""What log and view keep of an entity: the aggregator writes it, and the API first sees whether it can be made."""

from collections.abc import Mapping
from typing import Any

import orjson

from steelyard.schema.bounds import ENTITY_BYTES, Unkeepable, check_json
from steelyard.schema.commands import CreateEntity, parse_command
from steelyard.schema.entities import entity_of


def with_revision(content: Mapping[str, Any], revision: str) -> dict[str, Any]:
    """An entity's content with the revision that a command makes."""
    metadata = {**(content.get("metadata") or {}), "revision": revision}
    return {**content, "metadata": metadata}


def entity_json(content: Mapping[str, Any], most: int = ENTITY_BYTES) -> bytes:
    """The JSON that log and view keep of an entity. Raises Unkeepable."""
    check_json(content)
    text = orjson.dumps(content)
    if len(text) > most:
        raise Unkeepable(
            f"the entity would have {len(text)} bytes; at most {most} are allowed", too_large=True
        )
    return text


def check_create(message: bytes, revision: str, most: int = ENTITY_BYTES) -> None:
    """Whether a CreateEntity command, as its message, makes an entity that is kept. The aggregator asks the same.

    Raises Unkeepable, MalformedCommand, and pydantic.ValidationError for an entity that is not read again.
    """
    command = parse_command(message)
    assert isinstance(command, CreateEntity)
    entity_of(entity_json(with_revision(command.data.dump(), revision), most))
