"""The toolkit finds what it is for: services that lose, double or reorder."""

from collections.abc import Sequence
from random import Random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.broker.consume import Malformed, Step, drop, list_waiting
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import DEAD, EVENTS, OUTCOMES, QUARANTINE, STATE, WAITING, Log, Message, Record
from steelyard.broker.partition import find_partition
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.simulation.replay import (
    Crash,
    crash_everywhere,
    repeat_some,
    work_off,
    work_off_again,
    woven,
)
from steelyard.testing.engines.log import everything, message

GROUP = "group"


class Collector:
    """A right service: a key's state lists its values; what the state has seen is skipped."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._states: dict[str, Message | Record | None] = {}

    def begin(self) -> None:
        self._states = {}

    async def prepare(self, records: Sequence[Record]) -> None:
        """Read nothing before a step."""

    async def step(self, record: Record) -> Sequence[Message]:
        if record.value == b"bad":
            raise Malformed("value: is bad")
        if record.value == b"odd":
            self._states[record.key] = Message(STATE, record.key, b'["half"]', {"offset": "0"})
            raise RecursionError("in the middle of its work")
        if record.key not in self._states:
            self._states[record.key] = await self._log.latest(STATE, record.key)
        state = self._states[record.key]
        if state is not None and self.seen(state, record):
            return []
        values = [] if state is None else orjson.loads(state.value or b"")
        values.append((record.value or b"").decode())
        headers = {"offset": str(record.offset)}
        self._states[record.key] = new = Message(STATE, record.key, orjson.dumps(values), headers)
        return [new, Message(OUTCOMES, record.key, record.value)]

    def seen(self, state: Message | Record, record: Record) -> bool:
        return record.offset <= int(state.headers["offset"])


class Doubling(Collector):
    """Forgets to check the offset."""

    def seen(self, state: Message | Record, record: Record) -> bool:
        return False


class Forgetful(Collector):
    """Does not see what the batch has done before."""

    async def step(self, record: Record) -> Sequence[Message]:
        self.begin()
        return await super().step(record)


async def states(log: Log) -> dict[str, list[str]]:
    return {record.key: orjson.loads(record.value or b"") for record in await everything(log, STATE)}


FAILING, ENDS = {"bad", "odd"}, {"release", "drop"}
HISTORIES = st.lists(
    st.lists(st.sampled_from(["1", "2", "3", *sorted(FAILING), *sorted(ENDS)]), max_size=8),
    min_size=1,
    max_size=4,
)


def messages(key: str, values: Sequence[str]) -> list[Message]:
    return [
        Message(EVENTS, key, None, {value: "1"}) if value in ENDS else message(key, value) for value in values
    ]


def expected(values: Sequence[str]) -> list[str]:
    """Return what a key's state lists in the end, computed in the plainest way."""
    done: list[str] = []
    waiting: list[str] = []
    for value in values:
        if value in ENDS:
            again, waiting = waiting[value == "drop" :], []
        else:
            again = [value]
        for record in again:
            if waiting or record in FAILING:
                waiting.append(record)
            else:
                done.append(record)
    return done


# 40 examples miss a batch of which half is kept when a message is put aside.
@settings(max_examples=60, deadline=None)
@given(HISTORIES, st.randoms(use_true_random=False), st.lists(st.integers(1, 7), min_size=1, max_size=4))
async def test_quarantine_keeps_every_message_in_its_order(
    histories: list[list[str]], random: Random, limits: list[int]
) -> None:
    log = MemoryLog(2)
    by_key = {f"k{number}": values for number, values in enumerate(histories)}
    await log.publish(woven([messages(key, values) for key, values in by_key.items()], random))
    await work_off(log, GROUP, EVENTS, Collector, limits)
    assert await states(log) == {key: done for key, values in by_key.items() if (done := expected(values))}
    for entity in await list_entries(log):  # what waits may be malformed too
        assert entity.waiting == len(await list_waiting(log, entity.key)) > 0
        for _ in by_key[entity.key]:
            await drop(log, EVENTS, entity.key)
    await work_off(log, GROUP, EVENTS, Collector, limits)
    bad = sum(value in FAILING for values in histories for value in values)
    assert len({record.headers["origin"] for record in await everything(log, DEAD)}) == bad
    assert await list_entries(log) == []
    assert await states(log) == {
        key: kept
        for key, values in by_key.items()
        if (kept := [value for value in values if value not in FAILING | ENDS])
    }


@settings(deadline=None)
@given(HISTORIES, st.randoms(use_true_random=False), st.integers(0, 20))
async def test_what_is_read_again_changes_and_says_nothing(
    histories: list[list[str]], random: Random, start: int
) -> None:
    log = MemoryLog(2)
    await log.publish(woven([messages(f"k{n}", values) for n, values in enumerate(histories)], random))
    await work_off(log, GROUP, EVENTS, Collector)
    before = [await everything(log, topic) for topic in (STATE, OUTCOMES, DEAD, WAITING, QUARANTINE)]
    assert await work_off_again(log, GROUP, EVENTS, Collector, {0: start, 1: start // 2}) == 0
    assert before == [await everything(log, topic) for topic in (STATE, OUTCOMES, DEAD, WAITING, QUARANTINE)]


HISTORY = [
    message("a", "1"), message("b", "1"), message("a", "bad"), message("a", "2"), message("b", "2"),
    *messages("a", ["release"]), message("b", "odd"), *messages("a", ["drop"]), message("a", "3"),
]  # fmt: skip


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_a_crash_at_any_point_changes_nothing(limit: int) -> None:
    async def run(log: MemoryLog) -> None:
        await work_off(log, GROUP, EVENTS, Collector, [limit])

    moments = 0
    async for log in crash_everywhere(HISTORY, run):
        moments += 1
        assert await states(log) == {"a": ["1", "2", "3"], "b": ["1", "2"]}
        assert len(await everything(log, OUTCOMES)) == 5
        assert {record.value for record in await everything(log, DEAD)} == {b"bad", b"odd"}
    assert moments >= 3


async def works(make: type[Collector]) -> bool:
    log = MemoryLog()
    await log.publish([message("a", str(n)) for n in range(4)])
    await work_off(log, GROUP, EVENTS, make)
    right = await states(log) == {"a": ["0", "1", "2", "3"]}
    partition = find_partition("a", log.partitions)
    return right and await work_off_again(log, GROUP, EVENTS, make, {partition: 2}) == 0


@pytest.mark.parametrize(("make", "right"), [(Collector, True), (Doubling, False), (Forgetful, False)])
async def test_a_service_that_is_wrong_is_found(make: type[Collector], right: bool) -> None:
    assert await works(make) == right


class Early(Collector):
    """Writes outside the transaction."""

    async def step(self, record: Record) -> Sequence[Message]:
        outputs = await super().step(record)
        await self._log.publish(outputs)
        return []


@pytest.mark.parametrize(("make", "right"), [(Collector, True), (Early, False)])
async def test_a_service_that_a_crash_breaks_is_found(make: type[Collector], right: bool) -> None:
    async def run(log: MemoryLog) -> None:
        await work_off(log, GROUP, EVENTS, make)

    counts = [
        len(await everything(log, OUTCOMES)) async for log in crash_everywhere([message("a", "1")], run)
    ]
    writes = [log.written async for log in crash_everywhere([message("a", "1")], run)]
    assert (set(counts) == {1} and len(writes) == 3) == right, "two moments of one write, and none"


@given(st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_histories_are_woven_and_doubled_in_order(random: Random) -> None:
    histories = [[message(key, str(n)) for n in range(6)] for key in "abc"]
    mixed = woven(histories, random)
    assert [[item for item in mixed if item.key == key] for key in "abc"] == histories
    more = repeat_some(mixed, random, 0.5)
    assert list(dict.fromkeys(str(output) for output in more)) == [str(output) for output in mixed]


def test_a_step_is_what_the_loop_takes() -> None:
    step: Step = Collector(MemoryLog())
    step.begin()
    assert not issubclass(Crash, Exception)
