"""Edits of a team: its name, members and affiliations, as a merge patch."""

from starlette.responses import Response

from steelyard.api.entities.loading import load_summary
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import json_response
from steelyard_schema.commands import EditTeam, TeamData, TeamPatch
from steelyard_schema.requests import TeamEditRequest


async def edit_team(context: RequestContext) -> Response:
    """The team after the edit."""
    request = await context.edit(TeamEditRequest)
    team = await load_summary(context)
    fields = {
        name: getattr(request, name) for name in TeamPatch.model_fields if name in request.model_fields_set
    }
    command = EditTeam(data=TeamData(id=team.id, kind="Team", attributes=TeamPatch(**fields)))
    return json_response(await context.api.commands.edit(command, context.command_origin(), context.now))
