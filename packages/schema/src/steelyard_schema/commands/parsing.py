"""Parses messages of `workflows.events` into commands."""

from typing import Annotated, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from steelyard_schema.commands.base import MalformedCommand, check_version
from steelyard_schema.commands.challenges import (
    CreateChallengeTask,
    CreateChallengeTeam,
    EditChallengeContent,
    EditChallengeRules,
    EditChallengeTaskRules,
)
from steelyard_schema.commands.entities import (
    CreateEntity,
    EditEntityDocumentation,
    EditEntityLabels,
    ForgetEntity,
    RestoreEntity,
    UpdateEntityStatus,
)
from steelyard_schema.commands.families import EditFamilyMembers
from steelyard_schema.commands.quotas import PutQuota, UpdateQuotaUsage
from steelyard_schema.commands.teams import EditTeam
from steelyard_schema.faults import faults_text

Command = (
    CreateEntity
    | UpdateEntityStatus
    | EditEntityLabels
    | EditEntityDocumentation
    | RestoreEntity
    | ForgetEntity
    | EditFamilyMembers
    | CreateChallengeTask
    | CreateChallengeTeam
    | EditChallengeContent
    | EditChallengeRules
    | EditChallengeTaskRules
    | EditTeam
    | PutQuota
    | UpdateQuotaUsage
)
_CLASSES: dict[str, type[BaseModel]] = {command.__name__: command for command in get_args(Command)}
COMMANDS = tuple(_CLASSES)
"""Every command of the published schema."""

_ADAPTER: TypeAdapter[Command] = TypeAdapter(
    Annotated[Command, Field(discriminator="command")], config=ConfigDict(defer_build=True)
)


class _Head(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)

    schemaVersion: str
    command: str


def parse_command(message: bytes) -> Command:
    """Return the command of a message. Raises MalformedCommand, FutureSchema."""
    kind: type[BaseModel] | None = None
    try:
        # The version first: a command of a newer schema must stop the partition, whatever else is unknown in it.
        head = _Head.model_validate_json(message)
        check_version(head.schemaVersion)
        kind = _CLASSES.get(head.command)
        if kind is not None:
            return _ADAPTER.validate_json(message)
    except ValidationError as error:
        raise MalformedCommand(faults_text(error, model=kind)) from error
    raise MalformedCommand(f"command: {head.command!r} is not a command; there are {', '.join(COMMANDS)}")
