"""Every log keeps to the contract; keys and partitions are as in Kafka."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.broker.log import Log, LogError, PartitionsDiffer
from steelyard.broker.open import open_log
from steelyard.broker.partition import murmur2
from steelyard.testing.engines import log as log_suite
from steelyard.testing.engines import log_groups

CASES = log_suite.CASES | log_groups.CASES
HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Hashes that Kafka's own tests of its client give."""


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    opened = await open_log("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'log.db'}")
    yield opened
    await opened.close()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_log_keeps_to_the_contract(log: Log, case: log_suite.Case) -> None:
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


async def test_a_password_is_in_no_message_about_an_address() -> None:
    with pytest.raises(LogError, match=r"^log 'kafak://user:\*\*\*@broker:9092': should be"):
        await open_log("kafak://user:secret@broker:9092")
