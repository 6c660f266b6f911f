"""The stored form of entities in log and view: the aggregator writes it, the API checks first that it can be made."""

from collections.abc import Mapping
from typing import Any

import orjson

from steelyard_schema.bounds import ENTITY_BYTES, Unkeepable, check_json
from steelyard_schema.commands import CreateEntity, parse_command
from steelyard_schema.entities import parse_entity


def with_revision(content: Mapping[str, Any], revision: str) -> dict[str, Any]:
    """Return an entity's content with the revision that a command makes."""
    metadata = {**(content.get("metadata") or {}), "revision": revision}
    return {**content, "metadata": metadata}


def entity_json(content: Mapping[str, Any], most: int = ENTITY_BYTES) -> bytes:
    """Return the JSON of an entity in log and view. Raises Unkeepable."""
    check_json(content)
    text = orjson.dumps(content)
    # Measured on the bytes as they are stored, so that the API and the aggregator never differ.
    if len(text) > most:
        raise Unkeepable(
            f"the entity would have {len(text)} bytes; at most {most} are allowed", too_large=True
        )
    return text


def check_create(message: bytes, revision: str, most: int = ENTITY_BYTES) -> None:
    """Raise Unkeepable, MalformedCommand or pydantic.ValidationError if the aggregator would not store the entity.

    `message` is the CreateEntity command. The aggregator runs the same check.
    """
    command = parse_command(message)
    assert isinstance(command, CreateEntity)
    # Written and read again: what the schema accepts in a request it must also accept from the log.
    parse_entity(entity_json(with_revision(command.data.dump(), revision), most))
