"""A log from its backup: what the log has lost is written to its state again. `steelyard log restore` calls it.

The backup holds the newest JSON of each entity and nothing of commands: accepted commands without an outcome are sent
again from the outbox (`identity.py`), and everything else goes on from the states.
"""

from dataclasses import dataclass
from datetime import datetime

from steelyard.broker.log import EVENTS, STATE, Log, Message
from steelyard.broker.partition import find_partition
from steelyard.broker.scan import topic_pieces
from steelyard.engines.origin import Origin
from steelyard.services.aggregator.messages import RECENT_ID
from steelyard.services.sinks.view import ENTITIES
from steelyard_evaluation.storage.store import Store
from steelyard_schema.commands import command_time
from steelyard_schema.entities import parse_stored

BATCH = 500
SOURCE = "restore"
"""Source of the states that were written from a backup."""
NEWER = "newer-partitions"
"""Header of these states: the partitions that the backup had read further than the log had reached before."""


@dataclass(frozen=True)
class RestoreResult:
    """Number of entities that were written, and the objects of the backup that cannot be read as entities."""

    entities: int
    unreadable: tuple[str, ...]


async def restore(log: Log, backup: Store, origin: Origin | None, epoch: int, now: datetime) -> RestoreResult:
    """Write what the log lacks, as of `epoch`, which is to be the log's next. `origin` is the backup's.

    Of an entity that both have, the backup's state counts where the backup had read further than the log now reaches.
    A call that was cut short is simply repeated.
    """
    newer = await _read_notes(log, epoch)
    if newer is None:
        newer = await _newer_partitions(log, origin)
    events = await log.ends(EVENTS)
    messages: list[Message] = []
    unreadable: list[str] = []
    entities = 0
    async for info in backup.list(ENTITIES):
        content = await backup.get(info.key)
        try:
            entity = parse_stored(content)
        except ValueError:
            unreadable.append(info.key)
            continue
        partition = find_partition(entity.id, log.partitions)
        latest = await log.latest(STATE, entity.id)
        if latest is not None and (partition not in newer or latest.value == content):
            continue
        place = {"epoch": str(epoch), "partition": str(partition), "offset": str(events[partition] - 1)}
        # The aggregator's headers of a state that has seen every command so far: what is left in `workflows.events`
        # counts as applied.
        command = entity.metadata.revision or ""
        headers = {"id": command, "source": SOURCE, "recent": command[:RECENT_ID], **place}
        headers |= {"time": command_time(now), NEWER: ",".join(map(str, sorted(newer)))}
        messages.append(Message(STATE, entity.id, content, headers, partition))
        if len(messages) == BATCH:
            entities += len(await log.publish(messages))
            messages = []
    entities += len(await log.publish(messages))
    return RestoreResult(entities, tuple(unreadable))


async def _read_notes(log: Log, epoch: int) -> frozenset[int] | None:
    """Return the partitions that an earlier call has noted, before it was cut short; None where there was none.

    What that call wrote has made the log longer, and the backup would seem to have read no more than that.
    """
    async for records in topic_pieces(log, STATE):
        for headers in (record.headers for record in records):
            if (headers.get("source"), headers.get("epoch")) == (SOURCE, str(epoch)) and NEWER in headers:
                return frozenset(int(partition) for partition in headers[NEWER].split(",") if partition)
    return None


async def _newer_partitions(log: Log, origin: Origin | None) -> frozenset[int]:
    """Partitions that the backup has read beyond the log's present end."""
    if origin is None or origin.log != log.id:
        return frozenset()
    ends = await log.ends(STATE)
    return frozenset(
        partition
        for partition, read in origin.positions.get(STATE, {}).items()
        if read > ends.get(partition, 0)
    )
