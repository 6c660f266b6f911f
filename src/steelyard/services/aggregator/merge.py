"""What a command makes of an entity's content. Pure: `judge.py` calls it for each command that counts.

Statuses change as the one table of `schema/status.py` says; labels and documentation are merge patches. What cannot
be is `Rejected`, with a word for programs and a sentence for people.
"""

from collections.abc import Mapping
from typing import Any

from steelyard.schema.base import DocumentationBase, DyffEntity
from steelyard.schema.bounds import MESSAGE_LENGTH, REASON_LENGTH, cut
from steelyard.schema.commands import (
    Command,
    CreateEntity,
    EditEntityDocumentation,
    EditEntityLabels,
    ForgetEntity,
    RestoreEntity,
    UnknownCommand,
    UpdateEntityStatus,
)
from steelyard.schema.entities import AnyEntity, entity_of
from steelyard.schema.status import SUCCESS, Source, allows, statuses
from steelyard.schema.stored import with_revision
from steelyard.types import Json

Headers = Mapping[str, str]
"""Of the command: `id` is the revision that it makes, `time` when it was given, `source` by whom."""

SAME: Json = {}
"""Stands for a content that a command leaves as it is."""
_CHANGING = frozenset({"status", "reason", "message", "lastTransitionTime", "labels", "metadata"})
"""Fields that may change in a life; all others make the entity what it is."""


class Rejected(Exception):
    """The command does not apply; the entity stays as it is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def edited(command: Command, headers: Headers, content: Json | None, *, forgotten: bool) -> Json | None:
    """The new content; None to forget the entity; `SAME` when nothing changes. Raises Rejected.

    `content` is None for an entity that is unknown or, with `forgotten`, was forgotten. May raise ValidationError,
    when what is asked for would be no entity.
    """
    match command:
        case UnknownCommand():
            raise Rejected("NotImplemented", f"{command.command} is not implemented")
        case CreateEntity():
            return _created(command.data, headers, content, forgotten)
    if content is None:
        raise Rejected("NotFound", f"there is no entity {command.data.id}")
    _check_match(headers, content)
    if command.data.kind != content["kind"]:
        raise Rejected("Conflict", f"kind: is {content['kind']}, not {command.data.kind}")
    match command:
        case ForgetEntity():
            _check_forgettable(command, content)
            return None
        case RestoreEntity():
            return _restored(command, headers, content)
        case UpdateEntityStatus():
            return _with_status(command, headers, content)
        case EditEntityLabels():
            return _with_labels(command, headers, content)
        case EditEntityDocumentation():
            return _with_documentation(command, headers, content)


def _check_match(headers: Headers, content: Json) -> None:
    wanted = headers.get("if-match", "").strip('"')
    revision = _revision(content)
    if wanted and wanted not in ("*", revision):
        raise Rejected("Conflict", f"If-Match: the revision is {revision}, not {wanted}")


def _revision(content: Json) -> str | None:
    revision: str | None = (content.get("metadata") or {}).get("revision")
    return revision


def _created(entity: AnyEntity, headers: Headers, content: Json | None, forgotten: bool) -> Json:
    if forgotten:
        raise Rejected("Forgotten", f"{entity.id} was forgotten, and stays so")
    if content is None:
        return _stamped(entity.dump(), headers)
    if differing := _differing(entity, content):
        raise Rejected("Conflict", f"{differing}: there is another entity {entity.id}")
    return SAME


def _differing(entity: DyffEntity, content: Json) -> str | None:
    """A field that never changes, and in which the entity is not the one of this content."""
    new, old = (
        entity.dump(),
        entity_of(content).dump(),
    )  # read again: an older program may have left out defaults
    fixed = sorted((new.keys() | old.keys()) - _CHANGING)
    return next((name for name in fixed if new.get(name) != old.get(name)), None)


def _restored(command: RestoreEntity, headers: Headers, content: Json) -> Json:
    wanted, revision = command.data.attributes.ifRevisionMatch, _revision(content)
    if wanted is not None and wanted != revision:
        raise Rejected("Conflict", f"ifRevisionMatch: the revision is {revision}, not {wanted}")
    if command.data.attributes.ifRevisionUndefined and revision is not None:
        raise Rejected("Conflict", f"ifRevisionUndefined: the revision is {revision}")
    if content["status"] != "Deleted":
        raise Rejected("Conflict", f"status: is {content['status']}; only what is Deleted is restored")
    entity = command.data.attributes.entity
    if differing := _differing(entity, content):
        raise Rejected("Conflict", f"entity.{differing}: is that of another entity")
    living = [each for each in statuses(content["kind"]) if each != "Deleted"]
    if entity.status not in living:
        raise Rejected("Invalid", f"entity.status: is {entity.status}; should be one of {', '.join(living)}")
    return _stamped(entity.dump(), headers)


def _check_forgettable(command: ForgetEntity, content: Json) -> None:
    """Raises Rejected for what has changed since the command was given, or is not Deleted."""
    wanted, revision = command.data.expectedStatus, command.data.expectedRevision
    if wanted is not None and wanted != content["status"]:
        raise Rejected("Conflict", f"expectedStatus: the status is {content['status']}, not {wanted}")
    if revision is not None and revision != _revision(content):
        raise Rejected("Conflict", f"expectedRevision: the revision is {_revision(content)}, not {revision}")
    if content["status"] != "Deleted":
        raise Rejected("Conflict", f"status: is {content['status']}; only what is Deleted is forgotten")


def _with_status(command: UpdateEntityStatus, headers: Headers, content: Json) -> Json:
    patch = command.data.attributes.dump()
    before, after = str(content["status"]), str(patch["status"])
    source: Source = headers.get("source", "")  # type: ignore[assignment]  # any other is allowed nothing
    cleared = {"reason": None, "message": None} if after in SUCCESS else {}
    for name, length in (("reason", REASON_LENGTH), ("message", MESSAGE_LENGTH)):
        if name in patch:
            patch[name] = cut(patch[name], length)
    new = _merged(content, patch | cleared)
    if all(new.get(name) == content.get(name) for name in ("status", "reason", "message")):
        return SAME
    if not _allowed(str(content["kind"]), source, before, after):
        raise Rejected("Conflict", f"status: {headers.get('source')} may not turn {before} into {after}")
    if before != after:
        new["lastTransitionTime"] = headers["time"]
    return _stamped(new, headers)


def _allowed(kind: str, source: Source, before: str, after: str) -> bool:
    try:
        return allows(kind, source, before, after)
    except KeyError:
        return False


def _with_labels(command: EditEntityLabels, headers: Headers, content: Json) -> Json:
    _check_editable(content)
    before = content.get("labels") or {}
    after = _merged(before, dict(command.data.attributes.labels))
    return SAME if after == before else _stamped({**content, "labels": after}, headers)


def _with_documentation(command: EditEntityDocumentation, headers: Headers, content: Json) -> Json:
    _check_editable(content)
    metadata = dict(content.get("metadata") or {})
    before = dict(metadata.get("documentation") or {})
    after = _merged(before, command.data.attributes.documentation.dump())
    if after == before:
        return SAME
    DocumentationBase.parse(after)
    return _stamped({**content, "metadata": {**metadata, "documentation": after}}, headers)


def _check_editable(content: Json) -> None:
    if content["status"] == "Deleted":
        raise Rejected("Conflict", f"{content['id']} is Deleted, and is not edited")


def _merged(content: Json, patch: Mapping[str, Any]) -> Json:
    """A merge patch of one level (RFC 7396)."""
    merged = {**content, **patch}
    return {name: value for name, value in merged.items() if value is not None}


def _stamped(content: Json, headers: Headers) -> Json:
    """With the revision that this command makes."""
    return with_revision(content, headers["id"])
