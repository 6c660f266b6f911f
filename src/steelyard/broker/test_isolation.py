"""One record's fault is its own: which record is tried again or put aside, who waits, and what ends a consumer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from steelyard.broker.consume import consume, consume_once, list_waiting
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import (
    DEAD,
    EVENTS,
    OUTCOMES,
    BadMessage,
    LogError,
    Message,
    Record,
)
from steelyard.broker.open import open_log
from steelyard.broker.quarantine.administration import end_quarantine, list_entries
from steelyard.broker.quarantine.dead_letters import printable
from steelyard.broker.retries import ALLOWANCE, PAUSES, WINDOW, Retries
from steelyard.testing.engines.log import everything, message
from steelyard_common.errors import EngineError

FAULTS: list[Exception] = [
    OverflowError("Integer exceeds 64-bit range"),
    RecursionError("maximum recursion depth exceeded"),
    ValueError("year 99999 is out of range"),
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

    async def prepare(self, records: Sequence[Record]) -> None:
        """Read nothing before a step."""

    async def step(self, record: Record) -> Sequence[Message]:
        if record.value == b"odd" and self.left > 0:
            self.left -= 1
            raise type(self.error)(*self.error.args)
        partition = 99 if record.value == b"astray" and self.astray else None
        return [Message(OUTCOMES, record.key, record.value, partition=partition)]


class Slept:
    """Stands in for asyncio.sleep."""

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
    return [record.value for record in await everything(log, OUTCOMES)]


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
async def test_what_a_record_leads_to_stops_its_entity_alone(
    log: MemoryLog, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await log.publish([message("a", "1"), message("b", "1"), message("a", "odd"), message("a", "2")])
    await log.publish([message("c", "odd"), message("b", "2")])
    said = await work_off(log, Echo(error=error))
    assert sorted(filter(None, said)) == [b"1", b"1", b"2"]
    assert [record.value for record in await list_waiting(log, "a")] == [b"odd", b"2"]
    held = {entity.key: entity for entity in await list_entries(log)}
    assert (held["a"].waiting, held["c"].waiting, held["a"].consumer) == (2, 1, "commands")
    assert held["a"].reason.startswith(type(error).__name__)
    alerts = [line.getMessage() for line in caplog.records if line.levelname == "CRITICAL"]
    assert sorted(alert[-1] for alert in alerts) == ["a", "c"]
    assert "steelyard quarantine show" in alerts[0]


def test_a_reason_is_what_every_log_can_hold() -> None:
    assert printable("half a \ud800 character, and \0") == "half a \\ud800 character, and \\0"
    assert len(printable("x" * 100_000)) < 1100


async def test_a_record_is_tried_again_before_it_is_put_aside(log: MemoryLog) -> None:
    await log.publish([message("a", "odd"), message("b", "1")])
    slept = Slept()
    said = await work_off(log, Echo(times=len(PAUSES)), Retries(sleep=slept))
    assert sorted(filter(None, said)) == [b"1", b"odd"]
    assert slept.pauses == list(PAUSES[:-1])
    assert await list_entries(log) == []


async def test_bad_records_in_a_row_delay_the_others_by_a_bounded_time(log: MemoryLog) -> None:
    now, slept = 1000.0, Slept()
    retries = Retries(clock=lambda: now, sleep=slept)
    await log.publish([message(f"k{number}", "odd") for number in range(30)])
    await work_off(log, Echo(), retries)
    assert len(await list_entries(log)) == 30
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
    assert await list_entries(log) == []
    assert await work_off(log, Echo(times=0)) == [b"1", b"odd"], "it is delivered again, to the next process"


async def test_what_cannot_be_written_is_the_fault_of_the_record_that_it_follows_from(log: MemoryLog) -> None:
    await log.publish([message(f"k{number}", str(number)) for number in range(20)])
    await log.publish([message("k3", "astray"), message("k3", "x"), message("k4", "y")])
    said = await work_off(log, Echo())
    assert len(said) == 21
    assert b"y" in said
    (held,) = await list_entries(log)
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
    await end_quarantine(log, await list_entries(log), dropping=dropping)
    await log.publish([message("a", "2")])
    step.left = 0 if mended else step.left
    assert await work_off(log, step) == expected
    held = await list_entries(log)
    assert [entity.waiting for entity in held] == ([] if expected else [3])
    assert len(await everything(log, DEAD)) == (1 if expected else 2)


@pytest.mark.parametrize("dropping", [False, True])
async def test_a_release_that_cannot_be_written_loses_nothing(log: MemoryLog, dropping: bool) -> None:
    await log.publish([message("a", "odd"), message("a", "1"), message("a", "astray"), message("b", "2")])
    step = Echo()
    await work_off(log, step)
    step.left = 0
    await end_quarantine(log, await list_entries(log), dropping=dropping)
    await work_off(log, step)
    (held,) = await list_entries(log)
    assert "cannot be released" in held.reason
    step.astray = False
    await end_quarantine(log, [held], dropping=dropping)
    said = [value for value in await work_off(log, step) if value != b"2"]
    assert said == [b"odd", b"1", b"astray"][dropping:]


async def test_parts_of_a_batch_are_transactions_on_a_file_too(tmp_path: Path) -> None:
    """A process that reads on, and one that starts again, find nothing done twice and nothing left out."""
    log = await open_log(f"sqlite:{tmp_path / 'log.db'}")
    await log.publish([message(f"k{number % 7}", str(number)) for number in range(40)])
    await log.publish(
        [message("k3", "odd"), message("k5", "astray"), *(message(f"k{n}", "x") for n in range(7))]
    )
    inbox, step = await log.inbox("group", EVENTS), Echo()
    for _ in range(2):
        while (batch := await inbox.batch(wait=0)).records:
            await consume_once(log, batch, inbox.transact, step, Retries(()))
        await inbox.close()
        inbox = await log.inbox("group", EVENTS)
    said = [record.value for record in await everything(log, OUTCOMES)]
    assert sorted(said, key=str) == sorted([*(str(n).encode() for n in range(40)), *[b"x"] * 5], key=str)
    assert {entity.key: entity.waiting for entity in await list_entries(log)} == {"k3": 2, "k5": 2}
    await end_quarantine(log, await list_entries(log), dropping=True)
    while (batch := await inbox.batch(wait=0)).records:
        await consume_once(log, batch, inbox.transact, step, Retries(()))
    assert len(await everything(log, OUTCOMES)) == 47
    await inbox.close()
    await log.close()
