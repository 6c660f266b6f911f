"""What a command does to an entity. Pure: the aggregator alone calls it, with the entity's newest state record.

A command that the entity has seen already (its place in the log is not behind the state's, or its id is among the
last ones) is passed over. What is rejected or changes nothing leaves the state alone and has an outcome all the same.
Every state record says which command it comes from, the tombstone too: as long as it is there, no older one counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from pydantic import ValidationError

from steelyard.broker.log import OUTCOMES, STATE, Message, Record
from steelyard.schema.base import DocumentationBase, DyffEntity
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
from steelyard.schema.status import SUCCESS, Source, allows

FORGOTTEN = "forgotten"
"""Header of the marker that a forgotten entity leaves, with the time at which it was forgotten."""
MARKER_FOR = timedelta(days=14)
"""As long as commands are kept: none about the entity can come any more."""
RECENT = 16
"""How many command ids a state remembers, so that one that comes twice is known."""
LIMIT_BYTES = 512 * 1024
Json = dict[str, Any]


@dataclass(frozen=True)
class Position:
    """Where a command lies."""

    epoch: int
    partition: int
    offset: int


@dataclass(frozen=True)
class State:
    """An entity's newest state record. `content` of None: it was forgotten; `buried`: so long ago that nobody minds."""

    content: Json | None
    headers: Mapping[str, str]
    buried: bool = False

    @property
    def position(self) -> Position:
        return Position(*(int(self.headers[name]) for name in ("epoch", "partition", "offset")))

    @property
    def recent(self) -> tuple[str, ...]:
        return tuple(filter(None, self.headers.get("recent", "").split(",")))


class Rejected(Exception):
    """The command does not apply; the entity stays as it is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True)
class Judgement:
    """What is written. `changed`: the new state record, or a tombstone; `outcome`: for whoever waits."""

    changed: Message | None
    outcome: Message


def state_of(record: Record | None) -> State | None:
    """The state that a record holds; None for an unknown entity."""
    if record is None or "offset" not in record.headers:
        return None
    if record.value is None or FORGOTTEN in record.headers:
        return State(None, record.headers, buried=record.value is None)
    return State(orjson.loads(record.value), record.headers)


def seen(state: State | None, record: Record, epoch: int) -> bool:
    """Whether the entity's state is that of this command or a later one."""
    if state is None:
        return False
    at = state.position
    return (at.epoch, at.partition) == (epoch, record.partition) and record.offset <= at.offset


def judge(command: Command, record: Record, state: State | None, epoch: int) -> Judgement | None:
    """What the command in `record` does; None for one that the entity has seen."""
    if seen(state, record, epoch):
        return None
    here = Position(epoch, record.partition, record.offset)
    if state is not None and _short(record) in state.recent:
        return Judgement(
            None, _outcome(record, "unchanged", "Repeated", "was applied before", state.position)
        )
    before = state.position if state else here
    if isinstance(command, ForgetEntity) and state is not None and state.content is None and not state.buried:
        return _buried(record, state, here)
    try:
        content = _applied(command, record, None if state is None or state.buried else state)
        if content is _SAME:
            return Judgement(None, _outcome(record, "unchanged", None, None, before))
        changed = _state_message(record, content, state, here)
    except Rejected as rejection:
        return Judgement(None, _outcome(record, "rejected", rejection.reason, rejection.message, before))
    except ValidationError as error:  # a proper command, but what it asks for is no entity
        return Judgement(None, _outcome(record, "rejected", "Invalid", _faults(error), before))
    return Judgement(changed, _outcome(record, "applied", None, None, here))


def _buried(record: Record, state: State, here: Position) -> Judgement:
    """The marker of a forgotten entity has outlived every command about it: a tombstone ends its key."""
    age = datetime.fromisoformat(record.headers["time"]) - datetime.fromisoformat(state.headers[FORGOTTEN])
    if record.headers.get("source") != "reaper" or age < MARKER_FOR:
        return Judgement(None, _outcome(record, "unchanged", None, "was forgotten before", state.position))
    headers = _headers(record, state, here) | {
        FORGOTTEN: state.headers[FORGOTTEN],
        "kind": state.headers["kind"],
    }
    return Judgement(
        Message(STATE, record.key, None, headers, record.partition),
        _outcome(record, "applied", None, None, here),
    )


_SAME: Json = {}
"""Stands for a state that a command leaves as it is."""
_BORN = ("id", "kind", "account", "creationTime")
"""What never changes about an entity."""


def _faults(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())


def _applied(command: Command, record: Record, state: State | None) -> Json | None:
    """The entity's new content; None to forget it; `_SAME` when nothing changes. Raises Rejected."""
    match command:
        case UnknownCommand():
            raise Rejected("NotImplemented", f"{command.command} is not implemented")
        case CreateEntity():
            return _created(command.data, record, state)
    if state is None or state.content is None:
        raise Rejected("NotFound", f"there is no entity {command.data.id}")
    _check_match(record, state.content)
    if command.data.kind != state.content["kind"]:
        raise Rejected("Conflict", f"kind: is {state.content['kind']}, not {command.data.kind}")
    match command:
        case ForgetEntity():
            _check_forgettable(command, state.content)
            return None
        case RestoreEntity():
            return _restored(command, record, state.content)
        case UpdateEntityStatus():
            return _with_status(command, record, state.content)
        case EditEntityLabels():
            return _with_labels(command, record, state.content)
        case EditEntityDocumentation():
            return _with_documentation(command, record, state.content)


def _check_match(record: Record, content: Json) -> None:
    wanted = record.headers.get("if-match", "").strip('"')
    revision = (content.get("metadata") or {}).get("revision")
    if wanted and wanted not in ("*", revision):
        raise Rejected("Conflict", f"If-Match: the revision is {revision}, not {wanted}")


def _created(entity: AnyEntity, record: Record, state: State | None) -> Json:
    content = _content(entity, record)
    if state is None:
        return content
    if state.content is None:
        raise Rejected("Forgotten", f"{entity.id} was forgotten, and stays so")
    if all(state.content.get(name) == content.get(name) for name in _BORN):
        return _SAME
    raise Rejected("Conflict", f"id: there is another entity {entity.id}")


def _restored(command: RestoreEntity, record: Record, content: Json) -> Json:
    wanted = command.data.attributes.ifRevisionMatch
    revision = (content.get("metadata") or {}).get("revision")
    if wanted is not None and wanted != revision:
        raise Rejected("Conflict", f"ifRevisionMatch: the revision is {revision}, not {wanted}")
    if command.data.attributes.ifRevisionUndefined and revision is not None:
        raise Rejected("Conflict", f"ifRevisionUndefined: the revision is {revision}")
    if content["status"] != "Deleted":
        raise Rejected("Conflict", f"status: is {content['status']}; only what is Deleted is restored")
    restored = _content(command.data.attributes.entity, record)
    if any(restored.get(name) != content.get(name) for name in _BORN):
        raise Rejected("Conflict", "entity: is another one")
    return restored


def _check_forgettable(command: ForgetEntity, content: Json) -> None:
    """Raises Rejected for what has changed since the command was given, or is not Deleted."""
    wanted, revision = command.data.expectedStatus, command.data.expectedRevision
    if wanted is not None and wanted != content["status"]:
        raise Rejected("Conflict", f"expectedStatus: the status is {content['status']}, not {wanted}")
    found = (content.get("metadata") or {}).get("revision")
    if revision is not None and revision != found:
        raise Rejected("Conflict", f"expectedRevision: the revision is {found}, not {revision}")
    if content["status"] != "Deleted":
        raise Rejected("Conflict", f"status: is {content['status']}; only what is Deleted is forgotten")


def _with_status(command: UpdateEntityStatus, record: Record, content: Json) -> Json:
    patch = command.data.attributes.dump()
    before, after = str(content["status"]), str(patch["status"])
    source: Source = record.headers.get("source", "")  # type: ignore[assignment]  # any other is allowed nothing
    cleared = {"reason": None, "message": None} if after in SUCCESS else {}
    new = _merged(content, cleared | patch)
    if all(new.get(name) == content.get(name) for name in ("status", "reason", "message")):
        return _SAME
    if not _allowed(str(content["kind"]), source, before, after):
        raise Rejected(
            "Conflict", f"status: {record.headers.get('source')} may not turn {before} into {after}"
        )
    if before != after:
        new["lastTransitionTime"] = record.headers["time"]
    return _stamped(new, record)


def _allowed(kind: str, source: Source, before: str, after: str) -> bool:
    try:
        return allows(kind, source, before, after)
    except KeyError:
        return False


def _with_labels(command: EditEntityLabels, record: Record, content: Json) -> Json:
    _check_editable(content)
    labels = _merged(content.get("labels") or {}, dict(command.data.attributes.labels))
    if labels == (content.get("labels") or {}):
        return _SAME
    return _stamped({**content, "labels": labels}, record)


def _with_documentation(command: EditEntityDocumentation, record: Record, content: Json) -> Json:
    _check_editable(content)
    metadata = dict(content.get("metadata") or {})
    before = dict(metadata.get("documentation") or {})
    after = _merged(before, command.data.attributes.documentation.dump())
    if after == before:
        return _SAME
    DocumentationBase.parse(after)
    return _stamped({**content, "metadata": {**metadata, "documentation": after}}, record)


def _check_editable(content: Json) -> None:
    if content["status"] == "Deleted":
        raise Rejected("Conflict", f"{content['id']} is Deleted, and is not edited")


def _merged(content: Json, patch: Mapping[str, Any]) -> Json:
    """A merge patch of one level (RFC 7396)."""
    merged = {**content, **patch}
    return {name: value for name, value in merged.items() if value is not None}


def _content(entity: DyffEntity, record: Record) -> Json:
    return _stamped(entity.dump(), record)


def _stamped(content: Json, record: Record) -> Json:
    """With the revision that this command makes."""
    metadata = {**(content.get("metadata") or {}), "revision": record.headers["id"]}
    return {**content, "metadata": metadata}


def _state_message(record: Record, content: Json | None, state: State | None, here: Position) -> Message:
    headers = _headers(record, state, here)
    if content is None:
        kind = state.content["kind"] if state and state.content else ""
        headers |= {FORGOTTEN: record.headers["time"], "kind": kind}
        return Message(STATE, record.key, b"{}", headers, record.partition)
    text = orjson.dumps(content)
    if len(text) > LIMIT_BYTES:
        raise Rejected(
            "TooLarge", f"the entity would have {len(text)} bytes; at most {LIMIT_BYTES} are allowed"
        )
    entity_of(text)  # what is written can always be read
    return Message(STATE, record.key, text, headers, record.partition)


def _headers(record: Record, state: State | None, here: Position) -> dict[str, str]:
    """The command's, with its place and the ids of the last ones."""
    recent = [*(state.recent if state else ()), _short(record)][-RECENT:]
    return {
        **record.headers,
        "epoch": str(here.epoch),
        "partition": str(here.partition),
        "offset": str(here.offset),
        "recent": ",".join(recent),
    }


def _outcome(record: Record, outcome: str, reason: str | None, message: str | None, at: Position) -> Message:
    content = {
        "command": record.headers.get("id"),
        "outcome": outcome,
        "reason": reason,
        "message": message,
        "partition": at.partition,
        "offset": at.offset,
    }
    return Message(OUTCOMES, record.key, orjson.dumps(content), {"id": record.headers.get("id", "")})


def _short(record: Record) -> str:
    return record.headers.get("id", "")[:12]
