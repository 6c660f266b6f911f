"""Both forms of the log keep to the contract; the file form also among processes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.broker.contract import CASES, Case, everything, message
from steelyard.broker.log import EVENTS, STATE, Log, LogError, PartitionsDiffer
from steelyard.broker.open import open_log
from steelyard.broker.partition import murmur2

HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"abc": 479470107,
}
"""As Kafka's own tests of its client give them."""


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    opened = await open_log("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'log.db'}")
    yield opened
    await opened.close()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_log_keeps_to_the_contract(log: Log, case: Case) -> None:
    await case(log)


@pytest.mark.parametrize(("data", "hashed"), HASHES.items())
def test_keys_are_hashed_as_kafka_hashes_them(data: bytes, hashed: int) -> None:
    assert murmur2(data) == hashed


async def test_the_number_of_partitions_is_fixed(tmp_path: Path) -> None:
    await (await open_log(f"sqlite:{tmp_path / 'log.db'}", 4)).close()
    with pytest.raises(PartitionsDiffer, match="has 4 partitions, not 8"):
        await open_log(f"sqlite:{tmp_path / 'log.db'}", 8)


@pytest.mark.parametrize("url", ["", "sqlite:", "kafka:9092", "/tmp/log.db"])
async def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(LogError, match="sqlite:PATH"):
        await open_log(url)


WORKER = """
import asyncio, sys
from steelyard.broker.log import EVENTS, STATE, Message
from steelyard.broker.open import open_log

async def main(path):
    log = await open_log(f"sqlite:{path}")
    inbox = await log.inbox("group", EVENTS)
    while True:
        batch = await inbox.batch(limit=3, wait=0.2)
        for record in batch.records:
            before = await log.latest(STATE, record.key)
            count = int(before.value) if before else 0
        outputs = []
        counts = {}
        for record in batch.records:
            before = await log.latest(STATE, record.key)
            counts[record.key] = counts.get(record.key, int(before.value) if before else 0) + 1
        outputs = [Message(STATE, key, str(n).encode()) for key, n in counts.items()]
        await inbox.transact(batch, outputs)
        print(len(batch.records), flush=True)

asyncio.run(main(sys.argv[1]))
"""
"""Counts the events of each key."""


def _work_until_killed(path: Path, batches: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(batches):
            process.stdout.readline()
        process.kill()


async def test_members_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = await open_log(f"sqlite:{path}")
    await log.publish([message(f"k{number % 10}") for number in range(60)])
    for batches in (1, 3, 2):
        await asyncio.to_thread(_work_until_killed, path, batches)
    # The survivor takes over at once from those that were killed.
    counting = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, str(path), stdout=-3)
    async with asyncio.timeout(30):
        while sum(int(each.value or b"0") for each in await everything(log, STATE)) < 60:
            await log.changed(log.version(), 0.1)
    counting.kill()
    await counting.wait()
    assert {each.key: each.value for each in await everything(log, STATE)} == {
        f"k{n}": b"6" for n in range(10)
    }
    assert len(await everything(log, EVENTS)) == 60
    await log.close()
