"""The commands on `workflows.events`: the published envelope `{schemaVersion, command, data}`.

`data` is the whole entity of CreateEntity, an identifier of ForgetEntity, else `{id, kind, attributes}`. Attributes are
merge patches (RFC 7396): a null that was given is kept, for it clears the field; what was not given is left out.
"""

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    model_serializer,
)

from steelyard.schema.base import EntityIdentifier, EntityKind, SchemaModel
from steelyard.schema.bounds import Id, Text
from steelyard.schema.entities import Entity
from steelyard.schema.labels import Labels

SCHEMA_VERSION = (0, 1)
TITLE_LENGTH, SUMMARY_LENGTH = 140, 280


class MalformedCommand(ValueError):
    """A message that is not a command; the text names the field that is wrong."""


class FutureSchema(Exception):
    """A message of a schema version that this program does not know yet."""


class _Patch(SchemaModel):
    """A merge patch, written with the fields that were given, nulls included."""

    @model_serializer
    def _given(self) -> dict[str, Any]:
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }


class StatusPatch(_Patch):
    """A new status; a null clears `reason` or `message`."""

    status: str
    """New status."""
    reason: str | None = None
    """Reason of the status in one word."""
    message: str | None = None
    """Reason of the status in a sentence."""


class LabelsPatch(_Patch):
    """Labels to set; a null removes a label."""

    labels: Labels = Field(default_factory=dict)
    """Values of labels by key."""


class DocumentationPatch(_Patch):
    """Changes of the documentation; a null removes a text."""

    title: str | None = Field(default=None, max_length=TITLE_LENGTH)
    """Title, at most 140 characters."""
    summary: str | None = Field(default=None, max_length=SUMMARY_LENGTH)
    """Summary in Markdown, at most 280 characters."""
    fullPage: Text | None = None
    """Full page in Markdown."""


class DocumentationAttributes(_Patch):
    """Attributes of EditEntityDocumentation."""

    documentation: DocumentationPatch
    """Merge patch of the documentation."""


class _Data(SchemaModel):
    id: Id
    """Id of the entity."""
    kind: EntityKind
    """Kind of the entity."""


class StatusData(_Data):
    attributes: StatusPatch
    """Merge patch of the status."""


class LabelsData(_Data):
    attributes: LabelsPatch
    """Merge patch of the labels."""


class DocumentationData(_Data):
    attributes: DocumentationAttributes
    """Merge patch of the documentation."""


class RestoreAttributes(SchemaModel):
    """Entity to restore, and conditions."""

    entity: Entity
    """The entity as it is to be again."""
    ifRevisionMatch: str | None = None
    """Revision that must be the current one."""
    ifRevisionUndefined: bool | None = None
    """True if there must be no revision."""


class RestoreData(_Data):
    attributes: RestoreAttributes
    """Entity to restore, and conditions."""


class ForgetData(EntityIdentifier):
    """Entity to forget. `expectedStatus` and `expectedRevision`, which are ours, are conditions."""

    expectedStatus: str | None = None
    """Status that the entity must have."""
    expectedRevision: str | None = None
    """Revision that the entity must have."""


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    schemaVersion: Literal["0.1"] = "0.1"

    def dump_json(self) -> bytes:
        """Return the envelope as JSON."""
        return json.dumps(self.envelope(), separators=(",", ":")).encode()

    def envelope(self) -> dict[str, Any]:
        """Return the envelope as Python values."""
        data: SchemaModel = self.data  # type: ignore[attr-defined]
        return {"schemaVersion": self.schemaVersion, "command": self.command, "data": data.dump()}  # type: ignore[attr-defined]


class CreateEntity(_Command):
    """Creates an entity."""

    command: Literal["CreateEntity"] = "CreateEntity"
    data: SerializeAsAny[Entity]


class UpdateEntityStatus(_Command):
    """Changes the status of an entity."""

    command: Literal["UpdateEntityStatus"] = "UpdateEntityStatus"
    data: StatusData


class EditEntityLabels(_Command):
    """Changes labels of an entity."""

    command: Literal["EditEntityLabels"] = "EditEntityLabels"
    data: LabelsData


class EditEntityDocumentation(_Command):
    """Changes the documentation of an entity."""

    command: Literal["EditEntityDocumentation"] = "EditEntityDocumentation"
    data: DocumentationData


class RestoreEntity(_Command):
    """Restores a deleted entity."""

    command: Literal["RestoreEntity"] = "RestoreEntity"
    data: RestoreData


class ForgetEntity(_Command):
    """Deletes an entity for ever."""

    command: Literal["ForgetEntity"] = "ForgetEntity"
    data: ForgetData


class UnknownData(BaseModel):
    """Entity of a command that is not implemented."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    id: str
    kind: str


class UnknownCommand(BaseModel):
    """A command of the published schema that is not implemented here."""

    schemaVersion: Literal["0.1"] = "0.1"
    command: str
    data: UnknownData

    def dump_json(self) -> bytes:
        """Return the envelope as it came."""
        return self.model_dump_json().encode()


KnownCommand = (
    CreateEntity
    | UpdateEntityStatus
    | EditEntityLabels
    | EditEntityDocumentation
    | RestoreEntity
    | ForgetEntity
)
Command = KnownCommand | UnknownCommand

COMMANDS = (
    "CreateEntity", "UpdateEntityStatus", "EditEntityLabels", "EditEntityDocumentation", "RestoreEntity",
    "ForgetEntity", "EditFamilyMembers", "CreateChallengeTask", "CreateChallengeTeam", "EditChallengeContent",
    "EditChallengeRules", "EditChallengeTaskRules", "EditTeam", "PutQuota", "UpdateQuotaUsage",
)  # fmt: skip
"""Every command of the published schema."""

_KNOWN: TypeAdapter[KnownCommand] = TypeAdapter(
    Annotated[KnownCommand, Field(discriminator="command")], config=ConfigDict(defer_build=True)
)
_IMPLEMENTED = COMMANDS[:6]


class _Head(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)

    schemaVersion: str
    command: str


def parse_command(message: bytes) -> Command:
    """Return the command of a message. Raises MalformedCommand, FutureSchema."""
    try:
        # The version first: a command of a newer schema must stop the partition, whatever else is unknown in it.
        head = _Head.model_validate_json(message)
        check_version(head.schemaVersion)
        if head.command in _IMPLEMENTED:
            return _KNOWN.validate_json(message)
        # Published, and not implemented here: rejected with that reason, not put in quarantine as malformed.
        if head.command in COMMANDS:
            return UnknownCommand.model_validate_json(message)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise MalformedCommand("; ".join(faults)) from error
    raise MalformedCommand(f"command: {head.command!r} is not a command; there are {', '.join(COMMANDS)}")


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
