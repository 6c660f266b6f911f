"""Challenges from their create requests; tasks and teams are added next."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard_schema.challenge import Challenge
from steelyard_schema.entities import AnyEntity
from steelyard_schema.requests import ChallengeCreateRequest


async def challenge(
    context: RequestContext, request: ChallengeCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(Challenge, request, "Ready")]
