"""Descriptions of the requests about challenges, their tasks, teams and submissions."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from steelyard.client.call import Call
from steelyard.client.calls import Calls, Fields, Request, key_header, make_body, post, to_json
from steelyard.client.errors import Invalid
from steelyard_schema.answers import ArtifactURL, Status
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask
from steelyard_schema.submission import Submission
from steelyard_schema.team import Team


def _path(*segments: str) -> str:
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)


def _take(body: dict[str, Any], *names: str) -> list[str]:
    """Take the fields out of the body that go into the path. Raises Invalid: an empty segment would be another path."""
    if missing := [name for name in names if not body.get(name)]:
        raise Invalid(422, "Invalid", "; ".join(f"{name}: is missing" for name in missing), missing[0])
    return [str(body.pop(name)) for name in names]


class ChallengeCalls(Calls[Challenge]):
    """Requests of `client.challenges`."""

    def create_task(self, id: str, request: Request, fields: Fields, key: str | None) -> Call[ChallengeTask]:
        # The request names its challenge, too, as the published schema has it.
        body = {"challenge": id, **make_body(request, fields)}
        return post(_path("challenges", id, "tasks"), ChallengeTask, body, key)

    def edit(self, id: str, *below: str, **patch: Any) -> Call[Challenge]:
        """Describe a merge patch of a part of the challenge; a None within the patch removes, an absent one keeps."""
        body = {name: to_json(value) for name, value in patch.items() if value is not None}
        return Call("PATCH", _path("challenges", id, *below), Challenge, json=body, headers=key_header())

    def teams(self, id: str) -> Call[list[Team]]:
        return Call("GET", _path("challenges", id, "teams"), list[Team])

    def decide(self, id: str, team: str, decision: str) -> Call[Team]:
        return post(_path("challenges", id, "teams", team, decision), Team)


class TeamCalls(Calls[Team]):
    """Requests of `client.teams`."""

    def create(self, request: Request, fields: Fields, key: str | None) -> Call[Team]:
        body = make_body(request, fields)
        (challenge,) = _take(body, "challenge")
        return post(_path("challenges", challenge, "teams"), Team, body, key)

    def edit(self, id: str, patch: Mapping[str, Any]) -> Call[Team]:
        return Call("PATCH", self.path_to(id), Team, json=to_json(patch), headers=key_header())


class SubmissionCalls(Calls[Submission]):
    """Requests of `client.submissions`."""

    def create(self, request: Request, fields: Fields, key: str | None) -> Call[Submission]:
        body = make_body(request, fields)
        challenge, task = _take(body, "challenge", "task")
        return post(_path("challenges", challenge, "tasks", task, "submissions"), Submission, body, key)

    def resubmit(self, id: str, fields: Fields, key: str | None) -> Call[Submission]:
        return post(self.path_to(id, "resubmit"), Submission, make_body(None, fields), key)

    def terminate(self, id: str) -> Call[Status]:
        return post(self.path_to(id, "terminate"), Status)

    def files(self, id: str) -> Call[dict[str, list[ArtifactURL]]]:
        return Call("GET", self.path_to(id, "downlinks"), dict[str, list[ArtifactURL]])
