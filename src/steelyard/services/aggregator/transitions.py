"""What becomes of a command. Pure: the aggregator alone calls it, with the entity's newest state record.

A command that the entity has seen already (its place in the log is not behind the state's, or its id is among the
last ones) is passed over. What is rejected or changes nothing leaves the state alone and has an outcome all the same.
Every state record says which command it comes from, the tombstone too: as long as it is there, no older one counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
from pydantic import ValidationError

from steelyard.broker.log import OUTCOMES, STATE, Message, Record
from steelyard.schema.bounds import ENTITY_BYTES, STATUS_BYTES, Unkeepable
from steelyard.schema.commands import Command, ForgetEntity, RestoreEntity, UpdateEntityStatus
from steelyard.schema.entities import entity_of
from steelyard.schema.stored import entity_json
from steelyard.services.aggregator.merge import SAME, Rejected, edited
from steelyard.types import Json

FORGOTTEN = "forgotten"
"""Header of the marker that a forgotten entity leaves, with the time at which it was forgotten."""
MARKER_FOR = timedelta(days=14)
"""As long as commands are kept: none about the entity can come any more."""
RECENT = 16
"""How many command ids a state remembers, so that one that comes twice is known."""
RECENT_ID = 12
"""As much of a command's id is remembered."""


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
    if isinstance(command, ForgetEntity) and state is not None and _forgotten(state):
        return _buried(record, state, here)
    try:
        content = edited(
            command, record.headers, state.content if state else None, forgotten=_forgotten(state)
        )
        if content is SAME:
            return Judgement(None, _outcome(record, "unchanged", None, None, before))
        changed = _state_message(command, record, content, state, here)
    except Rejected as rejection:
        return Judgement(None, _outcome(record, "rejected", rejection.reason, rejection.message, before))
    except ValidationError as error:  # a proper command, but what it asks for is no entity
        return Judgement(None, _outcome(record, "rejected", "Invalid", _faults(error), before))
    return Judgement(changed, _outcome(record, "applied", None, None, here))


def _forgotten(state: State | None) -> bool:
    return state is not None and state.content is None and not state.buried


def _faults(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())


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


def _state_message(
    command: Command, record: Record, content: Json | None, state: State | None, here: Position
) -> Message:
    headers = _headers(record, state, here)
    if content is None:
        kind = state.content["kind"] if state and state.content else ""
        headers |= {FORGOTTEN: record.headers["time"], "kind": kind}
        return Message(STATE, record.key, b"{}", headers, record.partition)
    return Message(STATE, record.key, _text(command, content), headers, record.partition)


def _text(command: Command, content: Json) -> bytes:
    """JSON of an entity, which can always be read again. Raises Rejected, ValidationError.

    A status comes beside what the user made: it has room of its own, and an entity that an older schema took, and this
    one does not, can still fail and be deleted.
    """
    status = isinstance(command, UpdateEntityStatus | RestoreEntity)
    try:
        text = entity_json(content, ENTITY_BYTES + STATUS_BYTES if status else ENTITY_BYTES)
    except Unkeepable as error:
        raise Rejected("TooLarge" if error.too_large else "Invalid", str(error)) from error
    if not isinstance(command, UpdateEntityStatus):
        entity_of(text)
    return text


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
        "epoch": at.epoch,
        "partition": at.partition,
        "offset": at.offset,
    }
    return Message(OUTCOMES, record.key, orjson.dumps(content), {"id": record.headers.get("id", "")})


def _short(record: Record) -> str:
    return record.headers.get("id", "")[:RECENT_ID]
