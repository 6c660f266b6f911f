"""Family: versions of one thing, as people see it.

A tag names a version; in requests, `family@tag` stands for the version's id.
"""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, EntityIdentifier, SchemaModel, Time
from steelyard_schema.bounds import FEW, Id, Summary

TAG_PATTERN = r"^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,126}$"
REFERENCE_PATTERN = f"^[0-9a-f]{{32}}(@{TAG_PATTERN.strip('^$')})?$"
"""Pattern of what requests name an entity by: its id, or `family@tag`."""
TagName = Annotated[str, Field(pattern=TAG_PATTERN, max_length=127)]
"""Name of a version, in the syntax of tags of container images."""
FamilyMemberKind = Literal["Dataset", "InferenceService", "Method", "Model", "Module"]


class FamilyMemberBase(SchemaModel):
    """An entity that becomes a version."""

    entity: EntityIdentifier
    """The entity."""
    description: Summary | None = None
    """Description of the version, in at most 280 characters."""


class FamilyMember(FamilyMemberBase):
    """A version of a family."""

    name: TagName
    """Tag of the version."""
    family: Id
    """Id of the family."""
    creationTime: Time
    """Time at which the entity was given the tag."""


class FamilyFields(SchemaModel):
    """Fields of a Family that its create request has."""

    memberKind: FamilyMemberKind
    """Kind of the members: Dataset, InferenceService, Method, Model or Module."""


class Family(FamilyFields, DyffEntity):
    """Versions of one thing, as people see it."""

    members: Annotated[dict[TagName, FamilyMember], FEW] = Field(default_factory=dict)
    """Versions by their tags."""
    kind: Literal["Family"] = "Family"
    """Kind of the entity: Family."""
