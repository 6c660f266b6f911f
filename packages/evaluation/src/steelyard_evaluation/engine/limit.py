"""Limit of calls at once on a replica: a fixed number, or as many as the replica turns out to take.

Additive increase, multiplicative decrease. Pure: the pool reports what happened and when, and `Limit.value` follows
from it.
"""

from dataclasses import dataclass
from math import inf

DEFAULT_MOST = 64
AUTO_MOST = 1024
AUTO_START = 20
"""First number of calls.

From fewer on, the ramp costs a short run more than 5 %, and a limit that stays low follows it: the first, quickest
calls are what later ones are compared with. From more on, a server whose rate falls again is overloaded at first.
"""

SHRINK = 0.8
LEAST_SHRINK = 0.5
"""Least share that remains when several calls that were in flight together are refused, and each gives up its place.
"""
STREAK = 3
"""Failures in a row that count as overload where none of them says so: single ones are chance."""
PATIENCE, PATIENCE_CALLS = 10, 40
"""Factors of patience: how many times longer the limit stays just below the last refused level, and for how
many calls at least, before that level is tried again.
"""
GROWTH = 32
"""Divisor of growth: the limit grows by one in a round trip, or by this part of itself when that is more."""
SLOWER = 2.0
"""A call that takes so many times longer than it might is a sign of a queue."""
ENOUGH = 1.25
"""Ratio of calls in flight to those that would get as much done, above which calls only queue."""
BETTER = 1.05
FORGET = 1.002
WINDOW_CALLS = 16


@dataclass(frozen=True)
class Concurrency:
    """Requested concurrency: at most `most` calls on each replica; `adaptive` finds out how many of them it
    takes.
    """

    most: int = DEFAULT_MOST
    adaptive: bool = False
    start: int | None = None
    """First limit of an adaptive concurrency; None means `most`."""

    def __post_init__(self) -> None:
        if self.most < 1 or (self.start is not None and not 1 <= self.start <= self.most):
            raise ValueError(f"a concurrency of {self.most} that starts at {self.start} is none")


AUTO = Concurrency(AUTO_MOST, adaptive=True, start=AUTO_START)
"""Concurrency where no number is given."""


class Limit:
    """Number of calls that one replica may get now. `in_flight` always counts the call that ended."""

    def __init__(self, concurrency: Concurrency) -> None:
        self._adaptive = concurrency.adaptive
        self._most = concurrency.most
        self._size = float(concurrency.start or concurrency.most)
        self.value = int(self._size)
        self._too_many = inf
        """Calls in flight when they were last too many. Far below, the limit doubles in a round trip."""
        self._shrunk_at = -inf
        self._floor = 1.0
        self._streak = 0
        self._window = _Window()

    def note_answer(self, now: float, sent_at: float, in_flight: int) -> None:
        """A call that was sent at `sent_at` got an answer."""
        if not self._adaptive:
            return
        self._streak = 0
        # Slow answers are the only sign of servers that queue without end and never refuse.
        if self._window.add(now, now - sent_at, self.value):
            self._shrunk_at, self._too_many = now, self._size
            self._set(max(1.0, self._size * SHRINK))
        elif in_flight >= self.value and sent_at > self._shrunk_at and self._size < self._most:
            self._grow()

    def note_failure(self, now: float, sent_at: float, in_flight: int, *, overload: bool) -> None:
        """A call failed in a way that may be overload; `overload` where the answer said so."""
        if not self._adaptive:
            return
        self._streak += 1
        # A lost connection or a 500 may have nothing to do with load.
        if not overload and self._streak < STREAK:
            return
        self._streak = 0
        level = min(in_flight, self._size)
        if sent_at > self._shrunk_at:  # else it was in flight when an earlier one failed: the same overload
            self._shrunk_at = now
            self._too_many = level
            self._floor = max(1.0, level * LEAST_SHRINK)
            self._set(max(1.0, level * SHRINK))
        # Every refused call shows that one place fewer was free, down to the floor of this overload.
        self._set(min(self._size, max(self._floor, in_flight - 1.0)))

    def _grow(self) -> None:
        # Slow start, as TCP has it: one more for each answer doubles the limit in a round trip.
        if self._size < self._too_many / 2:
            self._set(self._size + 1)
            return
        step = max(1.0, self._size / GROWTH) / self._size
        if self.value == max(1, int(self._too_many) - 1):
            # By one in so many round trips: of a large limit, a part of itself would be over in less than one.
            step = 1.0 / self._size / max(PATIENCE, PATIENCE_CALLS / self.value)
        self._set(self._size + step)
        if self._size > self._too_many:  # it takes more than it did: go on from here with care
            self._too_many = 2 * self._size

    def _set(self, size: float) -> None:
        self._size = min(size, float(self._most))
        self.value = int(self._size)


class _Window:
    """Compares round trips: do more calls at once only wait longer, without more of them getting done?"""

    def __init__(self) -> None:
        self._began: float | None = None
        self._calls = self._goal = self._most = 0
        self._seconds = 0.0
        self._least_seconds = inf
        self._best_rate = 0.0
        self._best_level = 0.0

    def add(self, now: float, seconds: float, value: int) -> bool:
        """Return True, once in a round trip, where more calls are in flight than are of use."""
        if self._began is None:
            self._began = now - seconds
        if self._calls == 0:
            self._goal, self._most = max(WINDOW_CALLS, value), value
        self._calls += 1
        self._most = max(self._most, value)
        self._seconds += seconds
        elapsed = now - self._began
        if self._calls < self._goal or elapsed * self._calls <= self._seconds:
            return False  # of calls that end in waves, a whole one counts
        # Two waves can end in the time of one: by Little's law no more get done than the limit at its highest allows.
        mean, level = self._seconds / self._calls, min(self._seconds / elapsed, float(self._most))
        rate = level / mean
        self._began, self._calls, self._seconds = now, 0, 0.0
        # What was best is slowly forgotten: rows differ, and so do the days of a service.
        self._least_seconds = min(self._least_seconds * FORGET, mean)
        self._best_rate /= FORGET
        if rate > BETTER * self._best_rate:
            self._best_rate, self._best_level = rate, level
        elif rate * BETTER > self._best_rate:
            self._best_level = min(self._best_level, level)
        return mean > SLOWER * self._least_seconds and level > ENOUGH * self._best_level
