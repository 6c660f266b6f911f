"""Concerns: use cases and hazards, which labels attach to entities (`usecases.dyff.io/<id>`)."""

from typing import Literal

from pydantic import Field

from steelyard_schema.base import DocumentationBase, DyffEntity, SchemaModel


class ConcernFields(SchemaModel):
    """Fields of a concern besides those of every entity."""

    documentation: DocumentationBase = Field(default_factory=DocumentationBase)
    """Documentation that the concern was created with; edits go to `metadata.documentation`."""


class UseCase(ConcernFields, DyffEntity):
    """A use of AI systems that entities have to do with."""

    kind: Literal["UseCase"] = "UseCase"
    """Kind of the entity: UseCase."""


class Hazard(ConcernFields, DyffEntity):
    """A harm that AI systems can do."""

    kind: Literal["Hazard"] = "Hazard"
    """Kind of the entity: Hazard."""
