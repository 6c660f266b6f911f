"""Time awake: how long the machine slept, or its clock jumped ahead, so that deadlines count neither.

Moments that outlive a process (when an attempt began) are wall-clock time; a lid that is closed for a night would use
up every deadline. `SleepWatch` compares that clock with the monotonic one, which stands still while the machine
sleeps. On one machine the supervisor keeps what it saw in a file, and each process begins with that (docs/adr/0014).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

LEAST_SECONDS = 5.0
"""Seconds below which a difference is a clock that is put right, and a deadline may bear it."""
MOST = 1000
"""Sleeps that are remembered."""

SleptSince = Callable[[datetime], float]


def pause_lasts(moment: datetime, seconds: float, now: datetime) -> bool:
    """Return whether a pause of so many seconds, which began at a moment, still lasts.

    A moment further ahead than the pause is long was noted before the clock was set back: without this, all readers
    would wait until the clock shows that time again.
    """
    return abs((now - moment).total_seconds()) < seconds


@dataclass(frozen=True)
class Sleep:
    """A sleep of the machine; `until` is what the clock showed when it ended."""

    until: datetime
    seconds: float


@dataclass(frozen=True)
class Sleeps:
    """Known sleeps, in the order of their ends."""

    known: tuple[Sleep, ...] = ()

    def since(self, moment: datetime) -> float:
        """Seconds that the machine has not been awake after a moment."""
        return sum(sleep.seconds for sleep in self.known if sleep.until > moment)

    def and_one(self, sleep: Sleep) -> "Sleeps":
        """These and the next one."""
        return replace(self, known=(*self.known, sleep)[-MOST:])


NO_SLEEPS = Sleeps()


def no_sleeps() -> Sleeps:
    """Sleeps of a cluster: its machines do not sleep, and each has a clock of its own."""
    return NO_SLEEPS


def utc_now() -> datetime:
    return datetime.now(UTC)


def never_slept(moment: datetime) -> float:
    return 0.0


class SleepWatch:
    """Measures at each call. `wall` and `monotonic` come from outside."""

    def __init__(
        self, wall: Callable[[], datetime], monotonic: Callable[[], float], known: Sleeps = NO_SLEEPS
    ) -> None:
        self._wall, self._monotonic, self._sleeps = wall, monotonic, known
        self._last = (wall(), monotonic())

    def sleeps(self) -> Sleeps:
        wall, monotonic = self._wall(), self._monotonic()
        before, then = self._last
        self._last = (wall, monotonic)
        gap = (wall - before).total_seconds() - (monotonic - then)
        if gap >= LEAST_SECONDS:
            # At the latest it ended now, at the earliest right after the last check: what began since is awake.
            self._sleeps = self._sleeps.and_one(Sleep(before + timedelta(seconds=gap), gap))
        return self._sleeps

    def since(self, moment: datetime) -> float:
        """Seconds that the machine has not been awake after a moment, measured now."""
        return self.sleeps().since(moment)
