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
    """The message is no command; it says which field is wrong."""


class FutureSchema(Exception):
    """The message is of a schema version that this program does not know yet."""


class _Patch(SchemaModel):
    """A merge patch: written with what was given, nulls included, and nothing else."""

    @model_serializer
    def _given(self) -> dict[str, Any]:
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }


class StatusPatch(_Patch):
    """New status; `reason` and `message` of null are cleared."""

    status: str
    """The status."""
    reason: str | None = None
    """Why, in one word."""
    message: str | None = None
    """The same in a sentence."""


class LabelsPatch(_Patch):
    """Labels to set, and with null to take away."""

    labels: Labels = Field(default_factory=dict)
    """Values by key."""


class DocumentationPatch(_Patch):
    """What a person reads; null takes it away."""

    title: str | None = Field(default=None, max_length=TITLE_LENGTH)
    """At most 140 characters."""
    summary: str | None = Field(default=None, max_length=SUMMARY_LENGTH)
    """Markdown, at most 280 characters."""
    fullPage: Text | None = None
    """Markdown."""


class DocumentationAttributes(_Patch):
    """The patch of EditEntityDocumentation."""

    documentation: DocumentationPatch
    """The patch."""


class _Data(SchemaModel):
    id: Id
    """Id of the entity."""
    kind: EntityKind
    """Its kind."""


class StatusData(_Data):
    attributes: StatusPatch
    """The patch."""


class LabelsData(_Data):
    attributes: LabelsPatch
    """The patch."""


class DocumentationData(_Data):
    attributes: DocumentationAttributes
    """The patch."""


class RestoreAttributes(SchemaModel):
    """What is restored, and on which condition."""

    entity: Entity
    """The entity as it shall be again."""
    ifRevisionMatch: str | None = None
    """Only if the current revision is this one."""
    ifRevisionUndefined: bool | None = None
    """Only if there is no revision."""


class RestoreData(_Data):
    attributes: RestoreAttributes
    """What is restored."""


class ForgetData(EntityIdentifier):
    """Whom to forget. `expectedStatus` and `expectedRevision` are ours: only if the entity still is so."""

    expectedStatus: str | None = None
    """Only if this is its status."""
    expectedRevision: str | None = None
    """Only if this is its revision."""


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    schemaVersion: Literal["0.1"] = "0.1"

    def dump_json(self) -> bytes:
        """The envelope as JSON."""
        return json.dumps(self.envelope(), separators=(",", ":")).encode()

    def envelope(self) -> dict[str, Any]:
        """The envelope as values."""
        data: SchemaModel = self.data  # type: ignore[attr-defined]
        return {"schemaVersion": self.schemaVersion, "command": self.command, "data": data.dump()}  # type: ignore[attr-defined]


class CreateEntity(_Command):
    """Make an entity."""

    command: Literal["CreateEntity"] = "CreateEntity"
    data: SerializeAsAny[Entity]


class UpdateEntityStatus(_Command):
    """Change the status."""

    command: Literal["UpdateEntityStatus"] = "UpdateEntityStatus"
    data: StatusData


class EditEntityLabels(_Command):
    """Change labels."""

    command: Literal["EditEntityLabels"] = "EditEntityLabels"
    data: LabelsData


class EditEntityDocumentation(_Command):
    """Change documentation."""

    command: Literal["EditEntityDocumentation"] = "EditEntityDocumentation"
    data: DocumentationData


class RestoreEntity(_Command):
    """Bring a deleted entity back."""

    command: Literal["RestoreEntity"] = "RestoreEntity"
    data: RestoreData


class ForgetEntity(_Command):
    """Delete for ever."""

    command: Literal["ForgetEntity"] = "ForgetEntity"
    data: ForgetData


class UnknownData(BaseModel):
    """Of a command that is not implemented: whom it is about."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    id: str
    kind: str


class UnknownCommand(BaseModel):
    """A command of the published schema that is not implemented here."""

    schemaVersion: Literal["0.1"] = "0.1"
    command: str
    data: UnknownData

    def dump_json(self) -> bytes:
        """The envelope as JSON, as it came."""
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
    """The command of a message. Raises MalformedCommand, FutureSchema."""
    try:
        head = _Head.model_validate_json(message)
        check_version(head.schemaVersion)
        if head.command in _IMPLEMENTED:
            return _KNOWN.validate_json(message)
        if head.command in COMMANDS:
            return UnknownCommand.model_validate_json(message)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise MalformedCommand("; ".join(faults)) from error
    raise MalformedCommand(f"command: {head.command!r} is none; there are {', '.join(COMMANDS)}")


def check_version(text: str) -> None:
    """Raises FutureSchema for a version that this program does not know yet, MalformedCommand for none."""
    try:
        version = tuple(int(each) for each in text.split("."))
    except ValueError as error:
        raise MalformedCommand(f"schemaVersion: {text!r} is no version such as 0.1") from error
    if version[: len(SCHEMA_VERSION)] > SCHEMA_VERSION:  # 0.1.3 is read by whoever reads 0.1
        raise FutureSchema(f"schemaVersion {text} is newer than {'.'.join(map(str, SCHEMA_VERSION))}")


def command_time(time: datetime) -> str:
    """A time as it stands in a command's header: UTC, microseconds, Z."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
