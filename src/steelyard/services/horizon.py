"""The horizon of `workflows.state`, below which tombstones have expired: who has read less may never learn that
something was forgotten.

The reaper says it before it lets them expire; sinks that were away for longer read everything again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from steelyard.broker.log import HORIZON, STATE, Log, Message, Record


def raise_horizon(records: Sequence[Record], before: datetime) -> list[Message]:
    """Return the messages to write before older tombstones expire; `records` are those of the state."""
    horizon: dict[int, int] = {}
    for record in records:
        if record.value is None and record.written < before:
            horizon[record.partition] = max(record.offset + 1, horizon.get(record.partition, 0))
    return [Message(HORIZON, _key(partition), str(end).encode()) for partition, end in horizon.items()]


async def left_behind(log: Log, positions: Mapping[int, int]) -> bool:
    """Return whether a reader of the state, which is there now, may have missed a tombstone."""
    for partition in range(log.partitions):
        said = await log.latest(HORIZON, _key(partition))
        if said is not None and positions.get(partition, 0) < int(said.value or b"0"):
            return True
    return False


def _key(partition: int) -> str:
    return f"{STATE}/{partition}"
