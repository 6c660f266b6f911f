"""Leader election over a Lease: of several copies of a controller one works, and another soon after it is gone.

The rule is the official clients': a process that has seen the Lease unchanged for its whole duration, by its own clock,
may take it; a leader that has not renewed it for a shorter time, by its own clock, has stopped already. So two never
work at once as long as their clocks run at about the same rate; what time they show does not matter.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Protocol

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from steelyard_kube.objects import read_spec
from steelyard_kube.resource import LEASES

_log = logging.getLogger(__name__)
_NEVER = float("-inf")


class LeaseLost(Exception):
    """Another may lead from now on; the work was cancelled."""


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's time, for processes. Tests have virtual ones."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True)
class Timing:
    """Seconds: others may take the lease after `duration`; the leader stops after `deadline`, which is shorter."""

    duration: int = 15
    deadline: float = 10.0
    retry: float = 2.0


def _unknown(holder: str) -> bool:
    return False


@dataclass(frozen=True)
class Candidate:
    """A process that stands for election.

    `identity` must be no other process's, nor an earlier one's of the same host: two that share one would both lead.
    `has_ended` answers whether the process of a lease's holder is known to have ended, so that the end of its lease
    need not be waited for; where that is not known, the answer is False. `rng` spreads the pauses of the process's
    caches; a simulation seeds it.
    """

    identity: str
    clock: Clock
    has_ended: Callable[[str], bool] = _unknown
    timing: Timing = Timing()
    rng: Random | None = None


class LeaderElector:
    """One candidate's part in the election that is held over one Lease."""

    def __init__(self, cluster: Cluster, candidate: Candidate, *, namespace: str, name: str) -> None:
        self.identity = candidate.identity
        self._cluster = cluster
        self._namespace, self._name = namespace, name
        self._timing = candidate.timing
        self._clock = candidate.clock
        self._has_ended = candidate.has_ended
        self._lease: Json | None = None  # as last read or written
        self._seen: str | None = None  # the version that others left, and since when it has been that
        self._unchanged_since = _NEVER
        self._renewed = _NEVER  # before the request that renewed it last was sent

    @property
    def leading(self) -> bool:
        """Return whether no other process can lead at this moment, even if this process was suspended until now."""
        return self._clock.monotonic() < self._renewed + self._timing.deadline

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait until elected, then work; when the lease cannot be kept, the work is cancelled: LeaseLost."""
        while not (await self._try() and self.leading):
            await self._clock.sleep(self._timing.retry)
        _log.info("%s leads %s", self.identity, self._name)
        working = asyncio.ensure_future(work())
        keeping = [asyncio.ensure_future(self._renew()), asyncio.ensure_future(self._expire())]
        try:
            ended, _ = await asyncio.wait([working, *keeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, *keeping):
                task.cancel()
            await asyncio.gather(working, *keeping, return_exceptions=True)
            await self._release()
        for task in ended:
            task.result()
        if working not in ended:
            raise LeaseLost(f"{self.identity} could not renew {self._name} in {self._timing.deadline} s")

    async def _renew(self) -> None:
        """Renew the lease until another candidate is seen to hold it."""
        while self._renewed != _NEVER:
            await self._clock.sleep(self._timing.retry)
            await self._try()

    async def _expire(self) -> None:
        while (left := self._renewed + self._timing.deadline - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)

    async def _try(self) -> bool:
        """Take or renew the lease; False when another holds it or the API does not say."""
        began = self._clock.monotonic()
        try:
            if not self._holds(self._lease):
                await self._read_lease()
            if self._lease is not None and not self._free():
                self._renewed = _NEVER
                return False
            await self._write(self._claim())
        except (Conflict, AlreadyExists):
            self._lease = None  # another process wrote: read before the next try
            return False
        except ApiError as error:
            _log.warning("cannot renew %s: %s", self._name, error)
            self._lease = None  # it may have been written or not
            return False
        self._renewed = began
        return True

    async def _read_lease(self) -> None:
        """Read the lease and note since when it has been as it is."""
        try:
            self._lease = await self._cluster.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._lease = None
        version = self._lease["metadata"]["resourceVersion"] if self._lease else None
        if version != self._seen:
            self._seen, self._unchanged_since = version, self._clock.monotonic()

    def _free(self) -> bool:
        spec = read_spec(self._lease)
        holder = spec.get("holderIdentity")
        if holder in (None, "", self.identity) or self._has_ended(str(holder)):
            return True
        duration = spec.get("leaseDurationSeconds") or self._timing.duration
        return self._clock.monotonic() >= self._unchanged_since + float(duration)

    def _holds(self, lease: Json | None) -> bool:
        return lease is not None and read_spec(lease).get("holderIdentity") == self.identity

    def _claim(self) -> Json:
        old = read_spec(self._lease)
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            **old,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.duration,
            "renewTime": now,
        }
        if old.get("holderIdentity") != self.identity:
            transitions = old.get("leaseTransitions", 0)
            spec |= {"acquireTime": now, "leaseTransitions": transitions + 1 if old else 0}
        return spec

    async def _write(self, spec: Json) -> None:
        """Write the lease if it is still as it was read: its resourceVersion is the precondition."""
        if self._lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            self._lease = await self._cluster.create(LEASES, {"metadata": metadata, "spec": spec})
        else:
            self._lease = await self._cluster.replace(LEASES, {**self._lease, "spec": spec})

    async def _release(self) -> None:
        """Give the lease back, so that the next need not wait for its end."""
        if self._renewed == _NEVER or not self._holds(self._lease):
            return
        self._renewed = _NEVER
        spec = (self._lease or {})["spec"]
        try:
            await self._write({**spec, "holderIdentity": "", "leaseDurationSeconds": 1})
        except ApiError as error:
            _log.info("%s ends by itself: %s", self._name, error)


async def until(stop: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """The work, cancelled at `stop`; what it raises before goes to the caller."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
