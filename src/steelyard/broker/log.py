"""Protocol of the event log.

`sqlite/log.py` and `in_memory.py` implement it; `steelyard.testing.engines.log` holds its contract.

Records are in order per key; a key's partition is `murmur2_random` of the key, as Kafka's clients compute it. A
compacted topic keeps the newest record of each key, and a record without a value (a tombstone) ends its key.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from steelyard_common.errors import ContentError, EngineError, SteelyardError

EVENTS = "workflows.events"
"""Commands, keyed by entity id; kept 14 days."""
STATE = "workflows.state"
"""The newest whole entity of each id; compacted. It is the truth."""
OUTCOMES = "workflows.outcomes"
"""Topic of outcomes: what became of each command; kept for an hour."""
DEAD = "workflows.dead"
"""Topic of dead letters: malformed messages, with the reason in their headers."""

QUARANTINE = "workflows.quarantine"
"""Entities whose later messages wait, since one was malformed; compacted."""
WAITING = "workflows.waiting"
"""Messages of entities in quarantine, in their order."""
HORIZON = "workflows.horizon"
"""Up to where tombstones of the state have expired, of each partition; compacted."""

AGGREGATOR = "workflows-aggregator"
"""Group of the aggregators, which share the partitions of `EVENTS`."""

COMPACTED = frozenset({STATE, QUARANTINE, HORIZON})
READ_BYTES = 1 << 20
"""Most bytes of values that one read returns, except for a single larger record: a record may have half a megabyte."""
UNREAD = 100_000
"""Number of unread records of a partition at which counting stops."""
PARTITIONS = 8
"""Number of partitions of every topic unless the settings say otherwise; fixed when the log is made."""


class LogError(SteelyardError, EngineError):
    """The log refused or failed; the message names the topic."""


class BadMessage(LogError, ContentError):
    """A message that the log cannot write; the log itself is well."""


class Fenced(LogError):
    """This member lost its partition to another one; nothing of the batch was written."""


Prepared = Literal["made", "settings altered", "up to date"]
"""Outcomes of making a log's topics ready."""


class PartitionsDiffer(LogError):
    """The log was made with another number of partitions."""


@dataclass(frozen=True)
class Message:
    """A record that is not written yet. `partition`: a state record goes to the partition that its event came from."""

    topic: str
    key: str
    value: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)
    partition: int | None = None


@dataclass(frozen=True)
class Record:
    """A written record and its position; offsets grow by at least one within a partition."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes | None
    headers: Mapping[str, str]
    written: datetime


@dataclass(frozen=True)
class Batch:
    """Records that one member of a group was given.

    `starts` is where each of their partitions stood, and `positions` where it goes on after them.
    """

    records: Sequence[Record]
    starts: Mapping[int, int]
    positions: Mapping[int, int]


class Inbox(Protocol):
    """One member of a consumer group on one topic; partitions are shared out among the members that live."""

    async def batch(self, limit: int = 500, wait: float = 1.0) -> Batch:
        """Records after the group's positions, of the partitions that this member holds.

        Waits up to `wait` seconds for the first one; an empty batch is possible. Every partition gets its share of
        the batch, so that none waits for another's backlog.
        """
        ...

    def pause(self, partition: int) -> None:
        """Give this member no more of a partition, which it keeps."""
        ...

    async def transact(self, batch: Batch, outputs: Sequence[Message] = ()) -> Sequence[Record]:
        """Write the outputs and the batch's positions, both or neither; durable when it returns.

        Raises Fenced when a partition of the batch is another's now, or has been moved since the batch was given.
        """
        ...

    async def close(self) -> None:
        """Give the partitions back at once."""
        ...


class Log(Protocol):
    """A log. `id` is random and made once, with the log; it is kept in the log itself.

    `epoch` grows when the log is rebuilt or accepted in another's place: offsets of another epoch cannot be compared. A
    new log begins with epoch 1. In Kafka both are one record of a compacted topic.
    """

    id: str
    epoch: int
    partitions: int

    async def begin_epoch(self, epoch: int) -> None:
        """Raise the epoch, durably. No other process may have the log open. Raises LogError unless it grows."""
        ...

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        """Append all of them or none; durable when it returns."""
        ...

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        """Records from offset `start` on: at most `limit` and READ_BYTES; of a compacted topic those that are left.

        Empty only where there are none.
        """
        ...

    async def read_each(
        self, topic: str, starts: Mapping[int, int], limit: int = 500
    ) -> Mapping[int, Sequence[Record]]:
        """Read several partitions, each from an offset of its own and as `read` does, in as few requests as one read.

        Partitions without records are left out.
        """
        ...

    async def ends(self, topic: str) -> Mapping[int, int]:
        """Return, for every partition, the offset that the next record will get or pass."""
        ...

    async def positions(self, group: str, topic: str) -> Mapping[int, int]:
        """Return where a group goes on, as it committed last; empty for a group that the log does not know."""
        ...

    async def unread(self, topic: str, positions: Mapping[int, int]) -> Mapping[int, int]:
        """Count the records that each of these partitions has from its position on.

        UNREAD stands for that many or more. A log that knows offsets alone may count what holds no record.
        """
        ...

    async def latest(self, topic: str, key: str) -> Record | None:
        """The newest record of a key in a compacted topic, tombstones included."""
        ...

    async def find_latest(self, topic: str, keys: Collection[str]) -> Mapping[str, Record]:
        """The newest records of several keys; keys without a record are left out."""
        ...

    def version(self) -> int:
        """A number that changes with every write of any process to a topic that this log has read.

        Take it before reading, and give it to `changed`.
        """
        ...

    async def wait_for_change(self, since: int, timeout: float) -> int:
        """The version, once it is another than `since` or `timeout` seconds have passed."""
        ...

    async def inbox(self, group: str, topic: str) -> Inbox:
        """Join a consumer group."""
        ...

    async def expire(self, topic: str, before: datetime) -> int:
        """Remove the records written before then; return their number.

        Of a compacted topic tombstones alone go, and of any topic nothing that one of its groups has yet to read.
        """
        ...

    async def facts(self) -> Sequence[str]:
        """Return what a person who checks the engine wants to know. Raises LogError where it could lose records."""
        ...

    async def close(self) -> None: ...
