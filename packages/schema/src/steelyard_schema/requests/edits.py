"""Edits of what all entities have, and of the members of families."""

from typing import Annotated

from pydantic import Field

from steelyard_schema.bounds import FEW, FreeForm
from steelyard_schema.commands import DocumentationPatch
from steelyard_schema.family import FamilyMemberBase, TagName
from steelyard_schema.labels import Labels
from steelyard_schema.requests.base import Request


class LabelsEditRequest(Request):
    """Merge patch of labels: a null removes a label."""

    labels: Labels = Field(default_factory=dict)
    """Values of labels by key."""


class DocumentationEditRequest(Request):
    """Merge patch of documentation: a null removes a text."""

    documentation: DocumentationPatch
    """Changes of the documentation."""


class CroissantTakeRequest(Request):
    """Takes the description of a dataset from a Croissant file."""

    croissant: FreeForm | None = None
    """The file (JSON-LD); without it, the one that the dataset's data source holds."""


class FamilyMembersEditRequest(Request):
    """Merge patch of a family's members: a null removes a tag."""

    members: Annotated[dict[TagName, FamilyMemberBase | None], FEW]
    """Entities by their tags."""
