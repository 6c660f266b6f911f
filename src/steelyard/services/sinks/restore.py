"""A log from its backup: what the log has lost is written to its state again. `steelyard log restore` calls it.

The backup holds the newest JSON of each entity and nothing of commands: what was accepted and not yet judged is sent
again from the outbox (`identity.py`), and everything else goes on from the states.
"""

from dataclasses import dataclass
from datetime import datetime

from steelyard.broker.log import EVENTS, STATE, Log, Message
from steelyard.broker.partition import partition_of
from steelyard.origin import Origin
from steelyard.schema.commands import command_time
from steelyard.schema.entities import stored_of
from steelyard.services.aggregator.messages import RECENT_ID
from steelyard.services.sinks.view import ENTITIES
from steelyard.storage.store import Store

BATCH = 500


@dataclass(frozen=True)
class Restored:
    """Number of entities that were written, and the objects of the backup that cannot be read as entities."""

    entities: int
    unreadable: tuple[str, ...]


async def restore(log: Log, backup: Store, origin: Origin | None, epoch: int, now: datetime) -> Restored:
    """Write what the log lacks, as of `epoch`, which is to be the log's next. `origin` is the backup's.

    Of an entity that both have, the backup's state counts where the backup had read further than the log now reaches.
    """
    newer = await _newer_partitions(log, origin)
    events = await log.ends(EVENTS)
    messages: list[Message] = []
    unreadable: list[str] = []
    entities = 0
    async for info in backup.list(ENTITIES):
        content = await backup.get(info.key)
        try:
            entity = stored_of(content)
        except ValueError:
            unreadable.append(info.key)
            continue
        partition = partition_of(entity.id, log.partitions)
        latest = await log.latest(STATE, entity.id)
        if latest is not None and (partition not in newer or latest.value == content):
            continue
        place = {"epoch": str(epoch), "partition": str(partition), "offset": str(events[partition] - 1)}
        # The aggregator's headers of a state that has seen every command so far: what is left in `workflows.events`
        # counts as applied.
        command = entity.metadata.revision or ""
        headers = {"id": command, "source": "restore", "recent": command[:RECENT_ID], **place}
        headers["time"] = command_time(now)
        messages.append(Message(STATE, entity.id, content, headers, partition))
        if len(messages) == BATCH:
            entities += len(await log.publish(messages))
            messages = []
    entities += len(await log.publish(messages))
    return Restored(entities, tuple(unreadable))


async def _newer_partitions(log: Log, origin: Origin | None) -> frozenset[int]:
    """Partitions of which the backup has read more than the log still has."""
    if origin is None or origin.log != log.id:
        return frozenset()
    ends = await log.ends(STATE)
    return frozenset(
        partition
        for partition, read in origin.positions.get(STATE, {}).items()
        if read > ends.get(partition, 0)
    )
