"""The loop: positions with outputs, dead letters, quarantine and its end, a schema of the future."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from steelyard.broker.consume import (
    Malformed,
    StopPartition,
    consume,
    consume_once,
    drop,
    list_waiting,
)
from steelyard.broker.follow import follow
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import DEAD, EVENTS, OUTCOMES, STATE, LogError, Message, Record
from steelyard.broker.partition import find_partition
from steelyard.testing.engines.log import LATER, everything, message


class Echo:
    """Says each value again; `bad` is malformed until it is mended, `future` is not for us."""

    def __init__(self) -> None:
        self.bad = {b"bad"}
        self.future = b"future"

    def begin(self) -> None:
        return None

    async def prepare(self, records: Sequence[Record]) -> None:
        """Read nothing before a step."""

    async def step(self, record: Record) -> Sequence[Message]:
        if record.value in self.bad:
            raise Malformed("value: is bad")
        if record.value == self.future:
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
    return [record.value for record in await everything(log, OUTCOMES)]


async def test_a_malformed_message_is_put_aside_and_its_entity_waits(log: MemoryLog) -> None:
    await log.publish([message("a", "1"), message("a", "bad"), message("a", "2"), message("b", "3")])
    await log.publish([message("a", "4")])
    step = Echo()
    assert sorted(filter(None, await work_off(log, step))) == [b"1", b"3"]
    (dead,) = await everything(log, DEAD)
    assert (dead.value, dead.headers["reason"]) == (b"bad", "value: is bad")
    assert [record.value for record in await list_waiting(log, "a")] == [b"bad", b"2", b"4"]
    await drop(log, EVENTS, "a")
    await log.publish([message("a", "5")])
    said = [value for value in await work_off(log, step) if value != b"3"]
    assert said == [b"1", b"2", b"4", b"5"]
    assert await list_waiting(log, "a") == []


async def test_what_waits_may_be_malformed_too(log: MemoryLog) -> None:
    await log.publish([message("a", text) for text in ("bad", "1", "bad", "2")])
    step = Echo()
    await work_off(log, step)
    await drop(log, EVENTS, "a")
    assert await work_off(log, step) == [b"1"]
    await drop(log, EVENTS, "a")
    assert await work_off(log, step) == [b"1", b"2"]


async def test_the_origin_of_what_waited_is_kept(log: MemoryLog) -> None:
    (_, second) = await log.publish([message("a", "bad", id="x"), message("a", "1", id="y")])
    await work_off(log, Echo())
    (_, waiting) = await list_waiting(log, "a")
    assert replace(waiting, written=second.written) == second


async def test_what_is_released_in_the_batch_in_which_it_waits_is_not_lost(log: MemoryLog) -> None:
    await log.publish([message("a", "bad")])
    step = Echo()
    await work_off(log, step)
    await log.publish([message("a", "1")])
    await drop(log, EVENTS, "a")
    await log.publish([message("a", "2")])
    assert await work_off(log, step) == [b"1", b"2"]


async def test_a_schema_of_the_future_stops_its_partition_alone(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    other = next(key for key in "bcdefgh" if find_partition(key, 8) != find_partition("a", 8))
    await log.publish([message("a", "1"), message("a", "future"), message("a", "2"), message(other, "3")])
    async with consuming(log, Echo()):
        await said(log, b"1", b"3")
        await log.publish([message("a", "4"), message(other, "5")])
        await said(log, b"1", b"3", b"5")
    assert await everything(log, DEAD) == []
    (alert,) = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert f"partition {find_partition('a', 8)}, offset 1: schema 9.9" in alert.getMessage()
    # A program that can read it goes on exactly there.
    step = Echo()
    step.future = b"none"
    assert sorted(filter(None, await work_off(log, step))) == [b"1", b"2", b"3", b"4", b"5", b"future"]


@asynccontextmanager
async def consuming(log: MemoryLog, step: Echo) -> AsyncIterator[None]:
    stop = asyncio.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steelyard.broker.consume.WAIT_SECONDS", 3600.0)
        running = asyncio.create_task(consume(log, "group", EVENTS, step, stop=stop))
        try:
            yield
        finally:
            stop.set()
            async with asyncio.timeout(30):  # it does not sit a wait out
                await running


async def said(log: MemoryLog, *values: bytes) -> None:
    async with asyncio.timeout(60):
        while sorted(record.value or b"" for record in await everything(log, OUTCOMES)) != sorted(values):
            await log.wait_for_change(log.version(), 1)


async def test_one_who_is_fenced_goes_on_with_what_it_has(log: MemoryLog) -> None:
    class Slow(Echo):
        async def step(self, record: Record) -> Sequence[Message]:
            if record.value == b"1":
                log.rewind("group", EVENTS, {record.partition: 1})  # another one has done it meanwhile
            return await super().step(record)

    async with consuming(log, Slow()):
        await log.publish([message("a", "1")])
        await log.publish([message("a", "2")])
        await said(log, b"2")


class MemoryOutlet:
    """An outlet in memory."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}
        self.seen: list[bytes | None] = []

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return self.at

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        self.at.update(positions)
        self.seen += [record.value for record in records]


async def test_an_outlet_gets_everything_once_and_goes_on_where_it_was(log: MemoryLog) -> None:
    outlet = MemoryOutlet()
    for round_ in range(2):
        await log.publish([message(f"k{n}", f"{round_}-{n}") for n in range(5)])
        stop, ready = asyncio.Event(), asyncio.Event()
        following = asyncio.create_task(
            follow(log, EVENTS, outlet, consumer="kept", stop=stop, caught_up=ready.set)
        )
        async with asyncio.timeout(60):
            await ready.wait()
            await log.publish([message("k9", f"{round_}-late")])
            while f"{round_}-late".encode() not in outlet.seen:  # noqa: ASYNC110  (the outlet has no event)
                await asyncio.sleep(0)
        stop.set()
        await following
    assert len(outlet.seen) == len(set(outlet.seen)) == 12


class Busy(MemoryOutlet):
    """An outlet during whose work another record comes."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__()
        self._log = log

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        await super().apply(records, epoch, positions)
        await self._log.publish([message(record.key) for record in records])


async def test_an_outlet_catches_up_also_while_ever_more_comes(log: MemoryLog) -> None:
    await log.publish([message(f"k{n}") for n in range(5)])
    stop, ready = asyncio.Event(), asyncio.Event()
    following = asyncio.create_task(
        follow(log, EVENTS, Busy(log), consumer="kept", stop=stop, caught_up=ready.set)
    )
    async with asyncio.timeout(60):
        await ready.wait()
        stop.set()
        await following


async def test_an_outlet_has_caught_up_when_the_last_record_is_gone(log: MemoryLog) -> None:
    await log.publish([message("a", "1", STATE), message("b", "1", STATE), message("b", None, STATE)])
    await log.expire(STATE, LATER)
    outlet, caught_up = MemoryOutlet(), []
    stop = asyncio.Event()

    def ready() -> None:
        caught_up.append(list(outlet.seen))
        stop.set()

    async with asyncio.timeout(60):
        await follow(log, STATE, outlet, consumer="kept", stop=stop, caught_up=ready)
    assert caught_up == [[b"1"]]


async def test_an_outlet_acts_after_it_has_all_that_was_there(log: MemoryLog) -> None:
    await log.publish([message(f"k{n % 7}", str(n)) for n in range(2000)])
    outlet, seen = MemoryOutlet(), []
    stop = asyncio.Event()

    def ready() -> None:
        seen.append(len(outlet.seen))
        stop.set()

    await follow(log, EVENTS, outlet, consumer="kept", stop=stop, caught_up=ready)
    assert seen == [2000]


async def test_a_log_that_fails_ends_who_follows_it(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(since: int, timeout: float) -> int:
        raise LogError("the disk is full")

    monkeypatch.setattr(log, "wait_for_change", fails)
    with pytest.raises(LogError, match="disk is full"):
        await follow(log, EVENTS, MemoryOutlet(), consumer="kept", stop=asyncio.Event())
    with pytest.raises(LogError, match="disk is full"):
        await consume(log, "group", EVENTS, Echo(), stop=asyncio.Event())
