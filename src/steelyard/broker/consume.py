"""The one loop of every consumer. The services differ in what they do with a record.

`consume` is for services whose effects are messages: positions and outputs are one transaction. `follow` is for those
whose effects lie in a database of their own, with the positions beside them. A malformed message goes to the dead
letters, and its entity's later messages wait until somebody has looked (`release`). Anything else ends the process, and
the log delivers again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import orjson

from steelyard.broker.log import DEAD, QUARANTINE, WAITING, Batch, Fenced, Log, Message, Record

BATCH = 500
WAIT_SECONDS = 1.0
_log = logging.getLogger(__name__)

RELEASE = "release"
"""Header of a message that ends the quarantine of its key."""
_ORIGIN = "origin"


class Malformed(Exception):
    """A message that can never be read; its text says why."""


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


async def consume(log: Log, group: str, topic: str, step: Step, *, stop: asyncio.Event) -> None:
    """Until `stop`: each record once, in order per key, as far as the log can tell."""
    inbox = await log.inbox(group, topic)
    try:
        while not stop.is_set():
            try:
                await consume_once(log, await inbox.batch(BATCH, WAIT_SECONDS), inbox.transact, step)
            except Fenced as error:
                _log.warning("%s; another member goes on there", error)
            await asyncio.sleep(0)
    finally:
        await inbox.close()


Transact = Callable[[Batch, Sequence[Message]], Awaitable[Sequence[Record]]]


async def consume_once(log: Log, batch: Batch, transact: Transact, step: Step) -> None:
    """One batch: its outputs and positions in one transaction."""
    if not batch.records:
        return
    step.begin()
    outputs: list[Message] = []
    positions = dict(batch.positions)
    shut: dict[str, bool] = {}  # keys whose quarantine began or ended in this batch
    for record in batch.records:
        if positions[record.partition] <= record.offset:
            continue  # after a record that stopped the partition
        try:
            outputs += await _look_at(log, record, step, shut)
        except StopPartition as error:
            _log.error("%s, partition %d, offset %d: %s; upgrade this program", record.topic, record.partition,
                       record.offset, error)  # fmt: skip
            positions[record.partition] = record.offset
    await transact(Batch(batch.records, batch.starts, positions), outputs)
    if positions != batch.positions:
        await asyncio.sleep(WAIT_SECONDS)


async def _look_at(log: Log, record: Record, step: Step, shut: dict[str, bool]) -> list[Message]:
    waits = shut.get(record.key)
    if waits is None:
        mark = await log.latest(QUARANTINE, record.key)
        waits = mark is not None and mark.value is not None
    if RELEASE in record.headers:
        shut[record.key] = False
        return await _released(log, record.key, step, shut) if waits else []
    if waits:
        return [_waiting(record)]
    return await _stepped(record, step, shut)


async def _stepped(record: Record, step: Step, shut: dict[str, bool]) -> list[Message]:
    try:
        return list(await step.step(record))
    except Malformed as error:
        shut[record.key] = True
        _log.error("%s: a malformed message of %s is put aside: %s", record.topic, record.key, error)
        headers = {**record.headers, "reason": str(error), **_origin(record)}
        mark = orjson.dumps({"reason": str(error), **_origin(record)})
        return [
            Message(DEAD, record.key, record.value, headers),
            Message(QUARANTINE, record.key, mark),
        ]


async def _released(log: Log, key: str, step: Step, shut: dict[str, bool]) -> list[Message]:
    """What waited, in its order; one that is malformed begins a quarantine anew."""
    outputs = [Message(QUARANTINE, key, None), Message(WAITING, key, None)]  # none of them waits any more
    for record in await waiting_of(log, key):
        if shut.get(key):
            outputs.append(_waiting(record))
        else:
            outputs += await _stepped(record, step, shut)
    return outputs


async def waiting_of(log: Log, key: str) -> list[Record]:
    """The messages of a key that wait, as they stood in their own topic."""
    found: list[Record] = []
    for partition in range(log.partitions):
        start = 0
        while batch := await log.read(WAITING, partition, start):
            start = batch[-1].offset + 1
            for record in batch:
                if record.key == key:
                    found = [*found, _original(record)] if record.value is not None else []
    return found


def _waiting(record: Record) -> Message:
    return Message(WAITING, record.key, record.value or b"", {**record.headers, **_origin(record)})


def _origin(record: Record) -> dict[str, str]:
    return {_ORIGIN: f"{record.topic}/{record.partition}/{record.offset}"}


def _original(record: Record) -> Record:
    topic, partition, offset = record.headers[_ORIGIN].split("/")
    headers = {name: value for name, value in record.headers.items() if name != _ORIGIN}
    return replace(record, topic=topic, partition=int(partition), offset=int(offset), headers=headers)


async def release(log: Log, topic: str, key: str) -> None:
    """Ends an entity's quarantine, once its dead letter has been looked at: what waited is worked off, in order."""
    await log.publish([Message(topic, key, None, {RELEASE: "1"})])


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
    behind = True
    while not stop.is_set():
        version = log.version()
        moved = False
        for partition in ends:
            records = await log.read(topic, partition, at[partition], BATCH)
            if records:
                at[partition] = records[-1].offset + 1
                await outlet.apply(records, log.epoch, {partition: at[partition]})
                moved = True
        if behind and not moved:
            behind = False  # nothing is left of what was there at the start, nor of what came meanwhile
            caught_up()
        if not moved:
            await _changed_or_stopped(log, version, stop)


async def _changed_or_stopped(log: Log, version: int, stop: asyncio.Event) -> None:
    """The log changes, or it is to end: neither is waited for longer than the other."""
    waiting = [
        asyncio.ensure_future(log.changed(version, WAIT_SECONDS)),
        asyncio.ensure_future(stop.wait()),
    ]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
