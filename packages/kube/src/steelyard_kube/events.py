"""Kubernetes events: what a controller did, for `kubectl describe` and `kubectl get events`.

Recording never waits and never fails: a controller calls `record` in the middle of a reconcile. A task of its own
(`run`) writes; the same event again raises the count of the first, and what an API that is away or slow cannot take
is dropped, because events inform people and no decision depends on them. Written events are remembered for some
minutes, as long as its repetition would raise a count.
"""

import asyncio
import contextlib
import hashlib
import logging
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, ApiError, NotFound
from steelyard_kube.resource import EVENTS
from steelyard_kube.tables import shrunk
from steelyard_kube.times import format_time

_log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
_MESSAGE = 1024  # characters, as the API allows
_NAME = 253
_PENDING = 1000  # events of one namespace not yet written
_AT_ONCE = 8  # events on their way to the server
_REMEMBERED = 4000  # events written, whose count can grow
# After its last repetition an event is remembered for longer than any back-off, after which a failure comes again.
REMEMBERED_SECONDS = 400.0
_SWEEP_SECONDS = 30.0  # between two searches for what need not be remembered any more
_BURST = 25  # different events of one object and reason at once; afterwards one in each
_REFILL = 300.0  # seconds, as Kubernetes' own components have it


@dataclass(frozen=True)
class _Key:
    """Events that are equal in this are one, counted."""

    uid: str
    type: EventType
    reason: str
    message: str

    def digest(self) -> bytes:
        """Return a stand-in of a fixed size: messages are long, and thousands of keys are remembered."""
        text = "\0".join((self.uid, self.type, self.reason, self.message))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(slots=True)
class _Occurrence:
    """An event that waits to be written."""

    involved: Json
    first: datetime
    last: datetime
    count: int = 1


@dataclass(slots=True)
class _Event:
    """An event that the API has, and how often it happened."""

    namespace: str
    name: str
    count: int
    last: datetime


class _Allowance:
    """Limit of events of one reason per object: an object with hundreds of Pods must not crowd out the
    others.
    """

    def __init__(self) -> None:
        self._spent: OrderedDict[tuple[str, str], tuple[float, datetime]] = OrderedDict()

    def takes(self, key: _Key, now: datetime) -> bool:
        spent, since = self._spent.pop((key.uid, key.reason), (0.0, now))
        spent = max(0.0, spent - (now - since).total_seconds() / _REFILL)
        allowed = spent + 1 <= _BURST
        self._spent[key.uid, key.reason] = (spent + allowed, now)
        if len(self._spent) > _REMEMBERED:
            self._spent.popitem(last=False)
        return allowed

    def forget(self, now: datetime) -> None:
        """Drop the buckets that are full again: they allow as much as a new one."""
        self._spent = OrderedDict(
            (key, (spent, since))
            for key, (spent, since) in self._spent.items()
            if (now - since).total_seconds() < spent * _REFILL
        )

    def __len__(self) -> int:
        return len(self._spent)


class EventRecorder:
    """`component` is who speaks, `instance` which copy of it; `pause` seconds lie between two rounds of writes,
    `sweep` between two searches for what need not be remembered any more.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        component: str,
        instance: str = "",
        pause: float = 1.0,
        sweep: float = _SWEEP_SECONDS,
        now: Callable[[], datetime],
    ) -> None:
        self.dropped = 0
        self._cluster = cluster
        self._component, self._instance = component, instance
        self._pause, self._sweep = pause, sweep
        self._now = now
        self._pending: dict[str, OrderedDict[_Key, _Occurrence]] = {}  # by namespace
        self._written: OrderedDict[bytes, _Event] = OrderedDict()  # by digest, the latest last
        self._allowance = _Allowance()
        self._wake = asyncio.Event()

    def record(self, obj: Json, type: EventType, reason: str, message: str) -> None:
        """Note that `reason` happened to `obj`."""
        metadata, now = obj["metadata"], self._now()
        key = _Key(metadata.get("uid", ""), type, reason, message[:_MESSAGE])
        pending = self._pending.setdefault(metadata.get("namespace", ""), OrderedDict())
        if waiting := pending.get(key):
            waiting.count += 1
            waiting.last = now
            return
        if len(pending) >= _PENDING or not (key.digest() in self._written or self._allowance.takes(key, now)):
            self.dropped += 1
            return
        involved = {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}
        involved |= {name: obj[name] for name in ("apiVersion", "kind") if name in obj}
        pending[key] = _Occurrence(involved, now, now)
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled; what is left then, `flush` writes."""
        clock = asyncio.get_running_loop().time
        due = clock() + self._sweep
        while True:
            # Nothing more may ever be recorded, and what is remembered must go all the same.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due if self.count_events else None):
                    await self._wake.wait()
            await self.flush()
            if clock() >= due:
                self.forget()
                due = clock() + self._sweep
            await asyncio.sleep(self._pause)

    @property
    def count_events(self) -> int:
        """Number of the events and allowances that are kept in memory after they were written."""
        return len(self._written) + len(self._allowance)

    def forget(self) -> None:
        """Drop events that have not been repeated for so long that the next would be a new event."""
        now = self._now()
        self._allowance.forget(now)
        while self._written:
            digest, oldest = next(iter(self._written.items()))
            if (now - oldest.last).total_seconds() < REMEMBERED_SECONDS:
                break
            del self._written[digest]
        self._written = shrunk(self._written)

    async def flush(self) -> None:
        """Write all that is pending now, one of each namespace in turn: thousands of one's delay no other's."""
        self._wake.clear()
        namespaces = deque(self._pending)
        # Several at once, which a server may store together: one at a time, each would wait for a flush of its own.
        while batch := [*islice(self._in_turn(namespaces), _AT_ONCE)]:
            await asyncio.gather(*(self._attempt(key, new) for key, new in batch))

    def _in_turn(self, namespaces: deque[str]) -> Iterator[tuple[_Key, _Occurrence]]:
        """Take the pending events, one of each namespace in turn."""
        while namespaces:
            namespace = namespaces.popleft()
            if not (pending := self._pending.get(namespace)):  # another flush may have been faster
                self._pending.pop(namespace, None)
                continue
            namespaces.append(namespace)
            yield pending.popitem(last=False)

    async def _attempt(self, key: _Key, new: _Occurrence) -> None:
        try:
            await self._write(key, new)
        except Exception as error:  # noqa: BLE001 - one event's fault is its own
            self.dropped += new.count
            level = logging.INFO if isinstance(error, ApiError) else logging.ERROR
            _log.log(level, "event %s of %s is lost: %s", key.reason, new.involved.get("name"), error)

    async def _write(self, key: _Key, new: _Occurrence) -> None:
        digest = key.digest()
        if known := self._written.pop(digest, None):
            known.count, known.last = known.count + new.count, new.last
            try:
                patch = {"count": known.count, "lastTimestamp": format_time(known.last)}
                await self._cluster.patch(EVENTS, known.name, patch, known.namespace)
            except NotFound:  # expired: events live an hour
                known = await self._create(key, new)
        else:
            known = await self._create(key, new)
        self._written[digest] = known
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    async def _create(self, key: _Key, new: _Occurrence) -> _Event:
        what = f"{key}{new.first.timestamp()}{self._instance}"
        suffix = f".{hashlib.sha256(what.encode()).hexdigest()[:16]}"
        name = str(new.involved["name"])[: _NAME - len(suffix)].rstrip(".-") + suffix
        # An event of an object without a namespace stands in `default`.
        namespace = sys.intern(str(new.involved.get("namespace") or "default"))
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": new.involved,
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "count": new.count,
            "firstTimestamp": format_time(new.first),
            "lastTimestamp": format_time(new.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
        with contextlib.suppress(AlreadyExists):  # an answer that was lost: it is there
            await self._cluster.create(EVENTS, event)
        return _Event(namespace, name, new.count, new.last)
