"""Followers of a state: what their outlets cannot take is put aside alone, and tried again."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from steelyard.broker.follow import follow
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import QUARANTINE, STATE, Message, Record
from steelyard.broker.quarantine.administration import end_quarantine, list_entries
from steelyard.broker.quarantine.marks import Aside
from steelyard.broker.retries import Retries
from steelyard.broker.test_isolation import ENGINES, FAULTS
from steelyard.testing.engines.log import message


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


class MemoryOutlet:
    """An outlet in memory that cannot take some values."""

    def __init__(self, *bad: bytes, error: Exception = FAULTS[0]) -> None:
        self.at: dict[int, int] = {}
        self.kept: dict[str, bytes | None] = {}
        self.bad, self.error = set(bad), error

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return self.at

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        if any(record.value in self.bad for record in records):
            raise type(self.error)(*self.error.args)
        self.kept |= {record.key: record.value for record in records}
        self.at |= positions


async def caught_up(log: MemoryLog, outlet: MemoryOutlet) -> None:
    """A consumer starts, reads what there is, and ends."""
    stop = asyncio.Event()
    async with asyncio.timeout(60):
        await follow(log, STATE, outlet, consumer="sink", stop=stop, caught_up=stop.set, retries=Retries(()))


def states(**values: str) -> list[Message]:
    return [message(key, value, STATE) for key, value in values.items()]


async def test_a_state_that_an_outlet_cannot_take_is_left_out_alone(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    await log.publish(states(**{f"k{number}": str(number) for number in range(40)}))
    await log.publish(states(bad="odd"))
    outlet = MemoryOutlet(b"odd")
    await caught_up(log, outlet)
    assert len(outlet.kept) == 40
    assert outlet.at == {partition: end for partition, end in (await log.ends(STATE)).items() if end}
    (held,) = await list_entries(log)
    assert (held.key, held.consumer, held.waiting) == ("bad", "sink", 0)
    written = log.written
    await caught_up(log, outlet)
    assert log.written == written, "put aside once, however often it starts"
    assert len([line for line in caplog.records if line.levelname == "CRITICAL"]) == 1


async def test_the_next_state_ends_it(log: MemoryLog) -> None:
    outlet = MemoryOutlet(b"odd")
    await log.publish(states(a="odd"))
    await caught_up(log, outlet)
    await log.publish(states(a="1"))
    await caught_up(log, outlet)
    assert outlet.kept == {"a": b"1"}
    assert await list_entries(log) == []


async def test_a_program_that_can_take_it_takes_it_at_its_start(log: MemoryLog) -> None:
    outlet = MemoryOutlet(b"odd")
    await log.publish(states(a="odd"))
    await caught_up(log, outlet)
    outlet.bad.clear()
    await caught_up(log, outlet)
    assert outlet.kept == {"a": b"odd"}
    assert await list_entries(log) == []


@pytest.mark.parametrize("dropping", [False, True])
async def test_a_release_reaches_an_outlet_that_runs(log: MemoryLog, dropping: bool) -> None:
    outlet, stop, ready = MemoryOutlet(b"odd"), asyncio.Event(), asyncio.Event()
    await log.publish(states(a="odd", b="1"))
    following = asyncio.create_task(
        follow(log, STATE, outlet, consumer="sink", stop=stop, caught_up=ready.set, retries=Retries(()))
    )
    async with asyncio.timeout(60):
        await ready.wait()
        held, written = await list_entries(log), log.written
        await end_quarantine(log, held, dropping=False)
        while log.written < written + 2:  # it fails again, and says so
            await log.wait_for_change(log.version(), 1)
        assert await list_entries(log) == held
        outlet.bad.clear()
        await end_quarantine(log, held, dropping=dropping)
        while await list_entries(log):
            await log.wait_for_change(log.version(), 1)
        stop.set()
        await following
    assert outlet.kept == {"b": b"1", **({} if dropping else {"a": b"odd"})}


@pytest.mark.parametrize("error", ENGINES, ids=lambda error: type(error).__name__)
async def test_an_engine_that_fails_ends_an_outlets_consumer(log: MemoryLog, error: Exception) -> None:
    await log.publish(states(a="odd", b="1"))
    with pytest.raises(type(error)):
        await caught_up(log, MemoryOutlet(b"odd", error=error))
    assert await list_entries(log) == []


async def test_who_puts_aside_is_told_once_and_forgets_at_the_end(log: MemoryLog) -> None:
    aside = await Aside.open(log, "reaper")
    for _ in range(2):
        await aside.put("a", "KeyError: 'kind'")
    await (await Aside.open(log, "informer")).put("a", "ValueError")
    assert log.written == 2
    assert (await Aside.open(log, "reaper")).keys == {"a"}
    await aside.clear("a")
    await aside.clear("a")
    assert [(entity.key, entity.consumer) for entity in await list_entries(log)] == [("a", "informer")]


@pytest.mark.parametrize(
    "value", [b"{", b"[]", b'"odd"', b'{"reason":1}', b'{"reason":"x","waiting":"many"}']
)
async def test_a_mark_that_cannot_be_read_is_a_mark(log: MemoryLog, value: bytes) -> None:
    await log.publish([Message(QUARANTINE, "sink/a", value, {"consumer": "sink"})])
    (held,) = await list_entries(log)
    assert (held.key, held.reason, held.waiting) == ("a", "its mark cannot be read", 0)
    aside = await Aside.open(log, "sink")
    assert aside.keys == {"a"}
    await aside.clear("a")
    assert await list_entries(log) == []
