"""Teams from their create requests: a team asks to enter the challenge of the path."""

from collections.abc import Sequence

from steelyard.api.challenges.loading import challenge_of_path
from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard_schema.entities import AnyEntity
from steelyard_schema.requests import ChallengeTeamCreateRequest
from steelyard_schema.team import Team


async def team(
    context: RequestContext, request: ChallengeTeamCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    """Return the team, which takes part once the challenge's organiser has approved it."""
    challenge = await challenge_of_path(context)
    return [new.entity(Team, {**request.dump(), "challenge": challenge.id}, "WaitingForApproval")]
