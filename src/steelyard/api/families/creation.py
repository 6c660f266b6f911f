"""Families from their create requests; members are added by an edit."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard.schema.entities import AnyEntity
from steelyard.schema.family import Family
from steelyard.schema.requests import FamilyCreateRequest


async def family(
    context: RequestContext, request: FamilyCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(Family, request, "Ready")]
