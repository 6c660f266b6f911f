"""Time that the machine is awake, apart from time that it sleeps."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard_common.awake import NO_SLEEPS, Sleeps, SleepWatch, pause_lasts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Machine:
    """A clock on the wall, and one that stands still while it sleeps."""

    def __init__(self) -> None:
        self.wall, self.monotonic = NOON, 100.0

    def runs(self, seconds: float) -> datetime:
        self.wall += timedelta(seconds=seconds)
        self.monotonic += seconds
        return self.wall

    def sleeps(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)

    def watch(self, known: Sleeps = NO_SLEEPS) -> SleepWatch:
        return SleepWatch(lambda: self.wall, lambda: self.monotonic, known)


def test_a_sleep_counts_for_what_began_before_it() -> None:
    machine = Machine()
    watch = machine.watch()
    before = machine.runs(10)
    machine.sleeps(3600)
    after = machine.runs(1)
    assert watch.since(before) == pytest.approx(3600)
    assert watch.since(after) == 0
    machine.runs(10)
    assert watch.since(before) == pytest.approx(3600), "it is measured once"
    machine.sleeps(60)
    assert watch.since(before) == pytest.approx(3660)
    assert watch.since(after) == pytest.approx(60)


def test_a_clock_that_is_put_right_is_no_sleep() -> None:
    machine = Machine()
    watch = machine.watch()
    for seconds in (4.0, -3600.0):
        machine.runs(1)
        machine.sleeps(seconds)
    assert watch.since(NOON) == 0


def test_what_an_earlier_process_saw_counts_too() -> None:
    machine = Machine()
    first = machine.watch()
    machine.sleeps(3600)
    second = machine.watch(first.sleeps())
    machine.runs(5)
    assert second.since(NOON) == pytest.approx(3600)


@pytest.mark.parametrize(
    ("elapsed", "lasts"),
    [
        pytest.param(0, True, id="it begins"),
        pytest.param(9.9, True, id="not yet over"),
        pytest.param(10, False, id="over"),
        pytest.param(-1, True, id="noted by a clock that is a little ahead"),
        pytest.param(-86_400, False, id="noted before the clock was set back"),
    ],
)
def test_a_pause_does_not_last_until_a_clock_that_was_set_back_catches_up(
    elapsed: float, lasts: bool
) -> None:
    assert pause_lasts(NOON, 10, NOON + timedelta(seconds=elapsed)) is lasts
