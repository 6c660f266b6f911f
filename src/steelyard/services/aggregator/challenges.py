"""Tasks within a challenge's content. Pure."""

from collections.abc import Iterable

from steelyard.services.aggregator.check import Rejected
from steelyard_common.types import Json, mapping
from steelyard_schema.challenge_task import ChallengeTask


def with_task(content: Json, task: ChallengeTask) -> Json:
    """Return the challenge with a new task. Raises Rejected for an id or a name that another task has."""
    tasks, new = mapping(content, "tasks"), task.dump()
    if tasks.get(task.id) == new:
        return content
    if task.challenge != content["id"]:
        raise Rejected("Conflict", f"task.challenge: is {task.challenge}, not {content['id']}")
    if task.id in tasks:
        raise Rejected("Conflict", f"task.id: there is another task {task.id}")
    if any(other["name"] == task.name for other in tasks.values()):
        raise Rejected("Conflict", f"task.name: the challenge has a task {task.name!r} already")
    return {**content, "tasks": {**tasks, task.id: new}}


def check_tasks(content: Json, ids: Iterable[str]) -> None:
    """Raise Rejected for an id of a task that the challenge does not have."""
    tasks = mapping(content, "tasks")
    for id in ids:
        if id not in tasks:
            raise Rejected("NotFound", f"tasks: the challenge has no task {id}")
