"""Routes that only teams have: a challenge's path creates them, and their members are edited."""

from collections.abc import Iterator

from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route
from steelyard.api.teams.edits import edit_team
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
