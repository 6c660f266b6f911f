"""The effect of a command. Pure: it depends on the command and on the entity's newest state record alone.

A command that the entity has seen already (its offset is not above the state's, or its id is among the last ones) is
passed over. A command that is rejected or changes nothing leaves the state alone and has an outcome all the same.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from steelyard.broker.log import Message, Record
from steelyard.services.aggregator.check import Rejected
from steelyard.services.aggregator.merge import SAME, merge, restore_forgotten
from steelyard.services.aggregator.messages import (
    FORGOTTEN,
    Position,
    State,
    marker_message,
    outcome_message,
    short_id,
    state_message,
    tombstone_message,
)
from steelyard_common.types import Json
from steelyard_schema.bounds import ENTITY_BYTES, STATUS_BYTES, Unkeepable
from steelyard_schema.commands import Command, ForgetEntity, RestoreEntity, UpdateEntityStatus, command_time
from steelyard_schema.entities import kind_of_fault, parse_stored
from steelyard_schema.faults import faults_text
from steelyard_schema.retention import files_until
from steelyard_schema.stored import entity_json

MARKER_FOR = timedelta(days=14)
"""Age at which a marker becomes a tombstone. Commands are kept as long, so that none about the entity can be left."""


@dataclass(frozen=True)
class Application:
    """Messages that a command leads to: the new state record or a tombstone, None if nothing changes; the outcome."""

    state: Message | None
    outcome: Message


def is_seen(state: State | None, record: Record, epoch: int) -> bool:
    """Return whether the entity's state is the one of this command or of a later one."""
    if state is None:
        return False
    # Offsets of another log's epoch, or of another partition, cannot be compared.
    last = state.position
    return (last.epoch, last.partition) == (epoch, record.partition) and record.offset <= last.offset


def apply_command(command: Command, record: Record, state: State | None, epoch: int) -> Application | None:
    """Apply the command in `record` to the entity's state; None for a command that the entity has seen."""
    if is_seen(state, record, epoch):
        return None
    position = Position(epoch, record.partition, record.offset)
    before = state.position if state else position
    # A producer that did not learn of its success publishes again: the same command at another offset.
    if state is not None and short_id(record) in state.recent:
        outcome = outcome_message(
            record, "unchanged", before, reason="Repeated", message="was applied before"
        )
        return Application(None, outcome)
    forgotten = state is not None and state.content is None and not state.buried
    if state is not None and forgotten and isinstance(command, ForgetEntity):
        return _bury(record, state, position)
    try:
        content: Json | None
        if isinstance(command, RestoreEntity) and state is not None and state.content is None:
            _check_files_there(record, state)
            content = restore_forgotten(command, record.headers)
        else:
            content = merge(command, record.headers, state.content if state else None, forgotten=forgotten)
        if content is SAME:
            return Application(None, outcome_message(record, "unchanged", before))
        if content is None:
            assert state is not None  # only a known entity can be forgotten
            message = marker_message(record, state, position)
        else:
            status = str(content["status"])
            message = state_message(record, _text(command, content), status, state, position)
    # Well formed, but it cannot apply: an outcome for its sender, no dead letter.
    except Rejected as rejection:
        reason, text = rejection.reason, rejection.message
        return Application(None, outcome_message(record, "rejected", before, reason=reason, message=text))
    except ValidationError as error:  # the command is well formed, but what it asks for is no entity
        text = faults_text(error, model=kind_of_fault(error))
        return Application(None, outcome_message(record, "rejected", before, reason="Invalid", message=text))
    return Application(message, outcome_message(record, "applied", position))


def _check_files_there(record: Record, state: State) -> None:
    """Raise Rejected for a restore that comes when the entity's files go, or are gone."""
    since = state.headers.get(FORGOTTEN)
    if since is None:
        return
    until = files_until(datetime.fromisoformat(since))
    if datetime.fromisoformat(record.headers["time"]) >= until:
        raise Rejected(
            "Conflict", f"{record.key} was forgotten {since}: its files were kept until {command_time(until)}"
        )


def _bury(record: Record, state: State, position: Position) -> Application:
    """Turn a forgotten entity's marker into a tombstone, once it has outlived every command about the entity."""
    age = datetime.fromisoformat(record.headers["time"]) - datetime.fromisoformat(state.headers[FORGOTTEN])
    # By then every command about the entity has left the log; earlier, one could still revive it (rule 8).
    if record.headers.get("source") != "reaper" or age < MARKER_FOR:
        text = "was forgotten before"
        return Application(None, outcome_message(record, "unchanged", state.position, message=text))
    return Application(
        tombstone_message(record, state, position), outcome_message(record, "applied", position)
    )


def _text(command: Command, content: Json) -> bytes:
    """Return the JSON of an entity, which can always be read again. Raises Rejected, ValidationError.

    A status comes on top of what the user made, so it has bytes of its own. An entity that an older schema accepted and
    this one does not can still fail and be deleted: a new status alone is not validated with the whole entity.
    """
    has_status = isinstance(command, UpdateEntityStatus | RestoreEntity)
    try:
        text = entity_json(content, ENTITY_BYTES + STATUS_BYTES if has_status else ENTITY_BYTES)
    except Unkeepable as error:
        raise Rejected("TooLarge" if error.too_large else "Invalid", str(error)) from error
    # A new status alone must always be possible, or an entity of an older schema could never be deleted.
    if not isinstance(command, UpdateEntityStatus):
        parse_stored(text)
    return text
