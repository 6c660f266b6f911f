"""What becomes of messages that cannot be read: dead letters, and entities whose later messages wait.

`consume` calls this for every record. A malformed message goes to DEAD with its reason; a mark in QUARANTINE says that
its key is shut, and what comes for the key goes to WAITING, in order. Once somebody has looked, `release` lets it be
worked off. A mark, or the tombstone that ends it, names the last message that it has seen: read again, that changes
nothing. One group alone may work a topic off in this way.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import orjson

from steelyard.broker.log import DEAD, QUARANTINE, WAITING, Log, Message, Record

RELEASE = "release"
"""Header of a message that ends the quarantine of its key."""
_ORIGIN = "origin"
_log = logging.getLogger(__name__)

Step = Callable[[Record], Awaitable[Sequence[Message]]]


class Malformed(Exception):
    """A message that can never be read; its text says why."""


@dataclass(frozen=True)
class Place:
    """Where a message stood in its own topic."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, record: Record) -> "Place":
        return cls(record.topic, record.partition, record.offset)

    @classmethod
    def parse(cls, text: str) -> "Place":
        topic, partition, offset = text.split("/")
        return cls(topic, int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    def covers(self, record: Record) -> bool:
        return (self.topic, self.partition) == (
            record.topic,
            record.partition,
        ) and record.offset <= self.offset


@dataclass
class _Entity:
    """A key, as the log has it and as the batch has changed it."""

    shut: bool
    last: Place | None
    waiting: list[Record] = field(default_factory=list)
    """Put aside in this batch: not in the log yet."""
    emptied: bool = False
    """What waits in the log was taken in this batch."""

    def reach(self, record: Record) -> None:
        """The record has been dealt with; what waited before it may come after it."""
        if self.last is None or not self.last.covers(record):
            self.last = Place.of(record)


class Quarantine:
    """Of one batch."""

    def __init__(self, log: Log, step: Step) -> None:
        self._log, self._step = log, step
        self._entities: dict[str, _Entity] = {}

    async def look(self, record: Record) -> list[Message]:
        """What follows from a record. Raises what the step does, but for Malformed."""
        entity = await self._entity(record.key)
        if entity.last is not None and entity.last.covers(record):
            return []  # read again: put aside before, or the end of an earlier quarantine
        if RELEASE in record.headers:
            return await self._release(record, entity) if entity.shut else []
        if entity.shut:
            return self._wait(record, entity)
        return await self._stepped(record, entity)

    async def _entity(self, key: str) -> _Entity:
        if key not in self._entities:
            mark = await self._log.latest(QUARANTINE, key)
            last = Place.parse(mark.headers[_ORIGIN]) if mark is not None else None
            self._entities[key] = _Entity(mark is not None and mark.value is not None, last)
        return self._entities[key]

    async def _stepped(self, record: Record, entity: _Entity) -> list[Message]:
        try:
            return list(await self._step(record))
        except Malformed as error:
            _log.error("%s: a malformed message of %s is put aside: %s", record.topic, record.key, error)
            entity.shut = True
            entity.reach(record)
            headers = {**record.headers, "reason": str(error), _ORIGIN: str(Place.of(record))}
            return [Message(DEAD, record.key, record.value, headers), _mark(record.key, entity, str(error))]

    def _wait(self, record: Record, entity: _Entity) -> list[Message]:
        entity.waiting.append(record)
        entity.reach(record)
        headers = {**record.headers, _ORIGIN: str(Place.of(record))}
        return [
            Message(WAITING, record.key, record.value, headers),
            _mark(record.key, entity, f"waits for {RELEASE}"),
        ]

    async def _release(self, record: Record, entity: _Entity) -> list[Message]:
        """What waited, in its order; one that is malformed begins a quarantine anew."""
        key = record.key
        waiting = [*([] if entity.emptied else await waiting_of(self._log, key)), *entity.waiting]
        entity.shut, entity.emptied, entity.waiting = False, True, []
        entity.reach(record)
        outputs = [_mark(key, entity, None), Message(WAITING, key, None, {RELEASE: "1"})]
        for each in waiting:
            outputs += self._wait(each, entity) if entity.shut else await self._stepped(each, entity)
        return outputs


def _mark(key: str, entity: _Entity, reason: str | None) -> Message:
    value = None if reason is None else orjson.dumps({"reason": reason})
    return Message(QUARANTINE, key, value, {_ORIGIN: str(entity.last)})


async def quarantined(log: Log) -> list[str]:
    """The keys that are shut."""
    found = []
    for partition in range(log.partitions):
        start = 0
        while batch := await log.read(QUARANTINE, partition, start):
            start = batch[-1].offset + 1
            found += [record.key for record in batch if record.value is not None]
    return found


async def waiting_of(log: Log, key: str) -> list[Record]:
    """The messages of a key that wait, as they stood in their own topic."""
    found: list[Record] = []
    for partition in range(log.partitions):
        start = 0
        while batch := await log.read(WAITING, partition, start):
            start = batch[-1].offset + 1
            for record in batch:
                if record.key == key:
                    found = [] if RELEASE in record.headers else [*found, _original(record)]
    return found


def _original(record: Record) -> Record:
    place = Place.parse(record.headers[_ORIGIN])
    headers = {name: value for name, value in record.headers.items() if name != _ORIGIN}
    return replace(record, topic=place.topic, partition=place.partition, offset=place.offset, headers=headers)


async def release(log: Log, topic: str, key: str) -> None:
    """Ends an entity's quarantine, once its dead letter has been looked at: what waited is worked off, in order."""
    await log.publish([Message(topic, key, None, {RELEASE: "1"})])
