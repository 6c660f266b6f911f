"""The record of the machine's sleeps, as processes share it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from steelyard.local.sleeps import SleepRecord, read_sleeps, sleep_watch
from steelyard.local.state import StateDir

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOURS = 3600.0


class Machine:
    """Machine with clocks and the state folder of an `up`."""

    def __init__(self, folder: Path) -> None:
        self.state, self.wall, self.monotonic = StateDir(folder), NOON, 50.0

    def clocks(self) -> tuple[datetime, float]:
        return self.wall, self.monotonic

    def runs(self, seconds: float) -> None:
        self.monotonic += seconds
        self.steps(seconds)

    def steps(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)

    def supervisor(self) -> SleepRecord:
        return SleepRecord(self.state, self.clocks)

    def slept(self) -> float:
        """Return the time slept since noon, as a process sees it that starts now."""
        return sleep_watch(self.state, self.clocks).since(NOON)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_the_supervisor_saw_is_known_to_who_starts_later(machine: Machine) -> None:
    record = machine.supervisor()
    assert not record.keep()
    machine.steps(8 * HOURS)
    assert record.keep()
    content = machine.state.sleeps.read_bytes()
    assert not record.keep(), "it is written once"
    assert machine.state.sleeps.read_bytes() == content
    assert machine.slept() == pytest.approx(8 * HOURS)


def test_a_sleep_that_was_not_written_down_is_known_all_the_same(machine: Machine) -> None:
    """`up` was killed right after it; the next one writes it."""
    machine.supervisor().keep()
    machine.runs(60)
    machine.steps(8 * HOURS)
    machine.runs(1)
    assert machine.slept() == pytest.approx(8 * HOURS)
    following = machine.supervisor()
    assert following.keep()
    machine.runs(60)
    assert not following.keep()
    assert machine.slept() == pytest.approx(8 * HOURS), "once"


def test_a_clock_that_is_put_right_after_it_was_set_back(machine: Machine) -> None:
    machine.supervisor().keep()
    machine.steps(-8 * HOURS)
    assert not machine.supervisor().keep(), "no sleep"
    began = machine.wall
    machine.steps(8 * HOURS)
    assert sleep_watch(machine.state, machine.clocks).since(began) == pytest.approx(8 * HOURS)


def test_time_that_passes_without_up_is_time_awake(machine: Machine) -> None:
    machine.supervisor().keep()
    machine.runs(8 * HOURS)
    assert machine.slept() == 0


def test_clocks_of_an_earlier_boot_say_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.supervisor().keep()
    machine.steps(8 * HOURS)
    monkeypatch.setattr("steelyard.local.sleeps.boot_id", lambda: "another")
    assert machine.slept() == 0


@pytest.mark.parametrize(
    ("content", "slept"),
    [
        ("not JSON", 0),
        ('{"sleeps": 3}', 0),
        ('[["2026-01-01T20:00:00+00:00", 28800.0]]', 8 * HOURS),
    ],
    ids=["no JSON", "another content", "of an earlier version"],
)
def test_a_file_that_another_wrote(machine: Machine, content: str, slept: float) -> None:
    machine.state.sleeps.write_text(content)
    assert read_sleeps(machine.state, machine.clocks).since(NOON) == slept
