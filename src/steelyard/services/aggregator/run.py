"""The aggregator: commands to state. It alone judges; `workflows.state` is what it says.

A batch of commands, the states that follow from them, the outcomes and the positions are one transaction, so that a
command is applied once however often the process dies. Started by the platform's process or by
`steelyard service aggregator`; several copies share the partitions.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from steelyard.broker.consume import Malformed, StopPartition, consume
from steelyard.broker.log import EVENTS, STATE, Log, Message, Record
from steelyard.schema.commands import (
    Command,
    FutureSchema,
    MalformedCommand,
    check_version,
    parse_command,
)
from steelyard.services.aggregator.transitions import State, judge, seen, state_of

GROUP = "workflows-aggregator"
_NEEDED = ("id", "source", "time")


async def run_aggregator(log: Log, *, stop: asyncio.Event) -> None:
    """Until `stop`."""
    await consume(log, GROUP, EVENTS, Aggregator(log), stop=stop)


class Aggregator:
    """Sees, within a batch, what earlier commands of the batch have done."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._states: dict[str, State | None] = {}

    def begin(self) -> None:
        self._states = {}

    async def step(self, record: Record) -> Sequence[Message]:
        state = await self._state(record.key)
        if seen(state, record, self._log.epoch):
            return []  # not even read: what was malformed then has been dealt with
        _check_readable(state)
        judgement = judge(_command(record), record, state, self._log.epoch)
        if judgement is None:
            return []
        if judgement.changed is None:
            return [judgement.outcome]
        self._states[record.key] = state_of(_as_record(record, judgement.changed))
        return [judgement.changed, judgement.outcome]

    async def _state(self, key: str) -> State | None:
        if key not in self._states:
            self._states[key] = state_of(await self._log.latest(STATE, key))
        return self._states[key]


def _check_readable(state: State | None) -> None:
    """Raises StopPartition for an entity that a newer program has written, Malformed for one that none has."""
    if state is not None and state.content is not None:
        try:
            check_version(str(state.content.get("schemaVersion")))
        except MalformedCommand as error:
            raise Malformed(f"the entity's {error}") from error
        except FutureSchema as error:
            raise StopPartition(f"the entity's {error}") from error


def _check_headers(headers: Mapping[str, str]) -> None:
    missing = [name for name in _NEEDED if not headers.get(name)]
    if missing:
        raise Malformed(f"headers.{missing[0]}: is missing")
    try:
        known = datetime.fromisoformat(headers["time"]).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise Malformed(f"headers.time: {headers['time']!r} is no time such as 2030-01-31T12:00:00.000001Z")


def _command(record: Record) -> Command:
    """Raises Malformed, which names the field, and StopPartition."""
    _check_headers(record.headers)
    if record.value is None:
        raise Malformed("value: is missing")
    try:
        command = parse_command(record.value)
    except MalformedCommand as error:
        raise Malformed(str(error)) from error
    except FutureSchema as error:
        raise StopPartition(str(error)) from error
    if command.data.id != record.key:
        raise Malformed(f"data.id: is {command.data.id}, and the message's key {record.key}")
    return command


def _as_record(record: Record, message: Message) -> Record:
    return replace(record, topic=message.topic, value=message.value, headers=message.headers)
