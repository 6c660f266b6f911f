"""Messages that a step cannot take: dead letters, and entities whose later messages wait.

`consume` calls this for every record. A message that is malformed, or at which the step failed again and again, goes
to DEAD with its reason; a mark in QUARANTINE says that its key is shut. The message itself and what comes for the key
go to WAITING, in order. Once an administrator has inspected it, a RELEASE lets all of it be processed, a DROP all but
the message that failed. A mark, or the tombstone that ends it, names the last message that it has seen: read again,
that changes nothing. One group alone may work a topic off in this way. `marks.py` is for consumers that follow a state.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from steelyard.broker.log import DEAD, QUARANTINE, WAITING, Log, Message, Record
from steelyard.broker.partition import find_partition
from steelyard.broker.scan import partition_records
from steelyard_common.errors import is_engine_failure
from steelyard_schema.faults import exception_text

RELEASE = "release"
"""Header of a message that ends the quarantine of its key: what failed is tried once more, then what waits."""
DROP = "drop"
"""Header of a message that does the same, without the message that failed."""
COMMANDS = "commands"
"""The name of the consumer whose marks bear the entity's id alone: the one that works a topic off."""
REASON_LENGTH = 1000
_ORIGIN = "origin"
_FAILED = "failed"
_log = logging.getLogger(__name__)

Step = Callable[[Record], Awaitable[Sequence[Message]]]


class Malformed(Exception):
    """A message that can never be read; its text says why."""


class StopPartition(Exception):
    """A message that a newer program has to read: this one must not go past it."""


class StepFailed(Exception):
    """A step raised what it does not promise to raise, while it worked on `record`; the cause is the error."""

    def __init__(self, record: Record) -> None:
        super().__init__(f"{record.topic}/{record.partition}/{record.offset}")
        self.record = record
        self.index = 0
        """The place, in its batch, of the record that led to it; `record` may be one that waited for that one."""


@dataclass(frozen=True)
class MessagePosition:
    """Position of a message in its own topic."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def from_record(cls, record: Record) -> "MessagePosition":
        return cls(record.topic, record.partition, record.offset)

    @classmethod
    def parse(cls, text: str) -> "MessagePosition":
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

    last: MessagePosition | None = None
    reason: str | None = None
    """Why it is shut; None while it is open."""
    since: str | None = None
    count: int = 0
    """Messages that wait, the one that failed among them."""
    waiting: list[Record] = field(default_factory=list)
    """Put aside in this batch: not in the log yet."""
    failed: MessagePosition | None = None
    """The one of `waiting` that failed."""
    emptied: bool = False
    """True once the waiting messages of the entity were taken from the log in this batch."""

    @classmethod
    def from_mark(cls, mark: Record | None) -> "_Entity":
        if mark is None:
            return cls()
        last = MessagePosition.parse(mark.headers[_ORIGIN])
        if mark.value is None:
            return cls(last)
        said = read_mark(mark.value)
        return cls(last, said["reason"], said.get("since"), said.get("waiting", 0))

    @property
    def shut(self) -> bool:
        return self.reason is not None

    def reach(self, record: Record) -> None:
        """The record has been dealt with; what waited before it may come after it."""
        if self.last is None or not self.last.covers(record):
            self.last = MessagePosition.from_record(record)


class Quarantine:
    """Quarantines that one batch meets. `refused`: messages at which the step has failed for good, with the reasons."""

    def __init__(self, log: Log, step: Step, refused: Mapping[MessagePosition, str] | None = None) -> None:
        self._log, self._step = log, step
        self._refused = refused or {}
        self._entities: dict[str, _Entity] = {}

    async def prepare(self, records: Sequence[Record]) -> None:
        """Read the marks of all entities of a batch at once."""
        keys = {record.key for record in records}
        marks = await self._log.find_latest(QUARANTINE, keys)
        self._entities |= {key: _Entity.from_mark(marks.get(key)) for key in keys}

    async def make_messages(self, record: Record) -> list[Message]:
        """Return the messages that follow from a record.

        Raises StopPartition, StepFailed, and what a failing engine raises.
        """
        if record.key not in self._entities:
            self._entities[record.key] = _Entity.from_mark(await self._log.latest(QUARANTINE, record.key))
        entity = self._entities[record.key]
        if entity.last is not None and entity.last.covers(record):
            return []  # read again: put aside before, or the end of an earlier quarantine
        if RELEASE in record.headers or DROP in record.headers:
            return await self._release(record, entity) if entity.shut else []
        if entity.shut:
            return self._wait(record, entity)
        return await self._advance(record, entity)

    async def _advance(self, record: Record, entity: _Entity) -> list[Message]:
        if (refusal := self._refused.get(MessagePosition.from_record(record))) is not None:
            return self._put_aside(record, entity, refusal)
        try:
            return list(await self._step(record))
        except Malformed as error:
            return self._put_aside(record, entity, str(error))
        except StopPartition:
            raise
        except Exception as error:
            if is_engine_failure(error):
                raise
            raise StepFailed(record) from error

    def _put_aside(self, record: Record, entity: _Entity, reason: str) -> list[Message]:
        entity.reason, entity.since, entity.count = printable(reason), record.written.isoformat(), 0
        entity.failed = MessagePosition.from_record(record)
        _log.critical(
            "%s: a message of %s is put in quarantine, and later ones wait: %s; see steelyard quarantine show %s",
            record.topic, record.key, entity.reason, record.key,
        )  # fmt: skip
        headers = {
            **record.headers,
            "reason": entity.reason,
            _ORIGIN: str(MessagePosition.from_record(record)),
        }
        return [Message(DEAD, record.key, record.value, headers), *self._wait(record, entity, failed=True)]

    def _wait(self, record: Record, entity: _Entity, *, failed: bool = False) -> list[Message]:
        entity.waiting.append(record)
        entity.count += 1
        entity.reach(record)
        headers = {
            **record.headers,
            _ORIGIN: str(MessagePosition.from_record(record)),
            **({_FAILED: "1"} if failed else {}),
        }
        return [Message(WAITING, record.key, record.value, headers), _mark(record.key, entity)]

    async def _release(self, record: Record, entity: _Entity) -> list[Message]:
        """Work off what waited, in its order; the first at which the step fails begins a new quarantine."""
        key = record.key
        if (refusal := self._refused.get(MessagePosition.from_record(record))) is not None:
            entity.reason = printable(f"cannot be released: {refusal}")
            entity.reach(record)
            return [_mark(key, entity)]
        waiting = [] if entity.emptied else await _waiting(self._log, key)
        waiting += [
            Waiting(record, MessagePosition.from_record(record) == entity.failed) for record in entity.waiting
        ]
        if DROP in record.headers:
            waiting = [message for message in waiting if not message.failed]
        entity.reason, entity.emptied, entity.waiting, entity.count = None, True, [], 0
        entity.reach(record)
        outputs = [_mark(key, entity), Message(WAITING, key, None, {RELEASE: "1"})]
        for message in waiting:
            outputs += (
                self._wait(message.record, entity)
                if entity.shut
                else await self._advance(message.record, entity)
            )
        return outputs


def printable(reason: str) -> str:
    """A reason that every log and every page can hold: of bounded length, without half characters."""
    text = reason.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= REASON_LENGTH else text[:REASON_LENGTH] + " ..."


def read_mark(mark: bytes) -> dict[str, Any]:
    """Content of a mark. A mark that cannot be read still counts as one: its reader must not fail at it."""
    try:
        said = orjson.loads(mark)
        reason, since, waiting = said["reason"], said.get("since"), said.get("waiting", 0)
        if isinstance(reason, str) and isinstance(since, str | None) and isinstance(waiting, int):
            return dict(said)
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    return {"reason": "its mark cannot be read"}


def describe_error(error: BaseException) -> str:
    """An exception in a line: its type, and what it says."""
    return exception_text(error)


def _mark(key: str, entity: _Entity) -> Message:
    said = {"reason": entity.reason, "since": entity.since, "waiting": entity.count}
    value = orjson.dumps(said) if entity.shut else None
    return Message(QUARANTINE, key, value, {_ORIGIN: str(entity.last), "consumer": COMMANDS})


@dataclass(frozen=True)
class Waiting:
    """A message that waits, as it stood in its own topic; `failed`: it is the one that was put aside."""

    record: Record
    failed: bool


async def _waiting(log: Log, key: str) -> list[Waiting]:
    waiting: list[Waiting] = []
    async for record in partition_records(log, WAITING, find_partition(key, log.partitions)):
        if record.key == key:
            waiting = [] if RELEASE in record.headers else [*waiting, _original(record)]
    return waiting


async def list_waiting(log: Log, key: str) -> list[Record]:
    """The messages of a key that wait, as they stood in their own topic; the first is the one that failed."""
    return [message.record for message in await _waiting(log, key)]


def _original(record: Record) -> Waiting:
    place = MessagePosition.parse(record.headers[_ORIGIN])
    headers = {name: value for name, value in record.headers.items() if name not in {_ORIGIN, _FAILED}}
    original = replace(
        record, topic=place.topic, partition=place.partition, offset=place.offset, headers=headers
    )
    return Waiting(original, _FAILED in record.headers)


async def release(log: Log, topic: str, key: str) -> None:
    """Ends an entity's quarantine: what failed is tried once more, and what waited is worked off, in order."""
    await log.publish([Message(topic, key, None, {RELEASE: "1"})])


async def drop(log: Log, topic: str, key: str) -> None:
    """Ends an entity's quarantine without the message that failed: what came after it is worked off, in order."""
    await log.publish([Message(topic, key, None, {DROP: "1"})])
