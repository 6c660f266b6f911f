"""The aggregator on the log: it alone applies commands, and `workflows.state` holds what they lead to.

A batch of commands, the states that follow from them, their outcomes and the consumer's positions are one transaction:
a command is applied once, however often the process dies. The platform's process or `steelyard service aggregator`
starts it; several copies share the partitions.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from steelyard.broker.consume import consume
from steelyard.broker.log import AGGREGATOR, EVENTS, STATE, Log, Message, Record
from steelyard.services.aggregator.apply import apply_command, is_seen
from steelyard.services.aggregator.messages import State, read_state
from steelyard.services.aggregator.parse import check_readable, read_command
from steelyard.telemetry.tracing import span


async def run_aggregator(log: Log, *, stop: asyncio.Event) -> None:
    """Apply commands until `stop`."""
    await consume(log, AGGREGATOR, EVENTS, Aggregator(log), stop=stop)


class Aggregator:
    """The step of the consumer. Within a batch, a command sees what earlier commands of the batch have changed."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._states: dict[str, State | None] = {}

    def begin(self) -> None:
        # A batch that was aborted has written nothing, and another process may have taken its partition since then.
        self._states = {}

    async def prepare(self, records: Sequence[Record]) -> None:
        keys = {record.key for record in records}
        states = await self._log.find_latest(STATE, keys)
        self._states |= {key: read_state(states.get(key)) for key in keys}

    async def step(self, record: Record) -> Sequence[Message]:
        if record.key not in self._states:
            self._states[record.key] = read_state(await self._log.latest(STATE, record.key))
        state = self._states[record.key]
        # A seen record is not even parsed: if it was malformed, it was dealt with when it was read first.
        if is_seen(state, record, self._log.epoch):
            return []
        # An entity that a newer program wrote stops the partition: written back by this one, fields would be lost (rule
        # 9).
        check_readable(state)
        with span(
            f"process {EVENTS}",
            record.headers.get("traceparent"),
            kind="consumer",
            attributes={"messaging.destination.name": EVENTS, "steelyard.entity.id": record.key},
        ) as opened:
            if opened.traceparent:
                record = replace(record, headers={**record.headers, "traceparent": opened.traceparent})
            application = apply_command(read_command(record), record, state, self._log.epoch)
        if application is None:
            return []
        # Rejected, or nothing changed: the outcome alone, so that no reader of states sees a change that is none (rule
        # 1).
        if application.state is None:
            return [application.outcome]
        written = application.state
        self._states[record.key] = read_state(
            replace(record, topic=written.topic, value=written.value, headers=written.headers)
        )
        return [written, application.outcome]
