"""The command that changes a family's members."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import FEW, Id
from steelyard_schema.commands.base import EntityCommand, Patch
from steelyard_schema.family import FamilyMember, TagName


class FamilyMemberPatch(FamilyMember, Patch):
    """A member to set, written with the nulls that were given."""


class FamilyMembersPatch(Patch):
    """Members to set; a null removes a tag."""

    members: Annotated[dict[TagName, FamilyMemberPatch | None], FEW]
    """Members by their tags."""


class FamilyMembersData(SchemaModel):
    """The family, and changes of its members."""

    id: Id
    """Id of the family."""
    kind: Literal["Family"]
    """Kind of the entity: Family."""
    members: Annotated[dict[TagName, FamilyMember], FEW] = Field(default_factory=dict)
    """Field of the published schema; it has no meaning."""
    attributes: FamilyMembersPatch
    """Merge patch of the members."""


class EditFamilyMembers(EntityCommand):
    """Changes the members of a family."""

    command: Literal["EditFamilyMembers"] = "EditFamilyMembers"
    data: FamilyMembersData
