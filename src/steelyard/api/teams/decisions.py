"""Decisions of a challenge's organiser about the teams that want to take part."""

import orjson
from starlette.responses import Response

from steelyard.api.entities.loading import load_summary
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import NotFound
from steelyard.api.http.responses import json_response
from steelyard_schema.commands import StatusData, StatusPatch, UpdateEntityStatus


async def approve(context: RequestContext) -> Response:
    """The team, which may submit from now on."""
    return await _decide(context, "Active")


async def deny(context: RequestContext) -> Response:
    """The team, which may not submit."""
    return await _decide(context, "EntryDenied")


async def _decide(context: RequestContext, status: str) -> Response:
    challenge, id = await load_summary(context), context.values["team"]
    json = await context.api.entities.get("Team", id)
    # The organiser's right is one about the challenge: it decides about its own teams, and about no others.
    if json is None or orjson.loads(json)["challenge"] != challenge.id:
        raise NotFound(f"team: the challenge {challenge.id} has no team {id}")
    data = StatusData(id=id, kind="Team", attributes=StatusPatch(status=status, reason=None, message=None))
    command = UpdateEntityStatus(data=data)
    return json_response(await context.api.commands.edit(command, context.command_origin(), context.now))
