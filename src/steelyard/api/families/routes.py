"""The route that only families have."""

from collections.abc import Iterator

import orjson
from starlette.responses import Response

from steelyard.api.entities.collection import Collection
from steelyard.api.entities.loading import load
from steelyard.api.entities.references import resolve
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.http.responses import value_response
from steelyard.api.http.routing import Route
from steelyard_schema.commands import (
    EditFamilyMembers,
    FamilyMemberPatch,
    FamilyMembersData,
    FamilyMembersPatch,
)
from steelyard_schema.entities import ENTITIES
from steelyard_schema.family import Family, FamilyMemberBase
from steelyard_schema.requests import FamilyMembersEditRequest


def family_routes(collection: Collection) -> Iterator[Route]:
    yield Route(
        "PATCH", f"{collection.path}/{{id}}/members", Grant(collection.resource, "edit"), edit_members,
        "Edit members", FamilyMembersEditRequest,
    )  # fmt: skip


async def edit_members(context: RequestContext) -> Response:
    """All members after the edit."""
    request = await context.edit(FamilyMembersEditRequest)
    family = await load(context)
    assert isinstance(family, Family)
    members = {
        tag: None if member is None else await _member(context, family, tag, member)
        for tag, member in request.members.items()
    }
    patch = FamilyMembersPatch(members=members)
    command = EditFamilyMembers(data=FamilyMembersData(id=family.id, kind="Family", attributes=patch))
    json = await context.api.commands.edit(command, context.command_origin(), context.now)
    return value_response({"members": orjson.loads(json).get("members", {})})


async def _member(
    context: RequestContext, family: Family, tag: str, member: FamilyMemberBase
) -> FamilyMemberPatch:
    kind, field = member.entity.kind, f"members.{tag}.entity"
    if kind != family.memberKind:
        raise Invalid(
            f"{field}.kind: is {kind}; members of this family are of the kind {family.memberKind}",
            field=f"{field}.kind",
        )
    entity = await resolve(context, ENTITIES[kind], member.entity.id, field)
    # A tag that is given to another entity does not keep the description of the one before.
    return FamilyMemberPatch(
        entity=member.entity.model_copy(update={"id": entity.id}),
        description=member.description,
        name=tag,
        family=family.id,
        creationTime=context.now,
    )
