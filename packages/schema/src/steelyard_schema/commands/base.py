"""The envelope of every command, its data, and the merge patches that its attributes are."""

import json
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_serializer

from steelyard_schema.base import EntityKind, SchemaModel
from steelyard_schema.bounds import Id

SCHEMA_VERSION = (0, 1)


class MalformedCommand(ValueError):
    """A message that is not a command; the text names the field that is wrong."""


class FutureSchema(Exception):
    """A message of a schema version that this program does not know yet."""


class Patch(SchemaModel):
    """A merge patch, written with the fields that were given, nulls included."""

    @model_serializer
    def _serialize(self) -> dict[str, Any]:
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }


class CommandData(SchemaModel):
    """The entity that a command is about."""

    id: Id
    """Id of the entity."""
    kind: EntityKind
    """Kind of the entity."""


class EntityCommand(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    schemaVersion: Literal["0.1"] = "0.1"

    def dump_json(self) -> bytes:
        """Return the envelope as JSON."""
        return json.dumps(self.envelope(), separators=(",", ":")).encode()

    def envelope(self) -> dict[str, Any]:
        """Return the envelope as Python values."""
        data: SchemaModel = self.data  # type: ignore[attr-defined]
        return {"schemaVersion": self.schemaVersion, "command": self.command, "data": data.dump()}  # type: ignore[attr-defined]


def check_version(text: str) -> None:
    """Raise FutureSchema for a version that this program does not know yet, MalformedCommand for none."""
    try:
        version = tuple(int(part) for part in text.split("."))
    except ValueError as error:
        raise MalformedCommand(f"schemaVersion: {text!r} is not a version such as 0.1") from error
    if version[: len(SCHEMA_VERSION)] > SCHEMA_VERSION:  # a program that reads 0.1 reads 0.1.3 too
        raise FutureSchema(f"schemaVersion {text} is newer than {'.'.join(map(str, SCHEMA_VERSION))}")


def command_time(time: datetime) -> str:
    """Return a time as a command's header has it: UTC, microseconds, Z."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
