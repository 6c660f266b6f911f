"""Loads the challenge of a path for a caller who takes part in it, and tasks of challenges."""

import orjson

from steelyard.api.entities.loading import parse
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, NotFound
from steelyard_schema.account import APIFunction
from steelyard_schema.challenge import Challenge
from steelyard_schema.challenge_task import ChallengeTask

_SEEING: tuple[APIFunction, ...] = ("get", "consume")


async def challenge_of_path(context: RequestContext) -> Challenge:
    """Return the challenge of the path, if the caller may see it.

    A caller who may see a challenge may enter it and submit to it, without a grant to change it. Raises NotFound, and
    Conflict for a challenge that is Deleted.
    """
    json = await context.api.entities.get("Challenge", context.id)
    account = "" if json is None else str(orjson.loads(json)["account"])
    visible = any(context.access.allows("challenges", function, account, context.id) for function in _SEEING)
    if json is None or not visible:
        raise NotFound(f"challenge: there is no Challenge {context.id}")
    challenge = parse("Challenge", json)
    assert isinstance(challenge, Challenge)
    if challenge.status == "Deleted":
        raise Conflict(f"status: Challenge {challenge.id} is Deleted: nobody takes part in it any more")
    return challenge


def find_task(challenge: Challenge, id: str) -> ChallengeTask:
    """Return a task of the challenge. Raises NotFound."""
    if id not in challenge.tasks:
        raise NotFound(f"task: the challenge {challenge.id} has no task {id}")
    return challenge.tasks[id]
