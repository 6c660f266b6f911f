"""Expiry of objects: events an hour after they were last written, and deleted Pods without a node that could end them.

A folder lives for years. `server.serve` runs `Expiry.run` as a task; tests call `expire` and `collect` with a clock.
"""

import asyncio
import contextlib
import ctypes
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from steelyard_kube.tables import shrunk
from steelyard_kube.times import parse_time
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.ring import Change
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.faults import Faults

log = logging.getLogger(__name__)
EVENT_SECONDS = 3600.0  # a real server's --event-ttl
MOST_EVENTS = (
    20_000  # beyond it the oldest go before their time: the log of one busy hour must not fill the memory
)
SWEEP_SECONDS = 20.0
# A node may be registered again, and a client may still change the deletion: as of a real server's collector of Pods.
QUARANTINE_SECONDS = 40.0
HISTORY_SECONDS = 300.0  # after which changes are forgotten, as a real server's --etcd-compaction-interval
LEAST_FORGOTTEN = 200  # changes; an idle node's heartbeats come to that in some twenty minutes
PAUSE_SECONDS = 0.05  # between two pieces of the file that are given back: requests come first
BATCH = 200  # removals between two turns of the event loop
EVENTS, PODS, NODES = "events", "pods", "nodes"


class Expiry:
    """Follows the store's commits; remembers only when each event was last written."""

    def __init__(self, store: Store, clock: Clock, faults: Faults, seconds: float = EVENT_SECONDS) -> None:
        self._store, self._clock, self._faults = store, clock, faults
        self._life = timedelta(seconds=seconds)
        # After a restart the events themselves say how old they are: no event lives longer for it.
        stored = ((_last_written(item, clock.now()), item.key) for item in store.bucket(EVENTS).items())
        self._written: dict[Key, datetime] = {key: at for at, key in sorted(stored)}  # the oldest first
        # By the uid of a deleted Pod: when its node was first found missing.
        self._nodeless: dict[str, datetime] = {}
        store.listeners.append(self._on_commit)

    def _on_commit(self, changes: list[Change]) -> None:
        now = self._clock.now()
        for change in changes:
            if change.kind == EVENTS:
                # Put at the end again: the order of the dictionary is that of the
                # last writes, and the oldest are read first.
                self._written.pop(change.new.key, None)
                if not change.removed:
                    self._written[change.new.key] = now

    async def run(self) -> None:
        version, forgotten = self._store.version, 0
        while True:
            try:
                await self.expire()
                await self.collect()
                written, version = self._store.version - version, self._store.version
                forgotten += self._store.age(int(HISTORY_SECONDS / SWEEP_SECONDS))
                if is_worth_a_pause(forgotten, written):
                    return_memory()
                    forgotten = 0
                while self._store.give_back():  # noqa: ASYNC110 - no event says when there is time for more
                    await asyncio.sleep(PAUSE_SECONDS)
            except Exception:
                log.exception("what is old could not be removed")
                self._faults.count("expiry", "Event")
            await asyncio.sleep(SWEEP_SECONDS)

    async def expire(self) -> None:
        """Remove old events. Watches learn of each removal, as of every other."""
        while old := list(islice(self._old(), BATCH)):
            for key in old:
                if (item := self._store.get(EVENTS, key)) is not None:
                    self._store.remove(EVENTS, item.parse())
                # An entry without its event would be yielded for ever.
                else:
                    del self._written[key]
            if not await self._settled():
                return
        self._written = shrunk(self._written)

    def _old(self) -> Iterator[Key]:
        """A clock that was set back must not keep events for longer than they have."""
        now, surplus = self._clock.now(), len(self._written) - MOST_EVENTS
        for number, (key, written) in enumerate(self._written.items()):
            if number >= surplus and now - self._life < written <= now + self._life:
                return
            yield key

    async def collect(self) -> None:
        """Remove deleted Pods that no kubelet will end: those bound to no node at once, those whose node is missing
        after the quarantine.
        """
        removable = list(self._removable_pods())
        for number, item in enumerate(removable, 1):
            # The loop pauses: what has changed since, or was made again under the name, is left to the next sweep.
            if self._store.get(PODS, item.key) is item:
                self._store.remove(PODS, item.parse())
            if number % BATCH == 0 and not await self._settled():
                return
        await self._settled()

    def _removable_pods(self) -> Iterator[Item]:
        now, nodeless = self._clock.now(), self._nodeless
        self._nodeless = {}
        for item in self._store.bucket(PODS).items():
            if not item.deleting or find_field(pod := item.parse(), "metadata", "finalizers"):
                continue
            node = find_field(pod, "spec", "nodeName")
            if not node:
                yield item
            elif self._store.get(NODES, ("", node)) is None:
                missed = self._nodeless[item.uid] = nodeless.get(item.uid, now)
                # A clock that was set back must not keep a Pod for longer.
                if abs((now - missed).total_seconds()) >= QUARANTINE_SECONDS:
                    yield item

    async def _settled(self) -> bool:
        """Wait until the removals are durable; False after a failed commit, which took them back: they come
        again.
        """
        try:
            await self._store.wait_durable()
        except OSError:
            return False
        await asyncio.sleep(0)
        return True


def is_worth_a_pause(forgotten: int, written: int) -> bool:
    """Return whether to give memory back, by the changes that were forgotten since the last time, and those that were
    written since the last sweep: not for a few, and not amid a crowd, which needs it again.
    """
    return forgotten >= LEAST_FORGOTTEN and forgotten > 2 * written


def return_memory() -> None:
    """Give the C library's free pages back to the machine: by itself it keeps all below the highest in use.

    That takes about a tenth of a second for a heap of 180 MB, in which nothing is answered. A thread of its own would
    not avoid the pause: the C library's lock is held meanwhile, and the event loop waits for it with its next
    allocation.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library than GNU's
        ctypes.CDLL(None).malloc_trim(0)


def _last_written(item: Item, now: datetime) -> datetime:
    """Return when a stored event was last written, as far as it says so."""
    event = item.parse()
    created = find_field(event, "metadata", "creationTimestamp")
    times = [
        created,
        event.get("lastTimestamp"),
        event.get("eventTime"),
        find_field(event, "series", "lastObservedTime"),
    ]
    known = []
    for text in times:
        with contextlib.suppress(ValueError, TypeError):
            # A client's clock may be ahead: its event must not outlive the others for that.
            known.append(min(parse_time(text), now))
    return max(known, default=now)
