"""The route that only families have."""

from collections.abc import Iterator

from steelyard.api.entities.collection import Collection
from steelyard.api.families.members import edit_members
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route
from steelyard_schema.requests import FamilyMembersEditRequest


def family_routes(collection: Collection) -> Iterator[Route]:
    yield Route(
        "PATCH", f"{collection.path}/{{id}}/members", Grant(collection.resource, "edit"), edit_members,
        "Edit members", FamilyMembersEditRequest,
    )  # fmt: skip
