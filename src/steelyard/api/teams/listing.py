"""The teams of a challenge, as far as its rules and the caller's grants show them."""

import orjson
from starlette.responses import Response

from steelyard.api.challenges.roles import Role, most_visible, organises, own_challenges, sees
from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import json_response
from steelyard.views.view import Query
from steelyard_schema.challenge import Challenge


async def teams(context: RequestContext) -> Response:
    """The teams that are not deleted, the oldest first."""
    challenge = await load(context)
    assert isinstance(challenge, Challenge)
    statuses = ("WaitingForApproval", "Active", "EntryDenied")
    query = Query("Team", {"challenge": (challenge.id,), "status": statuses})
    listed = await context.api.entities.query(query)
    organiser = organises(context, challenge.account, challenge.id)
    participant = bool(await own_challenges(context, challenge.id))
    visible = [json for json in listed if organiser or _is_visible(context, challenge, json, participant)]
    return json_response(b"[%s]" % b",".join(visible))


def _is_visible(context: RequestContext, challenge: Challenge, json: bytes, participant: bool) -> bool:
    team = orjson.loads(json)
    account, id = str(team["account"]), str(team["id"])
    if context.access.allows("teams", "get", account, id):
        return True
    own: Role = "submitter" if participant else "public"
    role: Role = "reviewer" if context.access.allows("teams", "data", account, id) else own
    rules = challenge.rules.visibility.teams
    return sees(role, most_visible((rules.get(id), rules.get("*")), "reviewer"))
