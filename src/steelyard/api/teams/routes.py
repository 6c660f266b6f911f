"""Routes that only teams have: a challenge's path creates them, and their members are edited."""

from collections.abc import Iterator

from starlette.responses import Response

from steelyard.api.entities.collection import Collection
from steelyard.api.entities.loading import load_summary
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import json_response
from steelyard.api.http.routing import Route
from steelyard_schema.commands import EditTeam, TeamData, TeamPatch
from steelyard_schema.requests import TeamEditRequest
from steelyard_schema.team import Team


def team_routes(collection: Collection) -> Iterator[Route]:
    resource = collection.resource
    yield Route(
        "POST", "/v0/challenges/{id}/teams", Grant(resource, "create"), collection.create, "Enter with a team",
        collection.request, Team,
    )  # fmt: skip
    yield Route(
        "PATCH",
        f"{collection.path}/{{id}}",
        Grant(resource, "edit"),
        edit_team,
        "Edit",
        TeamEditRequest,
        Team,
    )


async def edit_team(context: RequestContext) -> Response:
    """The team after the edit."""
    request = await context.edit(TeamEditRequest)
    team = await load_summary(context)
    fields = {
        name: getattr(request, name) for name in TeamPatch.model_fields if name in request.model_fields_set
    }
    command = EditTeam(data=TeamData(id=team.id, kind="Team", attributes=TeamPatch(**fields)))
    return json_response(await context.api.commands.edit(command, context.command_origin(), context.now))
