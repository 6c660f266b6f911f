"""One record's fault is its own: what is tried again, what is put aside, who waits, and what ends a consumer."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from steelyard.broker.aside import Aside
from steelyard.broker.consume import consume, consume_once, waiting_of
from steelyard.broker.contract import everything, message
from steelyard.broker.follow import follow
from steelyard.broker.log import (
    DEAD,
    EVENTS,
    OUTCOMES,
    QUARANTINE,
    STATE,
    BadMessage,
    LogError,
    Message,
    Record,
)
from steelyard.broker.memory import MemoryLog
from steelyard.broker.quarantined import end_quarantine, quarantined
from steelyard.broker.retries import ALLOWANCE, PAUSES, WINDOW, Retries
from steelyard.errors import EngineError

FAULTS: list[Exception] = [
    OverflowError("Integer exceeds 64-bit range"),
    RecursionError("maximum recursion depth exceeded"),
    ValueError("half a \ud800 character"),
    KeyError("kind"),
    MemoryError(),
]
ENGINES: list[Exception] = [
    LogError("the disk is full"),
    EngineError("the database is locked"),
    OSError(28, "No space left on device"),
]


class Echo:
    """Says each value again. At some values it raises, as often as `faults` says; `astray` has a bad output."""

    def __init__(self, *, error: Exception = FAULTS[0], times: int = 1 << 30) -> None:
        self.error, self.left = error, times
        self.astray = True
        self.seen: list[bytes | None] = []

    def begin(self) -> None:
        return None

    async def step(self, record: Record) -> Sequence[Message]:
        if record.value == b"odd" and self.left > 0:
            self.left -= 1
            raise type(self.error)(*self.error.args)
        partition = 99 if record.value == b"astray" and self.astray else None
        return [Message(OUTCOMES, record.key, record.value, partition=partition)]


class Slept:
    """In place of asyncio.sleep."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def work_off(log: MemoryLog, step: Echo, retries: Retries | None = None) -> list[bytes | None]:
    inbox = await log.inbox("group", EVENTS)
    while (batch := await inbox.batch(wait=0)).records:
        await consume_once(log, batch, inbox.transact, step, retries or Retries(()))
    await inbox.close()
    return [each.value for each in await everything(log, OUTCOMES)]


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
async def test_what_a_record_leads_to_stops_its_entity_alone(
    log: MemoryLog, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await log.publish([message("a", "1"), message("b", "1"), message("a", "odd"), message("a", "2")])
    await log.publish([message("c", "odd"), message("b", "2")])
    said = await work_off(log, Echo(error=error))
    assert sorted(filter(None, said)) == [b"1", b"1", b"2"]
    assert [each.value for each in await waiting_of(log, "a")] == [b"odd", b"2"]
    held = {each.key: each for each in await quarantined(log)}
    assert (held["a"].waiting, held["c"].waiting, held["a"].consumer) == (2, 1, "commands")
    assert held["a"].reason.startswith(type(error).__name__)
    alerts = [each.getMessage() for each in caplog.records if each.levelname == "CRITICAL"]
    assert sorted(each[-1] for each in alerts) == ["a", "c"]
    assert "steelyard quarantine show" in alerts[0]


async def test_a_record_is_tried_again_before_it_is_put_aside(log: MemoryLog) -> None:
    await log.publish([message("a", "odd"), message("b", "1")])
    slept = Slept()
    said = await work_off(log, Echo(times=len(PAUSES)), Retries(sleep=slept))
    assert sorted(filter(None, said)) == [b"1", b"odd"]
    assert slept.pauses == list(PAUSES[:-1])
    assert await quarantined(log) == []


async def test_bad_records_in_a_row_delay_the_others_by_a_bounded_time(log: MemoryLog) -> None:
    now, slept = 1000.0, Slept()
    retries = Retries(clock=lambda: now, sleep=slept)
    await log.publish([message(f"k{number}", "odd") for number in range(30)])
    await work_off(log, Echo(), retries)
    assert len(await quarantined(log)) == 30
    assert 0 < sum(slept.pauses) <= ALLOWANCE
    now += WINDOW
    assert await retries.again(0)
    assert slept.pauses[-1] == PAUSES[0], "a minute later there are pauses again"


@pytest.mark.parametrize("error", ENGINES, ids=lambda error: type(error).__name__)
async def test_an_engine_that_fails_ends_the_consumer_and_nothing_is_written(
    log: MemoryLog, error: Exception
) -> None:
    await log.publish([message("a", "1"), message("a", "odd")])
    with pytest.raises(type(error)):
        await consume(log, "group", EVENTS, Echo(error=error), stop=asyncio.Event(), retries=Retries(()))
    assert await everything(log, OUTCOMES) == []
    assert await quarantined(log) == []
    assert await work_off(log, Echo(times=0)) == [b"1", b"odd"], "it is delivered again, to the next process"


async def test_what_cannot_be_written_is_the_fault_of_the_record_that_it_follows_from(log: MemoryLog) -> None:
    await log.publish([message(f"k{number}", str(number)) for number in range(20)])
    await log.publish([message("k3", "astray"), message("k3", "x"), message("k4", "y")])
    said = await work_off(log, Echo())
    assert len(said) == 21
    assert b"y" in said
    (held,) = await quarantined(log)
    assert (held.key, held.waiting) == ("k3", 2)
    assert held.reason.startswith(BadMessage.__name__)


@pytest.mark.parametrize(
    ("dropping", "mended", "expected"),
    [
        (False, True, [b"odd", b"1", b"2"]),
        (True, True, [b"1", b"2"]),
        (True, False, [b"1", b"2"]),
        (False, False, []),
    ],
)
async def test_a_release_tries_what_failed_once_more_and_a_drop_goes_on_without_it(
    log: MemoryLog, dropping: bool, mended: bool, expected: list[bytes]
) -> None:
    await log.publish([message("a", "odd"), message("a", "1")])
    step = Echo()
    await work_off(log, step)
    await end_quarantine(log, await quarantined(log), dropping=dropping)
    await log.publish([message("a", "2")])
    step.left = 0 if mended else step.left
    assert await work_off(log, step) == expected
    held = await quarantined(log)
    assert [each.waiting for each in held] == ([] if expected else [3])
    assert len(await everything(log, DEAD)) == (1 if expected else 2)


@pytest.mark.parametrize("dropping", [False, True])
async def test_a_release_that_cannot_be_written_loses_nothing(log: MemoryLog, dropping: bool) -> None:
    await log.publish([message("a", "odd"), message("a", "1"), message("a", "astray"), message("b", "2")])
    step = Echo()
    await work_off(log, step)
    step.left = 0
    await end_quarantine(log, await quarantined(log), dropping=dropping)
    await work_off(log, step)
    (held,) = await quarantined(log)
    assert "cannot be released" in held.reason
    step.astray = False
    await end_quarantine(log, [held], dropping=dropping)
    said = [value for value in await work_off(log, step) if value != b"2"]
    assert said == [b"odd", b"1", b"astray"][dropping:]


# ---- those who follow a state


class Kept:
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


async def caught_up(log: MemoryLog, outlet: Kept) -> None:
    """A consumer starts, reads what there is, and ends."""
    stop = asyncio.Event()
    async with asyncio.timeout(5):
        await follow(log, STATE, outlet, consumer="sink", stop=stop, caught_up=stop.set, retries=Retries(()))


def states(**values: str) -> list[Message]:
    return [message(key, value, STATE) for key, value in values.items()]


async def test_a_state_that_an_outlet_cannot_take_is_left_out_alone(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    await log.publish(states(**{f"k{number}": str(number) for number in range(40)}))
    await log.publish(states(bad="odd"))
    outlet = Kept(b"odd")
    await caught_up(log, outlet)
    assert len(outlet.kept) == 40
    assert outlet.at == {partition: end for partition, end in (await log.ends(STATE)).items() if end}
    (held,) = await quarantined(log)
    assert (held.key, held.consumer, held.waiting) == ("bad", "sink", 0)
    written = log.written
    await caught_up(log, outlet)
    assert log.written == written, "put aside once, however often it starts"
    assert len([each for each in caplog.records if each.levelname == "CRITICAL"]) == 1


async def test_the_next_state_ends_it(log: MemoryLog) -> None:
    outlet = Kept(b"odd")
    await log.publish(states(a="odd"))
    await caught_up(log, outlet)
    await log.publish(states(a="1"))
    await caught_up(log, outlet)
    assert outlet.kept == {"a": b"1"}
    assert await quarantined(log) == []


async def test_a_program_that_can_take_it_takes_it_at_its_start(log: MemoryLog) -> None:
    outlet = Kept(b"odd")
    await log.publish(states(a="odd"))
    await caught_up(log, outlet)
    outlet.bad.clear()
    await caught_up(log, outlet)
    assert outlet.kept == {"a": b"odd"}
    assert await quarantined(log) == []


@pytest.mark.parametrize("dropping", [False, True])
async def test_a_release_reaches_an_outlet_that_runs(log: MemoryLog, dropping: bool) -> None:
    outlet, stop, ready = Kept(b"odd"), asyncio.Event(), asyncio.Event()
    await log.publish(states(a="odd", b="1"))
    following = asyncio.create_task(
        follow(log, STATE, outlet, consumer="sink", stop=stop, caught_up=ready.set, retries=Retries(()))
    )
    async with asyncio.timeout(5):
        await ready.wait()
        held, written = await quarantined(log), log.written
        await end_quarantine(log, held, dropping=False)
        while log.written < written + 2:  # it fails again, and says so
            await log.changed(log.version(), 1)
        assert await quarantined(log) == held
        outlet.bad.clear()
        await end_quarantine(log, held, dropping=dropping)
        while await quarantined(log):
            await log.changed(log.version(), 1)
        stop.set()
        await following
    assert outlet.kept == {"b": b"1", **({} if dropping else {"a": b"odd"})}


@pytest.mark.parametrize("error", ENGINES, ids=lambda error: type(error).__name__)
async def test_an_engine_that_fails_ends_an_outlets_consumer(log: MemoryLog, error: Exception) -> None:
    await log.publish(states(a="odd", b="1"))
    with pytest.raises(type(error)):
        await caught_up(log, Kept(b"odd", error=error))
    assert await quarantined(log) == []


async def test_who_puts_aside_is_told_once_and_forgets_at_the_end(log: MemoryLog) -> None:
    aside = await Aside.open(log, "reaper")
    for _ in range(2):
        await aside.put("a", "KeyError: 'kind'")
    await (await Aside.open(log, "informer")).put("a", "ValueError")
    assert log.written == 2
    assert (await Aside.open(log, "reaper")).keys == {"a"}
    await aside.clear("a")
    await aside.clear("a")
    assert [(each.key, each.consumer) for each in await quarantined(log)] == [("a", "informer")]


@pytest.mark.parametrize(
    "value", [b"{", b"[]", b'"odd"', b'{"reason":1}', b'{"reason":"x","waiting":"many"}']
)
async def test_a_mark_that_cannot_be_read_is_a_mark(log: MemoryLog, value: bytes) -> None:
    await log.publish([Message(QUARANTINE, "sink/a", value, {"consumer": "sink"})])
    (held,) = await quarantined(log)
    assert (held.key, held.reason, held.waiting) == ("a", "its mark cannot be read", 0)
    aside = await Aside.open(log, "sink")
    assert aside.keys == {"a"}
    await aside.clear("a")
    assert await quarantined(log) == []
