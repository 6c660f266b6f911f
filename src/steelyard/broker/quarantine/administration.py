"""The list of the quarantine, and its end by an administrator: the API calls it, and with it the command line.

All of it lies in the log, so that it says the same in whatever process a consumer runs, and survives all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from steelyard.broker.log import EVENTS, QUARANTINE, Log, Record
from steelyard.broker.quarantine.dead_letters import COMMANDS, drop, read_mark, release
from steelyard.broker.quarantine.marks import RELEASED, find_owner, mark
from steelyard.broker.scan import partition_records


@dataclass(frozen=True)
class QuarantineEntry:
    """An entity that a consumer has put in quarantine; `waiting` messages are held back with it."""

    key: str
    consumer: str
    reason: str
    since: str
    waiting: int = 0


def parse_entry(record: Record) -> QuarantineEntry | None:
    """Quarantine that a record of the topic describes; None where the record ends it."""
    if record.value is None:
        return None
    said = read_mark(record.value)
    consumer, key = find_owner(record)
    since = said.get("since") or record.written.isoformat()
    return QuarantineEntry(key, consumer, said["reason"], since, said.get("waiting", 0))


async def list_entries(log: Log) -> list[QuarantineEntry]:
    """List all quarantines, the longest first."""
    held: dict[str, QuarantineEntry | None] = {}
    for partition in await log.ends(QUARANTINE):
        # To the end, not to where it was when this began: a mark that is written again meanwhile has left its old
        # offset, and a list up to the old end would lack its entity.
        async for record in partition_records(log, QUARANTINE, partition):
            held[record.key] = parse_entry(record)
    entities = [entity for entity in held.values() if entity is not None]
    return sorted(entities, key=lambda entity: (entity.since, entity.key, entity.consumer))


async def end_quarantine(log: Log, entities: Sequence[QuarantineEntry], *, dropping: bool) -> None:
    """Let consumers try again what they could not take, or `dropping` go on without it."""
    for entity in entities:
        if entity.consumer == COMMANDS:
            await (drop if dropping else release)(log, EVENTS, entity.key)
        elif dropping:
            await log.publish([mark(entity.consumer, entity.key, None)])
        else:
            said = {"reason": entity.reason, "since": entity.since, "waiting": 0, RELEASED: True}
            await log.publish([mark(entity.consumer, entity.key, orjson.dumps(said))])
