"""The one loop of every consumer. The services differ in what they do with a record.

`consume` is for services whose effects are messages: positions and outputs are one transaction. `follow` is for those
whose effects lie in a database of their own, with the positions beside them. A malformed message is put aside
(`quarantine.py`). Anything else that goes wrong ends the process, and the log delivers again.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from steelyard.broker.log import Batch, Fenced, Log, Message, Record
from steelyard.broker.quarantine import Malformed, Quarantine, quarantined, release, waiting_of

__all__ = [
    "Malformed",
    "Outlet",
    "Step",
    "StopPartition",
    "consume",
    "consume_once",
    "follow",
    "quarantined",
    "release",
    "waiting_of",
]

BATCH = 500
WAIT_SECONDS = 5.0
"""A commit ends a wait; this only bounds how long a lease goes without being renewed."""
_log = logging.getLogger(__name__)


class StopPartition(Exception):
    """A message that a newer program has to read: this one must not go past it."""


class Step(Protocol):
    """What a service does."""

    def begin(self) -> None:
        """A batch begins: forget what was kept for the last one, which may not have been committed."""
        ...

    async def step(self, record: Record) -> Sequence[Message]:
        """What follows from a record. Raises Malformed, StopPartition."""
        ...


class Outlet(Protocol):
    """A database that keeps positions beside its contents."""

    async def positions(self, epoch: int) -> Mapping[int, int]:
        """Where to go on in each partition; empty for a log of another epoch."""
        ...

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        """Both or neither."""
        ...


Transact = Callable[[Batch, Sequence[Message]], Awaitable[Sequence[Record]]]


async def consume(log: Log, group: str, topic: str, step: Step, *, stop: asyncio.Event) -> None:
    """Until `stop`: each record once, in order per key, as far as the log can tell."""
    inbox = await log.inbox(group, topic)
    try:
        async with _rest(log, stop) as rest:
            while not stop.is_set():
                version = log.version()
                batch = await inbox.batch(BATCH, 0)
                if not batch.records:
                    await rest(version)
                    continue
                try:
                    for partition in await consume_once(log, batch, inbox.transact, step):
                        inbox.pause(partition)
                except Fenced as error:
                    _log.warning("%s; that one goes on there", error)
    finally:
        await inbox.close()


async def consume_once(log: Log, batch: Batch, transact: Transact, step: Step) -> frozenset[int]:
    """One batch: its outputs and positions in one transaction. The partitions that must not be read any further."""
    if not batch.records:
        return frozenset()
    step.begin()
    quarantine = Quarantine(log, step.step)
    outputs: list[Message] = []
    stopped: dict[int, int] = {}
    for record in batch.records:
        if record.partition in stopped:
            continue
        try:
            outputs += await quarantine.look(record)
        except StopPartition as error:
            _log.critical(
                "%s, partition %d, offset %d: %s; what comes after it waits: upgrade this program",
                record.topic, record.partition, record.offset, error,
            )  # fmt: skip
            stopped[record.partition] = record.offset
    await transact(Batch(batch.records, batch.starts, {**batch.positions, **stopped}), outputs)
    return frozenset(stopped)


async def follow(
    log: Log,
    topic: str,
    outlet: Outlet,
    *,
    stop: asyncio.Event,
    caught_up: Callable[[], None] = lambda: None,
) -> None:
    """Until `stop`: every record into the outlet. `caught_up` is called once what was there at the start is in it."""
    ends = await log.ends(topic)
    at = dict.fromkeys(ends, 0) | dict(await outlet.positions(log.epoch))
    behind = {partition for partition, end in ends.items() if at[partition] < end}
    ready = False
    async with _rest(log, stop) as rest:
        while not stop.is_set():
            version = log.version()
            moved = False
            for partition in ends:
                records = await log.read(topic, partition, at[partition], BATCH)
                if records:
                    at[partition] = records[-1].offset + 1
                    await outlet.apply(records, log.epoch, {partition: at[partition]})
                    moved = True
                if (
                    at[partition] >= ends[partition] or not records
                ):  # the last ones may have been compacted away
                    behind.discard(partition)
            if not behind and not ready:
                ready = True
                caught_up()
            if moved:
                await asyncio.sleep(0)  # what never waits would let nobody else work
            else:
                await rest(version)


@contextlib.asynccontextmanager
async def _rest(log: Log, stop: asyncio.Event) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Waits until the log changes or it is to end: neither is waited for longer than the other."""
    stopped = asyncio.ensure_future(stop.wait())

    async def rest(version: int) -> None:
        changed = asyncio.ensure_future(log.changed(version, WAIT_SECONDS))
        try:
            await asyncio.wait((changed, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)
        if not changed.cancelled():
            changed.result()  # raises when the log has failed

    try:
        yield rest
    finally:
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
