"""The queue between informers and workers: keys, each at most once in work, with back-off for those that fail.

Informers `add`; a worker takes a key with `get`, gives it back with `done`, and says how it went: `retry`
after a failure, `forget` after a success, `add_after` for a reconciliation at a known time.

Keys belong to tenants (accounts, namespaces), who take turns: a tenant with thousands of keys delays another's key by
one key, not by thousands.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from steelyard_common.backoff import backoff_seconds

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

_IDLE_TENANTS = 1000
"""Number of tenants from which on those whose whole burst is free again are forgotten."""


class Timer(Protocol):
    def cancel(self) -> object: ...


class Timers(Protocol):
    """Source of time and timers; an asyncio event loop is one."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer: ...


class QueueMetrics(Protocol, Generic[K_contra]):
    """Receiver of what happens to a queue's keys; `metrics.py` counts it for Prometheus."""

    def watch(self, length: Callable[[], int], now: Callable[[], float]) -> None:
        """A queue begins. A process that leads a second time has a second queue."""
        ...

    def note_added(self, key: K_contra) -> None: ...

    def note_taken(self, key: K_contra) -> None: ...

    def note_done(self, key: K_contra) -> None: ...

    def note_retry(self) -> None: ...


@dataclass(frozen=True)
class Backoff:
    """Seconds to the first retry of a key, doubled up to the cap; and the rate of retries that one tenant has."""

    base: float = 0.05
    cap: float = 60.0
    per_second: float = 50.0
    burst: int = 100

    def delay(self, failures: int) -> float:
        return backoff_seconds(failures + 1, self.base, self.cap)


def spare_worker(workers: int) -> int:
    """Return how many workers one tenant may keep busy, so that others' keys never wait for its slow ones."""
    return max(1, workers - 1)


class WorkQueue(Generic[K]):
    """Tenants take turns; a tenant's keys are first in, first out. A key added while it is in work comes again
    afterwards, however often it was added.

    `tenant` names whose work a key is; without it all keys are one tenant's. At most `tenant_limit` keys of one
    tenant are in work at once.
    """

    def __init__(
        self,
        backoff: Backoff | None = None,
        timers: Timers | None = None,
        *,
        tenant: Callable[[K], Hashable] = lambda key: "",
        tenant_limit: int | None = None,
        metrics: QueueMetrics[K] | None = None,
    ) -> None:
        self._backoff = backoff or Backoff()
        self._timers = timers
        self._tenant = tenant
        self._limit = tenant_limit
        self._ready: dict[Hashable, deque[K]] = {}  # by tenant; no empty ones
        self._turns: deque[Hashable] = deque()  # tenants with a key that may be taken now, in order
        self._busy: dict[Hashable, int] = {}  # keys in work, by tenant
        self._getters: deque[asyncio.Future[None]] = deque()
        self._waiting: set[K] = set()  # in `_ready`
        self._working: dict[K, Hashable] = {}  # with a worker, and whose it was when it was taken
        self._again: set[K] = set()  # added while with a worker
        self._later: dict[K, tuple[float, Timer]] = {}
        self._failures: dict[K, int] = {}
        self._slots: dict[Hashable, float] = {}  # when a tenant's next retry is due, were there no burst
        self._metrics = metrics
        if metrics is not None:
            metrics.watch(self.__len__, lambda: self._time().time())

    def __len__(self) -> int:
        """Return the number of keys that wait for a worker now; keys that wait for a time do not count."""
        return len(self._waiting) + len(self._again)

    @property
    def working(self) -> int:
        return len(self._working)

    def add(self, key: K) -> None:
        if self._metrics is not None and key not in self._again and key not in self._waiting:
            self._metrics.note_added(key)
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._wait(key)

    def _wait(self, key: K) -> None:
        self._waiting.add(key)
        tenant = self._tenant(key)
        keys = self._ready.setdefault(tenant, deque())
        keys.append(key)
        if len(keys) == 1:
            self._offer(tenant)

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

    def cancel(self, key: K) -> None:
        """Drop the time at which the key would come again, as when its object is gone."""
        if later := self._later.pop(key, None):
            later[1].cancel()

    async def get(self) -> K:
        """The next key, once there is one."""
        while (key := self.take()) is None:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif not getter.cancelled():  # it was woken and cannot take the key: another must
                    self._wake()
                raise
        return key

    def take(self) -> K | None:
        """The next key if there is one now, for a worker that has other things to do than wait."""
        if not self._turns:
            return None
        tenant = self._turns.popleft()
        keys = self._ready[tenant]
        key = keys.popleft()
        if not keys:
            del self._ready[tenant]
        self._waiting.remove(key)
        self._working[key] = tenant
        self._busy[tenant] = self._busy.get(tenant, 0) + 1
        if keys:
            self._offer(tenant)
        if self._metrics is not None:
            self._metrics.note_taken(key)
        return key

    def finish(self, key: K) -> None:
        """The worker has let go of the key, whatever came of it."""
        tenant = self._working.pop(key)
        if self._metrics is not None:
            self._metrics.note_done(key)
        full = self._busy[tenant] == self._limit
        self._busy[tenant] -= 1
        if not self._busy[tenant]:
            del self._busy[tenant]
        if full and tenant in self._ready:
            self._offer(tenant)
        if key in self._again:
            self._again.remove(key)
            self._wait(key)

    def retry(self, key: K) -> float:
        """Add the key after its back-off, which grows until `forget`; how long that is."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._metrics is not None:
            self._metrics.note_retry()
        seconds = max(self._backoff.delay(failures), self._reserve(self._tenant(key)))
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """The key has succeeded: its back-off begins again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def close(self) -> None:
        """Drop what waits for a time; workers are for their owner to cancel."""
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()

    def _offer(self, tenant: Hashable) -> None:
        """Give the tenant a turn behind all who have one, unless it has as much in work as it may."""
        if self._limit is None or self._busy.get(tenant, 0) < self._limit:
            self._turns.append(tenant)
            self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _time(self) -> Timers:
        return self._timers or asyncio.get_running_loop()

    def _due(self, key: K) -> None:
        del self._later[key]
        self.add(key)

    def _reserve(self, tenant: Hashable) -> float:
        """Seconds until the tenant's rate has room for one more retry."""
        now, gap = self._time().time(), 1 / self._backoff.per_second
        oldest = now - self._backoff.burst * gap
        slot = max(self._slots.get(tenant, oldest), oldest) + gap
        if tenant not in self._slots and len(self._slots) >= _IDLE_TENANTS:
            self._slots = {slot: until for slot, until in self._slots.items() if until > oldest}
        self._slots[tenant] = slot
        return max(0.0, slot - now)
