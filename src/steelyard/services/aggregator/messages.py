"""State records and outcomes: what the aggregator writes, and how a state record is read again.

A state record names the command that it comes from, and the last ones before it. So does the tombstone: as long as it
is there, no older command counts. Reaper, sinks and orchestrator read state records by `read_state`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import orjson

from steelyard.broker.log import OUTCOMES, STATE, Message, Record
from steelyard_common.types import Json

FORGOTTEN = "forgotten"
"""Header of the marker that a forgotten entity leaves: the time at which it was forgotten."""
DELETED_FROM = "deleted-from"
"""Header of a state that is Deleted, and of its marker: the status before, to which a restore returns."""
RECENT = 16
"""Number of command ids that a state remembers, to recognise a command that the log holds twice."""
RECENT_ID = 12
"""Number of characters of a command's id that are remembered."""

Outcome = Literal["applied", "rejected", "unchanged"]


@dataclass(frozen=True)
class Position:
    """Position of a command in the log."""

    epoch: int
    partition: int
    offset: int


@dataclass(frozen=True)
class State:
    """An entity's newest state record.

    `content` is None for a forgotten entity. `buried` says that its tombstone is written, too: no command about it can
    be left.
    """

    content: Json | None
    headers: Mapping[str, str]
    buried: bool = False

    @property
    def position(self) -> Position:
        """Position of the last command that the entity has seen."""
        return Position(*(int(self.headers[name]) for name in ("epoch", "partition", "offset")))

    @property
    def recent(self) -> tuple[str, ...]:
        """Shortened ids of the last commands."""
        return tuple(filter(None, self.headers.get("recent", "").split(",")))


def read_state(record: Record | None) -> State | None:
    """Return the state that a record holds; None for an unknown entity."""
    if record is None or "offset" not in record.headers:
        return None
    if record.value is None or FORGOTTEN in record.headers:
        return State(None, record.headers, buried=record.value is None)
    return State(orjson.loads(record.value), record.headers)


def short_id(record: Record) -> str:
    """Return the part of a command's id that states remember."""
    return record.headers.get("id", "")[:RECENT_ID]


def state_message(
    record: Record, text: bytes, status: str, state: State | None, position: Position
) -> Message:
    """Return the new state, whose JSON is `text`."""
    headers = _headers(record, state, position)
    if status == "Deleted" and (before := _status_before(state)):
        headers[DELETED_FROM] = before
    return Message(STATE, record.key, text, headers, record.partition)


def marker_message(record: Record, state: State, position: Position) -> Message:
    """Return the marker that an entity leaves when it is forgotten: no content, but its kind and the time."""
    kind = state.content["kind"] if state.content else ""
    headers = _headers(record, state, position) | {FORGOTTEN: record.headers["time"], "kind": kind}
    return Message(STATE, record.key, b"{}", headers, record.partition)


def tombstone_message(record: Record, state: State, position: Position) -> Message:
    """Return the tombstone that follows a marker. It still says which command it comes from."""
    kept = {FORGOTTEN: state.headers[FORGOTTEN], "kind": state.headers["kind"]}
    return Message(STATE, record.key, None, _headers(record, state, position) | kept, record.partition)


def outcome_message(
    record: Record,
    outcome: Outcome,
    position: Position,
    *,
    reason: str | None = None,
    message: str | None = None,
) -> Message:
    """Return what became of the command in `record`; `position` is the one of the state that holds now."""
    content = {
        "command": record.headers.get("id"),
        "outcome": outcome,
        "reason": reason,
        "message": message,
        "epoch": position.epoch,
        "partition": position.partition,
        "offset": position.offset,
    }
    return Message(OUTCOMES, record.key, orjson.dumps(content), {"id": record.headers.get("id", "")})


def _status_before(state: State | None) -> str:
    """Return the last status of an entity that was not Deleted; empty where it is unknown."""
    if state is None or state.content is None:
        return ""
    status = str(state.content["status"])
    return state.headers.get(DELETED_FROM, "") if status == "Deleted" else status


def _headers(record: Record, state: State | None, position: Position) -> dict[str, str]:
    """Return the command's headers, with its position and the ids of the last commands.

    The trace stays that of the first command: its workflow runs because of that request, even if another caller edits
    it later.
    """
    trace = state.headers.get("traceparent") if state else None
    recent = [*(state.recent if state else ()), short_id(record)][-RECENT:]
    return {
        **record.headers,
        **({"traceparent": trace} if trace else {}),
        "epoch": str(position.epoch),
        "partition": str(position.partition),
        "offset": str(position.offset),
        "recent": ",".join(recent),
    }
