"""Use cases and hazards from their create requests. Labels attach them to other entities."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard_schema.concern import Hazard, UseCase
from steelyard_schema.entities import AnyEntity
from steelyard_schema.requests import ConcernCreateRequest


async def use_case(
    context: RequestContext, request: ConcernCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(UseCase, request, "Ready")]


async def hazard(
    context: RequestContext, request: ConcernCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(Hazard, request, "Ready")]
