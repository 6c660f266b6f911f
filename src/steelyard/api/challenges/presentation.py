"""Challenges as callers see them: without the tasks that its rules show only to other roles."""

from collections.abc import Sequence

import orjson

from steelyard.api.challenges.roles import Role, organises, own_challenges, sees
from steelyard.api.http.context import RequestContext
from steelyard_common.types import Json, mapping


async def present_challenges(context: RequestContext, challenges: Sequence[bytes]) -> Sequence[bytes]:
    """Return the JSON of challenges with the tasks that the caller may see."""
    contents: list[Json] = [orjson.loads(json) for json in challenges]
    if not any(
        _view(task) != "public" for content in contents for task in mapping(content, "tasks").values()
    ):
        return challenges
    own = await own_challenges(context)
    return [_present(context, json, content, own) for json, content in zip(challenges, contents, strict=True)]


def _present(context: RequestContext, json: bytes, content: Json, own: frozenset[str]) -> bytes:
    account, id = str(content["account"]), str(content["id"])
    if organises(context, account, id):
        return json
    reviewer = context.access.allows("challenges", "data", account, id)
    other: Role = "submitter" if id in own else "public"
    role: Role = "reviewer" if reviewer else other
    tasks = {key: task for key, task in mapping(content, "tasks").items() if sees(role, _view(task))}
    return orjson.dumps({**content, "tasks": tasks})


def _view(task: Json) -> str:
    return str(mapping(mapping(task, "rules"), "visibility").get("view", "public"))
