"""Entities that one consumer has put in quarantine: marks in QUARANTINE under its name, which survive it, and which
people see.

For consumers that follow a state (`follow.py`), and for services that check each entity from time to time. Nothing
waits behind such a mark: it ends when the entity is taken after all. A release is a mark of the same key that asks for
another try; a drop removes the mark, and the entity's next change is tried as any other.
"""

import logging

import orjson

from steelyard.broker.log import QUARANTINE, Log, Message, Record
from steelyard.broker.quarantine.dead_letters import COMMANDS, printable, read_mark
from steelyard.broker.scan import topic_pieces

RELEASED = "released"
_log = logging.getLogger(__name__)


class Aside:
    """The entities that a consumer could not take. Made by `open`."""

    def __init__(self, log: Log, consumer: str) -> None:
        self.consumer = consumer
        self._log = log
        self._reasons: dict[str, str] = {}
        self._since: dict[str, str] = {}
        self._at: dict[int, int] = {}

    @classmethod
    async def open(cls, log: Log, consumer: str) -> "Aside":
        """Open what a consumer has put in quarantine, with the marks that the log holds."""
        aside = cls(log, consumer)
        await aside.read_releases()
        return aside

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._reasons)

    async def put(self, key: str, reason: str) -> None:
        """Put an entity aside. Nothing is written or reported where it was put aside for the same reason."""
        reason = printable(reason)
        if self._reasons.get(key) == reason:
            return
        _log.critical(
            "%s: %s is put in quarantine: %s; see steelyard quarantine show %s",
            self.consumer,
            key,
            reason,
            key,
        )
        await self._write(key, orjson.dumps({"reason": reason, "since": self._since.get(key), "waiting": 0}))
        self._reasons[key] = reason

    async def clear(self, key: str) -> None:
        """Take back the mark of an entity that was taken after all; does nothing where there is none."""
        if key in self._reasons:
            await self._write(key, None)
            del self._reasons[key]
            self._since.pop(key, None)

    async def read_releases(self) -> frozenset[str]:
        """Read what others have written; return the entities that an administrator wants to be tried again.

        Reads nothing while nothing is put aside.
        """
        if self._at and not self._reasons:
            return frozenset()
        again: set[str] = set()
        async for records in topic_pieces(self._log, QUARANTINE, self._at):
            for record in records:
                self._at[record.partition] = record.offset + 1
                self._see(record, again)
        self._at = self._at or {0: 0}
        return frozenset(again)

    def _see(self, record: Record, again: set[str]) -> None:
        consumer, key = find_owner(record)
        if consumer != self.consumer:
            return
        again.discard(key)
        if record.value is None:
            self._reasons.pop(key, None)
            return
        said = read_mark(record.value)
        self._reasons[key] = said["reason"]
        self._since[key] = said.get("since") or record.written.isoformat()
        if said.get(RELEASED):
            self._reasons[key] = ""  # another failure, for the same reason too, is written down
            again.add(key)

    async def _write(self, key: str, value: bytes | None) -> None:
        await self._log.publish([mark(self.consumer, key, value)])


def mark(consumer: str, key: str, value: bytes | None) -> Message:
    """The message that puts an entity aside, asks for another try, or ends it."""
    return Message(QUARANTINE, f"{consumer}/{key}", value, {"consumer": consumer})


def find_owner(record: Record) -> tuple[str, str]:
    """The consumer and the entity of a mark."""
    consumer = record.headers.get("consumer", COMMANDS)
    return consumer, record.key if consumer == COMMANDS else record.key.removeprefix(f"{consumer}/")
