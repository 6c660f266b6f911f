"""The entity's new content that a command makes. Pure.

Statuses change as the transition table allows; labels and documentation are merge patches.
"""

from collections.abc import Iterable, Mapping

from steelyard.services.aggregator.check import (
    Rejected,
    check_editable,
    check_forgettable,
    check_own_resource,
    check_restorable,
    check_same_entity,
    differing_field,
)
from steelyard.services.aggregator.transitions import is_allowed
from steelyard_common.types import Json, mapping
from steelyard_kube.patches import merge_patch
from steelyard_schema.base import DocumentationBase
from steelyard_schema.bounds import MESSAGE_LENGTH, REASON_LENGTH, cut
from steelyard_schema.challenge_task import ChallengeTask
from steelyard_schema.commands import (
    Command,
    CreateChallengeTask,
    CreateChallengeTeam,
    CreateEntity,
    EditChallengeContent,
    EditChallengeTaskRules,
    EditEntityDocumentation,
    EditEntityLabels,
    ForgetEntity,
    PutQuota,
    RestoreEntity,
    UpdateEntityStatus,
    UpdateQuotaUsage,
)
from steelyard_schema.quota import Quota
from steelyard_schema.status import SUCCESS, TERMINAL, Source
from steelyard_schema.stored import with_revision

Headers = Mapping[str, str]
"""Headers of a command: `id` becomes the revision, `time` is when it was given, `source` by which part."""

SAME: Json = {}
"""Stands for a content that a command leaves as it is."""
_QUOTA_LIMIT = ("limit", "duration", "epoch")
_QUOTA_KEPT = ("creationTime", "labels", "usage", "metadata")


def merge(command: Command, headers: Headers, content: Json | None, *, forgotten: bool) -> Json | None:
    """Return the new content; None to forget the entity; `SAME` if nothing changes. Raises Rejected.

    `content` is None for an unknown entity or, with `forgotten`, a forgotten one. ValidationError is raised if the
    result would be no entity.
    """
    match command:
        case CreateChallengeTeam() | UpdateQuotaUsage():
            raise Rejected("NotImplemented", f"{command.command} is not implemented")
        case CreateEntity() | PutQuota():
            return _create(command, headers, content, forgotten)
    if content is None:
        raise Rejected("NotFound", f"there is no entity {command.data.id}")
    check_same_entity(command.data.kind, headers, content)
    match command:
        case ForgetEntity():
            check_forgettable(command, content)
            return None
        case RestoreEntity():
            check_restorable(command, content)
            return with_revision(command.data.attributes.entity.dump(), headers["id"])
        case UpdateEntityStatus():
            check_own_resource(headers, content)
            return _update_status(command, headers, content)
        case EditEntityLabels():
            check_editable(content)
            labels = mapping(content, "labels")
            after = merge_patch(labels, dict(command.data.attributes.labels))
            return SAME if after == labels else with_revision({**content, "labels": after}, headers["id"])
        case EditEntityDocumentation():
            return _edit_documentation(command, headers, content)
        case CreateChallengeTask():
            check_editable(content)
            return _edit(content, with_task(content, command.data.attributes.task), headers)
        case EditChallengeContent() | EditChallengeTaskRules():
            check_tasks(content, command.data.attributes.tasks or {})
    check_editable(content)
    return _edit(content, merge_patch(content, command.data.attributes.dump()), headers)


def restore_forgotten(command: RestoreEntity, headers: Headers) -> Json:
    """Return the content of an entity that was forgotten, as an administrator brings it back from the backup.

    The condition `ifRevisionUndefined` says that this is meant: the restore of a deleted entity comes too late when it
    is forgotten already. Raises Rejected.
    """
    attributes = command.data.attributes
    if not attributes.ifRevisionUndefined or attributes.ifRevisionMatch is not None:
        raise Rejected("NotFound", f"there is no entity {command.data.id}")
    entity = attributes.entity
    if (entity.id, entity.kind) != (command.data.id, command.data.kind):
        raise Rejected("Conflict", f"entity.id: is {entity.kind} {entity.id}, not {command.data.id}")
    # Anything that runs, or Deleted itself, would start its work again, or be forgotten again.
    if entity.status == "Deleted" or entity.status not in TERMINAL:
        raise Rejected(
            "Invalid", f"entity.status: is {entity.status}; a forgotten entity is restored as ended"
        )
    return with_revision(entity.dump(), headers["id"])


def _create(
    command: CreateEntity | PutQuota, headers: Headers, content: Json | None, forgotten: bool
) -> Json:
    if isinstance(command, PutQuota):
        quota = put_quota(command.data, headers, content)
        return SAME if quota is content else quota
    entity = command.data
    # A create that comes late, or again, must not bring a forgotten entity back (rule 8).
    if forgotten:
        raise Rejected("Forgotten", f"{entity.id} was forgotten, and stays so")
    if content is None:
        return with_revision(entity.dump(), headers["id"])
    # Equal content is the same create once more; other content with the same id is a mistake of its sender.
    if differing := differing_field(entity, content):
        raise Rejected("Conflict", f"{differing}: there is another entity {entity.id}")
    return SAME


def _update_status(command: UpdateEntityStatus, headers: Headers, content: Json) -> Json:
    patch = command.data.attributes.dump()
    before, after = str(content["status"]), str(patch["status"])
    source: Source = headers.get("source", "")  # type: ignore[assignment]  # the table allows any other source nothing
    for name, length in (("reason", REASON_LENGTH), ("message", MESSAGE_LENGTH)):
        if name in patch:
            patch[name] = cut(patch[name], length)
    if after in SUCCESS:  # success needs no explanation, and an old one would mislead
        patch |= {"reason": None, "message": None}
    new = merge_patch(content, patch)
    # A status that is said again is no error, even where the table would not allow the change to it any more.
    if all(new.get(name) == content.get(name) for name in ("status", "reason", "message")):
        return SAME
    if not is_allowed(str(content["kind"]), source, before, after):
        raise Rejected("Conflict", f"status: {headers.get('source')} may not turn {before} into {after}")
    # A new reason or message is no transition: the time is that of the status.
    if before != after:
        new["lastTransitionTime"] = headers["time"]
    return with_revision(new, headers["id"])


def _edit_documentation(command: EditEntityDocumentation, headers: Headers, content: Json) -> Json:
    check_editable(content)
    metadata = dict(mapping(content, "metadata"))
    before = dict(mapping(metadata, "documentation"))
    after = merge_patch(before, command.data.attributes.documentation.dump())
    if after == before:
        return SAME
    # The patch is within its bounds, but the merged result may not be.
    DocumentationBase.parse(after)
    return with_revision({**content, "metadata": {**metadata, "documentation": after}}, headers["id"])


def _edit(before: Json, after: Json, headers: Headers) -> Json:
    return SAME if after == before else with_revision(after, headers["id"])


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


def put_quota(quota: Quota, headers: Mapping[str, str], content: Json | None) -> Json:
    """Return the quota's new content; the content itself if nothing changes. Raises Rejected for another revision.

    A quota's id follows from what it limits, so that a forgotten one may be set again: it is not the old one that a
    late command would bring back. The command's time becomes `lastTransitionTime`: entities that were created before
    it are not measured by the new limit.
    """
    new = {**quota.dump(), "lastTransitionTime": headers["time"]}
    if content is None:
        return with_revision(new, headers["id"])
    check_same_entity("Quota", headers, content)
    if content["status"] == new["status"] and all(
        content.get(name) == new.get(name) for name in _QUOTA_LIMIT
    ):
        return content
    kept = {name: value for name, value in content.items() if name in _QUOTA_KEPT}
    return with_revision(new | kept, headers["id"])
