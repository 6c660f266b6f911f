"""Commands that every kind of entity has: create, status, labels, documentation, restore, forget."""

from typing import Literal

from pydantic import Field, SerializeAsAny

from steelyard_schema.base import EntityIdentifier, SchemaModel
from steelyard_schema.bounds import SUMMARY_LENGTH, TITLE_LENGTH, Text
from steelyard_schema.commands.base import CommandData, EntityCommand, Patch
from steelyard_schema.entities import Entity
from steelyard_schema.labels import Labels


class StatusPatch(Patch):
    """A new status; a null clears `reason` or `message`."""

    status: str
    """New status."""
    reason: str | None = None
    """Reason of the status in one word."""
    message: str | None = None
    """Reason of the status in a sentence."""


class LabelsPatch(Patch):
    """Labels to set; a null removes a label."""

    labels: Labels = Field(default_factory=dict)
    """Values of labels by key."""


class DocumentationPatch(Patch):
    """Changes of the documentation; a null removes a text."""

    title: str | None = Field(default=None, max_length=TITLE_LENGTH)
    """Title, at most 140 characters."""
    summary: str | None = Field(default=None, max_length=SUMMARY_LENGTH)
    """Summary in Markdown, at most 280 characters."""
    fullPage: Text | None = None
    """Full page in Markdown."""


class DocumentationAttributes(Patch):
    """Attributes of EditEntityDocumentation."""

    documentation: DocumentationPatch
    """Merge patch of the documentation."""


class StatusData(CommandData):
    attributes: StatusPatch
    """Merge patch of the status."""


class LabelsData(CommandData):
    attributes: LabelsPatch
    """Merge patch of the labels."""


class DocumentationData(CommandData):
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


class RestoreData(CommandData):
    attributes: RestoreAttributes
    """Entity to restore, and conditions."""


class ForgetData(EntityIdentifier):
    """Entity to forget. `expectedStatus` and `expectedRevision`, which are ours, are conditions."""

    expectedStatus: str | None = None
    """Status that the entity must have."""
    expectedRevision: str | None = None
    """Revision that the entity must have."""


class CreateEntity(EntityCommand):
    """Creates an entity."""

    command: Literal["CreateEntity"] = "CreateEntity"
    data: SerializeAsAny[Entity]


class UpdateEntityStatus(EntityCommand):
    """Changes the status of an entity."""

    command: Literal["UpdateEntityStatus"] = "UpdateEntityStatus"
    data: StatusData


class EditEntityLabels(EntityCommand):
    """Changes labels of an entity."""

    command: Literal["EditEntityLabels"] = "EditEntityLabels"
    data: LabelsData


class EditEntityDocumentation(EntityCommand):
    """Changes the documentation of an entity."""

    command: Literal["EditEntityDocumentation"] = "EditEntityDocumentation"
    data: DocumentationData


class RestoreEntity(EntityCommand):
    """Restores a deleted entity."""

    command: Literal["RestoreEntity"] = "RestoreEntity"
    data: RestoreData


class ForgetEntity(EntityCommand):
    """Deletes an entity for ever."""

    command: Literal["ForgetEntity"] = "ForgetEntity"
    data: ForgetData
