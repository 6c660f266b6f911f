"""Follows the quarantines in the log, so that every answer about an entity in quarantine says so.

A quarantine lies in the log, whatever process its consumer runs in.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping

import orjson
from prometheus_client import CollectorRegistry, Gauge

from steelyard.broker.log import QUARANTINE, Log, LogError
from steelyard.broker.quarantine.administration import QuarantineEntry, parse_entry
from steelyard.broker.quarantine.dead_letters import COMMANDS
from steelyard.broker.scan import topic_pieces

REASON = "Quarantined"
_POLL_SECONDS = 0.25
"""Shortest time between two reads: the log changes with every command."""
_WAIT_SECONDS = 5.0
_log = logging.getLogger(__name__)


class QuarantineWatch:
    """Knows the entities in quarantine, as the log shows them."""

    def __init__(self, log: Log, registry: CollectorRegistry) -> None:
        self._log = log
        self._quarantines: dict[str, dict[str, QuarantineEntry]] = {}
        """Quarantines by entity id and consumer."""
        self._marks: dict[str, tuple[str, str]] = {}
        """Entity id and consumer by the key of the record that marks the quarantine."""
        self._offsets: dict[int, int] = {}
        self._gauge = Gauge(
            "steelyard_quarantined_entities",
            "Entities that a consumer has put in quarantine; alert when it is above 0.",
            ["consumer"],
            registry=registry,
        )
        self._gauge.labels(COMMANDS).set(0)

    async def run(self) -> None:
        """Follow the log until cancelled."""
        while True:
            version = self._log.version()
            try:
                await self.read()
                await self._log.wait_for_change(version, _WAIT_SECONDS)
            except LogError as error:
                _log.warning("cannot read the quarantines: %s", error)
            await asyncio.sleep(_POLL_SECONDS)

    async def read(self) -> None:
        """Read the records since the last call."""
        changed = False
        async for records in topic_pieces(self._log, QUARANTINE, self._offsets):
            for record in records:
                self._update(record.key, parse_entry(record))
                self._offsets[record.partition] = record.offset + 1
                changed = True
        if changed:
            counts = Counter(
                {COMMANDS: 0}
            )  # a gauge of 0 says that nothing is wrong; an absent one says nothing
            counts.update(consumer for _, consumer in self._marks.values())
            self._gauge.clear()
            for consumer, count in counts.items():
                self._gauge.labels(consumer).set(count)

    def _update(self, mark: str, quarantine: QuarantineEntry | None) -> None:
        """Replace the quarantine that a record marks; None ends it."""
        if mark in self._marks:
            id, consumer = self._marks.pop(mark)
            self._quarantines[id].pop(consumer, None)
            if not self._quarantines[id]:
                del self._quarantines[id]
        if quarantine is not None:
            self._marks[mark] = quarantine.key, quarantine.consumer
            self._quarantines.setdefault(quarantine.key, {})[quarantine.consumer] = quarantine

    def with_reason(self, id: str, json: bytes) -> bytes:
        """Return an entity's JSON; in quarantine, with that as its reason. Its status stays the last known one."""
        quarantines = self._quarantines.get(id)
        if not quarantines:
            return json
        return orjson.dumps({**orjson.loads(json), "reason": REASON, "message": _message(quarantines)})


def _message(quarantines: Mapping[str, QuarantineEntry]) -> str:
    """Return, for the entity's owner, the cause and who can do something about it."""
    causes = [
        f"a command could not be applied ({quarantine.reason}); {quarantine.waiting - 1} later ones wait"
        if consumer == COMMANDS
        else f"the {consumer} could not take its newest state ({quarantine.reason})"
        for consumer, quarantine in sorted(quarantines.items())
    ]
    return f"{'; '.join(causes)}: an administrator can release it (steelyard quarantine show)"
