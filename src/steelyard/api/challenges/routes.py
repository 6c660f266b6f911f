"""Routes that only challenges have: their content, rules, tasks and teams."""

from collections.abc import Iterator

from steelyard.api.challenges.edits import edit_content, edit_rules, edit_task_content, edit_task_rules
from steelyard.api.challenges.tasks import create_task
from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route
from steelyard.api.teams.decisions import approve, deny
from steelyard.api.teams.listing import teams
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask
from steelyard_schema.requests import (
    ChallengeContentEditRequest,
    ChallengeRulesEditRequest,
    ChallengeTaskCreateRequest,
    ChallengeTaskRulesEditRequest,
)
from steelyard_schema.team import Team


def challenge_routes(collection: Collection) -> Iterator[Route]:
    """Yield the edits of a challenge and its tasks, and what its organiser does about teams."""
    one = f"{collection.path}/{{id}}"
    task = f"{one}/tasks/{{task}}"
    edit, get = Grant(collection.resource, "edit"), Grant(collection.resource, "get")
    content, rules = ChallengeContentEditRequest, ChallengeRulesEditRequest
    yield Route("PATCH", f"{one}/content", edit, edit_content, "Edit content", content, Challenge)
    yield Route("PATCH", f"{one}/rules", edit, edit_rules, "Edit rules", rules, Challenge)
    yield Route(
        "POST", f"{one}/tasks", edit, create_task, "Create a task", ChallengeTaskCreateRequest, ChallengeTask
    )
    yield Route(
        "PATCH", f"{task}/content", edit, edit_task_content, "Edit a task's content", content, Challenge
    )
    yield Route(
        "PATCH", f"{task}/rules", edit, edit_task_rules, "Edit a task's rules", ChallengeTaskRulesEditRequest,
        Challenge,
    )  # fmt: skip
    yield Route("GET", f"{one}/teams", get, teams, "Its teams", None, list[Team])
    team = f"{one}/teams/{{team}}"
    yield Route("POST", f"{team}/approve", edit, approve, "Approve a team", None, Team)
    yield Route("POST", f"{team}/deny", edit, deny, "Deny a team's entry", None, Team)
