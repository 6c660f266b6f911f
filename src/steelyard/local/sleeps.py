"""What the machine slept, in the state folder: the supervisor writes it down, its children begin with it.

Each process measures for itself what happens in its time, so that no look after a sleep comes before the news of it.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from steelyard.awake import NO_SLEEPS, Sleep, Sleeps, SleepWatch, utc_now
from steelyard.local.state import StateDir, write_atomically


def read_sleeps(state: StateDir) -> Sleeps:
    """Nothing where none are written down, or where that cannot be read: then they count as time awake."""
    try:
        content = json.loads(state.sleeps.read_text())
        return Sleeps(tuple(Sleep(datetime.fromisoformat(until), float(length)) for until, length in content))
    except (OSError, ValueError, TypeError):
        return NO_SLEEPS


def write_sleeps(state: StateDir, sleeps: Sleeps) -> None:
    content = [(sleep.until.isoformat(), sleep.seconds) for sleep in sleeps.known]
    write_atomically(state.sleeps, json.dumps(content))


def sleep_watch(state: StateDir) -> SleepWatch:
    """A process's own, which begins with what is written down."""
    return SleepWatch(utc_now, time.monotonic, read_sleeps(state))


@dataclass
class SleepRecord:
    """The supervisor's watch, and what of it the folder holds."""

    state: StateDir
    make: Callable[[StateDir], SleepWatch] = sleep_watch
    watch: SleepWatch = field(init=False)
    written: Sleeps = field(init=False)

    def __post_init__(self) -> None:
        self.watch = self.make(self.state)
        self.written = self.watch.sleeps()

    def keep(self) -> bool:
        """Write down what is new, if anything is. Raises OSError; then it is tried again at the next look."""
        sleeps = self.watch.sleeps()
        if sleeps == self.written:
            return False
        write_sleeps(self.state, sleeps)
        self.written = sleeps
        return True
