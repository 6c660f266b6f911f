"""The queue between informers and workers: keys, each at most once in work, with back-off for those that fail.

Informers `add`; a worker takes a key with `get`, gives it back with `done`, and says how it went: `retry`
after a failure, `forget` after a success, `add_after` for a next look at a known time.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Timer(Protocol):
    def cancel(self) -> object: ...


class Timers(Protocol):
    """Where time comes from; an asyncio event loop is one."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer: ...


@dataclass(frozen=True)
class Backoff:
    """Seconds to the first retry of a key, doubled up to the cap; and how many retries all keys have together."""

    base: float = 0.05
    cap: float = 60.0
    per_second: float = 50.0
    burst: int = 100

    def of(self, failures: int) -> float:
        return min(self.cap, self.base * 2.0 ** min(failures, 60))


class WorkQueue(Generic[K]):
    """First in, first out. A key added while it is in work comes again afterwards, however often it was added."""

    def __init__(self, backoff: Backoff | None = None, timers: Timers | None = None) -> None:
        self._backoff = backoff or Backoff()
        self._timers = timers
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()  # in the queue
        self._working: set[K] = set()  # with a worker
        self._again: set[K] = set()  # added while with a worker
        self._later: dict[K, tuple[float, Timer]] = {}
        self._failures: dict[K, int] = {}
        self._slot = float("-inf")  # when the next retry of any key is due, were there no burst

    def __len__(self) -> int:
        """How many keys wait for a worker now; those that wait for a time are not counted."""
        return len(self._waiting) + len(self._again)

    @property
    def working(self) -> int:
        return len(self._working)

    def add(self, key: K) -> None:
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add at a later time; of several such times for one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        when = self._time().time() + seconds
        if key in self._later:
            earlier, timer = self._later[key]
            if earlier <= when:
                return
            timer.cancel()
        self._later[key] = (when, self._time().call_later(seconds, lambda: self._due(key)))

    async def get(self) -> K:
        """The next key, once there is one."""
        return self._begin(await self._ready.get())

    def take(self) -> K | None:
        """The next key if there is one now, for a worker that has other things to do than wait."""
        return None if self._ready.empty() else self._begin(self._ready.get_nowait())

    def done(self, key: K) -> None:
        """The worker has let go of the key, whatever came of it."""
        self._working.remove(key)
        if key in self._again:
            self._again.remove(key)
            self.add(key)

    def retry(self, key: K) -> float:
        """Add the key after its back-off, which grows until `forget`; how long that is."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        seconds = max(self._backoff.of(failures), self._reserve())
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """The key has succeeded: its back-off begins anew."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def close(self) -> None:
        """Drop what waits for a time; workers are for their owner to cancel."""
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()

    def _begin(self, key: K) -> K:
        self._waiting.remove(key)
        self._working.add(key)
        return key

    def _time(self) -> Timers:
        return self._timers or asyncio.get_running_loop()

    def _due(self, key: K) -> None:
        del self._later[key]
        self.add(key)

    def _reserve(self) -> float:
        """Seconds until the overall rate has room for one more retry."""
        now, gap = self._time().time(), 1 / self._backoff.per_second
        self._slot = max(self._slot, now - self._backoff.burst * gap) + gap
        return max(0.0, self._slot - now)
