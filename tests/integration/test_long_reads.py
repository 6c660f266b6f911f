"""A million entities in the log's file: whoever reads them all delays no lease and no other task of its process.

The small form, which counts instead of measuring, is `services/test_long_reads.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from steelyard.broker.follow import follow
from steelyard.broker.log import EVENTS, QUARANTINE, STATE, Log, Message, Record
from steelyard.broker.open import open_log
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.scan import topic_pieces
from steelyard.services.reaper.reaper import reap
from steelyard_kube.leader import Candidate, LeaderElector, SystemClock, Timing
from steelyard_kube.memory import MemoryCluster
from steelyard_schema.retention import DELETED_FOR

ENTITIES = 1_000_000
DELETED_OF = 10
"""One of so many is due for the reaper."""
CHUNK = 5000
TIMING = Timing(duration=4, deadline=2.0, retry=0.5)
"""Shorter than that of the platform, which has 15, 10 and 2 s."""
OLD = datetime.now(UTC) - 2 * DELETED_FOR


def state_of(number: int) -> Message:
    status = "Deleted" if number % DELETED_OF == 0 else "Ready"
    id, time = f"{number:032x}", OLD.isoformat().replace("+00:00", "Z")
    value = (
        f'{{"id":"{id}","kind":"Dataset","account":"acme","schemaVersion":"0.1","creationTime":"{time}",'
        f'"lastTransitionTime":"{time}","status":"{status}","name":"{"x" * 100}"}}'
    )
    headers = {"id": id, "source": "api", "time": time, "epoch": "1", "partition": "0", "offset": str(number)}
    return Message(STATE, id, value.encode(), headers)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    opened = await open_log(f"sqlite:{tmp_path / 'log.db'}")
    for start in range(0, ENTITIES, CHUNK):
        await opened.publish([state_of(number) for number in range(start, start + CHUNK)])
    yield opened
    await opened.close()


class Counting:
    """An outlet that keeps nothing."""

    def __init__(self) -> None:
        self.count = 0

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return {}

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        self.count += len(records)


async def _reap(log: Log) -> None:
    assert await reap(log, datetime.now(UTC)) == ENTITIES // DELETED_OF
    sizes = [len(records) async for records in topic_pieces(log, EVENTS)]
    assert sum(sizes) == ENTITIES // DELETED_OF


async def _follow(log: Log) -> None:
    outlet, stop = Counting(), asyncio.Event()
    await follow(log, STATE, outlet, consumer="sink", stop=stop, caught_up=stop.set)
    assert outlet.count == ENTITIES


async def _quarantined(log: Log) -> None:
    headers = {"consumer": "sink"}
    for start in range(0, ENTITIES // 10, CHUNK):
        keys = (f"sink/{number}" for number in range(start, min(start + CHUNK, ENTITIES // 10)))
        await log.publish([Message(QUARANTINE, key, b'{"reason":"KeyError"}', headers) for key in keys])
    assert len(await list_entries(log)) == ENTITIES // 10


READERS = (_reap, _follow, _quarantined)


@pytest.mark.soak
@pytest.mark.timeout(3000)
async def test_a_million_records_delay_no_lease(log: Log) -> None:
    cluster, clock = MemoryCluster(), SystemClock()
    for number, read in enumerate(READERS):
        candidate = Candidate(f"reader-{number}", clock, timing=TIMING)
        elector = LeaderElector(cluster, candidate, namespace="default", name="reader")
        turns = asyncio.create_task(_longest_turn(clock))
        await elector.lead(partial(read, log))  # raises LeaseLost when the lease could not be renewed
        turns.cancel()
        longest = await turns
        print(f"{read.__name__}: {ENTITIES} entities, another task waited {longest * 1000:.0f} ms at most")
        assert longest < TIMING.deadline


async def _longest_turn(clock: SystemClock) -> float:
    """Return the longest time that a task that is always ready had to wait for its turn, until it is
    cancelled.
    """
    longest, last = 0.0, clock.monotonic()
    try:
        while True:
            await asyncio.sleep(0.001)
            now = clock.monotonic()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest
