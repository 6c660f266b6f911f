"""The loop: positions with outputs, dead letters, quarantine and its end, a schema of the future."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from steelyard.broker.consume import Malformed, StopPartition, consume_once, follow, release, waiting_of
from steelyard.broker.contract import everything, message
from steelyard.broker.log import DEAD, EVENTS, OUTCOMES, Message, Record
from steelyard.broker.memory import MemoryLog
from steelyard.broker.partition import partition_of


class Echo:
    """Says each value again; `bad` is malformed until it is mended, `future` is not for us."""

    def __init__(self) -> None:
        self.bad = {b"bad"}

    def begin(self) -> None:
        return None

    async def step(self, record: Record) -> Sequence[Message]:
        if record.value in self.bad:
            raise Malformed("value: is bad")
        if record.value == b"future":
            raise StopPartition("schema 9.9")
        return [Message(OUTCOMES, record.key, record.value)]


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def work_off(log: MemoryLog, step: Echo) -> list[bytes | None]:
    inbox = await log.inbox("group", EVENTS)
    for _ in range(5):
        await consume_once(log, await inbox.batch(wait=0), inbox.transact, step)
    await inbox.close()
    return [each.value for each in await everything(log, OUTCOMES)]


async def test_a_malformed_message_is_put_aside_and_its_entity_waits(log: MemoryLog) -> None:
    await log.publish([message("a", "1"), message("a", "bad"), message("a", "2"), message("b", "3")])
    await log.publish([message("a", "4")])
    step = Echo()
    assert sorted(filter(None, await work_off(log, step))) == [b"1", b"3"]
    (dead,) = await everything(log, DEAD)
    assert (dead.value, dead.headers["reason"]) == (b"bad", "value: is bad")
    assert [each.value for each in await waiting_of(log, "a")] == [b"2", b"4"]
    await release(log, EVENTS, "a")
    await log.publish([message("a", "5")])
    said = [value for value in await work_off(log, step) if value != b"3"]
    assert said == [b"1", b"2", b"4", b"5"]
    assert await waiting_of(log, "a") == []


async def test_what_waits_may_be_malformed_too(log: MemoryLog) -> None:
    await log.publish([message("a", each) for each in ("bad", "1", "bad", "2")])
    step = Echo()
    await work_off(log, step)
    await release(log, EVENTS, "a")
    assert await work_off(log, step) == [b"1"]
    await release(log, EVENTS, "a")
    assert await work_off(log, step) == [b"1", b"2"]


async def test_the_origin_of_what_waited_is_kept(log: MemoryLog) -> None:
    (_, second) = await log.publish([message("a", "bad", id="x"), message("a", "1", id="y")])
    await work_off(log, Echo())
    (waiting,) = await waiting_of(log, "a")
    assert replace(waiting, written=second.written) == second


async def test_a_schema_of_the_future_stops_its_partition_alone(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.broker.consume.WAIT_SECONDS", 0.0)
    other = next(key for key in "bcdefgh" if partition_of(key, 8) != partition_of("a", 8))
    await log.publish([message("a", "1"), message("a", "future"), message("a", "2"), message(other, "3")])
    assert sorted(filter(None, await work_off(log, Echo()))) == [b"1", b"3"]
    assert await everything(log, DEAD) == []


class Kept:
    """An outlet in memory."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}
        self.seen: list[bytes | None] = []

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return self.at

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        self.at.update(positions)
        self.seen += [each.value for each in records]


async def test_an_outlet_gets_everything_once_and_goes_on_where_it_was(log: MemoryLog) -> None:
    outlet = Kept()
    for round_ in range(2):
        await log.publish([message(f"k{n}", f"{round_}-{n}") for n in range(5)])
        stop, ready = asyncio.Event(), asyncio.Event()
        following = asyncio.create_task(follow(log, EVENTS, outlet, stop=stop, caught_up=ready.set))
        async with asyncio.timeout(5):
            await ready.wait()
            await log.publish([message("k9", f"{round_}-late")])
            while f"{round_}-late".encode() not in outlet.seen:  # noqa: ASYNC110  (the outlet has no event)
                await asyncio.sleep(0)
        stop.set()
        await following
    assert len(outlet.seen) == len(set(outlet.seen)) == 12
