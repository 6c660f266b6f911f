"""Families from their create requests; members are added by an edit."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard_schema.entities import AnyEntity
from steelyard_schema.family import Family
from steelyard_schema.requests import FamilyCreateRequest


async def family(
    context: RequestContext, request: FamilyCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(Family, request, "Ready")]
