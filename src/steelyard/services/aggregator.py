"""The aggregator: commands to state. It alone judges; `workflows.state` is what it says.

A batch of commands, the states that follow from them, the outcomes and the positions are one transaction, so that a
command is applied once however often the process dies. Started by the platform's process or by
`steelyard service aggregator`; several copies share the partitions.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from steelyard.broker.consume import Malformed, StopPartition, consume
from steelyard.broker.log import EVENTS, STATE, Log, Message, Record
from steelyard.schema.commands import Command, FutureSchema, MalformedCommand, parse_command
from steelyard.services.judge import State, judge, state_of

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
        command = _command(record)
        state = await self._state(record.key)
        try:
            judgement = judge(command, record, state, self._log.epoch)
        except ValidationError as error:
            raise Malformed(f"the entity would be none: {error}") from error
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


def _command(record: Record) -> Command:
    """Raises Malformed, which names the field, and StopPartition."""
    missing = [name for name in _NEEDED if not record.headers.get(name)]
    if missing:
        raise Malformed(f"headers.{missing[0]}: is missing")
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
