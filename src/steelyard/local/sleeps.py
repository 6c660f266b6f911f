"""Time that the machine slept, in the state folder: the supervisor records it, its children begin with it.

The file of the sleeps also holds how far the wall clock was ahead of the monotonic one: a process that starts later on
the same boot learns by it of a sleep that no process has written down, because `up` was killed right after it or did
not run. Each process measures for itself what happens in its time, so that no check after a sleep comes before the news
of it.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from steelyard.local.state import StateDir, boot_id, is_foreign, platform_id
from steelyard_common.awake import LEAST_SECONDS, NO_SLEEPS, Sleep, Sleeps, SleepWatch, utc_now
from steelyard_common.durable import write_atomically

Clocks = Callable[[], tuple[datetime, float]]
"""Function that returns the wall clock and the monotonic clock."""


def system_clocks() -> tuple[datetime, float]:
    return utc_now(), time.monotonic()


@dataclass(frozen=True)
class SleepState:
    """The content of the file: sleeps, and how far the wall clock was ahead of the monotonic one of a boot."""

    sleeps: Sleeps = NO_SLEEPS
    boot: str = ""
    ahead: float = 0.0


def read_sleep_state(state: StateDir) -> SleepState:
    """Return the recorded sleeps; none where the record is missing or unreadable: then all time counts as
    time awake.
    """
    try:
        content = json.loads(state.sleeps.read_text())
        if isinstance(content, dict) and is_foreign(state, content):
            return SleepState()
        if isinstance(content, list):  # of a version that kept sleeps alone
            return SleepState(_sleeps(content))
        return SleepState(_sleeps(content["sleeps"]), str(content["boot"]), float(content["ahead"]))
    except (OSError, ValueError, TypeError, KeyError):
        return SleepState()


def _sleeps(content: list[Any]) -> Sleeps:
    return Sleeps(tuple(Sleep(datetime.fromisoformat(until), float(length)) for until, length in content))


def read_sleeps(state: StateDir, clocks: Clocks = system_clocks) -> Sleeps:
    """The sleeps that are written down, and one that was missed since."""
    kept, (wall, monotonic) = read_sleep_state(state), clocks()
    missed = _ahead(wall, monotonic) - kept.ahead if kept.boot == boot_id() else 0.0
    if missed < LEAST_SECONDS:
        return kept.sleeps
    # Its time is unknown: whatever began until now may have slept through it.
    return kept.sleeps.and_one(Sleep(wall, missed))


def _ahead(wall: datetime, monotonic: float) -> float:
    return wall.timestamp() - monotonic


def sleep_watch(state: StateDir, clocks: Clocks = system_clocks) -> SleepWatch:
    """A process's own, which begins with the written record."""
    return SleepWatch(lambda: clocks()[0], lambda: clocks()[1], read_sleeps(state, clocks))


@dataclass
class SleepRecord:
    """The supervisor's watch, and what of it the folder holds."""

    state: StateDir
    clocks: Clocks = system_clocks
    watch: SleepWatch = field(init=False)
    kept: SleepState = field(init=False)

    def __post_init__(self) -> None:
        self.watch = sleep_watch(self.state, self.clocks)
        self.kept = read_sleep_state(self.state)

    def keep(self) -> bool:
        """Write down the change, and return whether that is a sleep. Raises OSError; then the next call tries again.

        A clock that was set back does not mean a sleep; but one that is put right after it would otherwise not be seen.
        """
        # In this order: a sleep between the two is written twice until the next call, and not lost.
        ahead, sleeps = _ahead(*self.clocks()), self.watch.sleeps()
        slept = sleeps != self.kept.sleeps
        if slept or self.kept.boot != boot_id() or abs(ahead - self.kept.ahead) >= LEAST_SECONDS:
            write_sleep_state(self.state, SleepState(sleeps, boot_id(), ahead))
            self.kept = SleepState(sleeps, boot_id(), ahead)
        return slept


def write_sleep_state(state: StateDir, kept: SleepState) -> None:
    content = [(sleep.until.isoformat(), sleep.seconds) for sleep in kept.sleeps.known]
    named = {"platform": platform_id(state), "boot": kept.boot, "ahead": kept.ahead, "sleeps": content}
    write_atomically(state.sleeps, json.dumps(named))
