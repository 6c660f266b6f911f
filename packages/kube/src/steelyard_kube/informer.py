"""A local copy of one kind of object, kept up to date by a list and a watch.

Controllers read from it instead of asking the API, and learn of changes by `on_change`. What it holds may lag
behind, never differ for good: a watch that has run its time goes on where it was. After any other end all is listed
again, because the server that answers next may be one that was restored, whose versions went back; so it is when a
watch has been silent for too long, and from time to time. A list is the truth, whatever its versions are.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Any

from steelyard_common.backoff import backoff_seconds
from steelyard_common.types import Json
from steelyard_kube.cached_objects import CachedObjects, Index, ObjectKey, Packed
from steelyard_kube.cluster import Cluster, Resource, WatchEvent
from steelyard_kube.errors import ApiError, Forbidden, Gone, NotFound, error_from_status
from steelyard_kube.objects import is_later

_log = logging.getLogger(__name__)

Change = Callable[[Json | None, Json | None], None]
"""An object before and after; both are of one uid."""

_IN_TIME = 0.9
"""The share of the asked time after which the end of a watch is the one that was asked for."""


def drop_managed_fields(obj: Json) -> Json:
    """Two thirds of an object's size on a real server, and nothing that a controller reads."""
    obj["metadata"].pop("managedFields", None)
    return obj


def object_key(obj: Json) -> ObjectKey:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@dataclass(frozen=True)
class Pace:
    """Seconds."""

    watch: int = (
        300  # after which the server ends a watch, so that load spreads after one of its replicas dies
    )
    quiet: float = 130.0  # without as much as a bookmark (sent every minute), after which a watch is dead
    relist: float = 1800.0  # between full lists, against whatever else might go wrong
    backoff: float = 0.1  # doubled for each failure in a row; the pause is a random share of it
    backoff_cap: float = 10.0
    absent: float = 30.0  # until a kind that the server does not have is tried again


class Informer:
    """Objects that it returns are shared: read them, never change them."""

    def __init__(  # noqa: PLR0913  (all but two have defaults that fit most callers)
        self,
        cluster: Cluster,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, Index] | None = None,
        transform: Callable[[Json], Json] = drop_managed_fields,
        on_change: Change = lambda old, new: None,
        optional: bool = False,
        packed: Packed = False,
        pace: Pace | None = None,
        rng: Random | None = None,
    ) -> None:
        """`optional`: the server need not have the kind; without it, this counts as synced, and empty. `packed`: for
        many objects that are rarely read; a function chooses among them.
        """
        self.synced = asyncio.Event()  # set once the first list is in
        self._cluster = cluster
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._transform = transform
        self._on_change = on_change
        self._optional = optional
        self._absent = False
        self._pace = pace or Pace()
        self.rng = rng or Random()
        """Source of the pauses before retries and of the lengths of watches."""
        self._shelf = CachedObjects(indexes or {}, packed=packed)
        self._version = ""  # of the last event seen; empty when only a list can go on
        self._listed = 0.0
        self._failures = 0
        self.trouble = ""
        """Reason for which the kind cannot be followed at the moment; empty where it can."""

    # ---- reading

    def get(self, namespace: str | None, name: str) -> Json | None:
        return self._shelf.get((namespace or "", name))

    def by_index(self, index: str, key: str) -> list[Json]:
        return self._shelf.by_index(index, key)

    def count(self, index: str, key: str) -> int:
        return self._shelf.count(index, key)

    def counts(self, index: str) -> Mapping[str, int]:
        return self._shelf.counts(index)

    def items(self) -> list[Json]:
        return self._shelf.items()

    def uids(self) -> set[str]:
        return self._shelf.uids()

    def apply_write(self, obj: Json) -> bool:
        """Store the API's answer to a write ahead of the watch, which will bring the same; listeners are not called.

        Whether the cache shows the object now, or a later state of it. What the watch has passed already stays as the
        watch left it: it may be gone.
        """
        uid, version = obj["metadata"].get("uid", ""), obj["metadata"]["resourceVersion"]
        if not (version.isdigit() and self._version.isdigit()):
            return False
        key = object_key(obj)
        if is_later(version, self._version) and is_later(version, self._shelf.version(key) or "0"):
            self._shelf.put(key, self._transform(obj))
        return bool(self._shelf.uid(key) == uid)

    # ---- following

    async def run(self) -> None:
        """Follow until cancelled; a server that refuses or is away only delays."""
        while True:
            try:
                await self._follow()
            except Gone:
                self._version = ""
                self._failures += 1
            except ApiError as error:
                self._version = ""
                if self._optional and isinstance(error, NotFound | Forbidden):
                    self._without(error)
                    await asyncio.sleep(self._pace.absent)
                    continue
                self._failures += 1
                self.trouble = f"cannot follow {self._resource.plural}: {error}"
                _log.warning("%s; trying again", self.trouble)
            pause = backoff_seconds(self._failures + 1, self._pace.backoff, self._pace.backoff_cap)
            await asyncio.sleep(self.rng.uniform(0, pause))

    def _without(self, error: ApiError) -> None:
        """The server does not have the kind, or not for us: said once."""
        if not self._absent:
            _log.warning("doing without %s: %s", self._resource.plural, error)
        self._absent, self._version = True, ""
        for key in self._shelf.names():
            self._set(key, None)
        self.synced.set()

    async def _follow(self) -> None:
        """One watch, with a list before it where one is due."""
        clock = asyncio.get_running_loop().time
        if not self._version or clock() - self._listed > self._pace.relist:
            await self._list()
            self._listed = clock()
        began, seconds = clock(), round(self.rng.uniform(self._pace.watch, 2 * self._pace.watch))
        try:
            async with asyncio.timeout(self._pace.quiet) as quiet:
                async with aclosing(self._watch(seconds)) as events:
                    async for event in events:
                        quiet.reschedule(clock() + self._pace.quiet)
                        self._see(event)
        except TimeoutError:
            _log.info("the watch of %s was silent; beginning another", self._resource.plural)
        finally:
            if clock() - began > self._pace.backoff_cap:
                self._failures = 0
        if clock() - began < _IN_TIME * seconds:  # its server went away
            self._version = ""
            self._failures += 1

    def _watch(self, seconds: int) -> Any:
        return self._cluster.watch(
            self._resource,
            self._namespace,
            resource_version=self._version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=seconds,
        )

    async def _list(self) -> None:
        """Page by page: of many objects, most are never in memory as they come.

        Until it is complete no write is taken for known: the pages may be older, and would take it away again.
        """
        listed: set[ObjectKey] = set()
        version = self._version = ""
        async with aclosing(self._pages()) as pages:
            async for page in pages:
                version = version or page.resource_version  # what changes between two pages is watched
                for obj in page.items:
                    listed.add(object_key(obj))
                    self._set(object_key(obj), obj)
        for key in self._shelf.names():
            if key not in listed:
                self._set(key, None)
        self._version = version
        self._absent, self.trouble = False, ""
        self.synced.set()

    def _pages(self) -> Any:
        return self._cluster.pages(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )

    def _see(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            raise error_from_status(event.object)
        version = event.object["metadata"]["resourceVersion"]
        if version == self._version:
            return  # it came twice
        if not is_later(version, self._version):
            raise Gone(f"the watch of {self._resource.plural} went back from {self._version} to {version}")
        self._version = version
        if event.type == "BOOKMARK":
            return
        key = object_key(event.object)
        if is_later(version, self._shelf.version(key) or "0"):  # else it is older than what was written
            self._set(key, None if event.type == "DELETED" else event.object)

    def _set(self, key: ObjectKey, obj: Json | None) -> None:
        """Another uid is another object, and two changes: the end of the one and the beginning of the other."""
        try:
            self._change(key, obj)
        except Exception:  # noqa: BLE001 - whatever an object holds, it stops neither the others nor the process
            _log.exception("cannot read %s %s/%s: left out", self._resource.kind, *key)
            self._shelf.drop(key)

    def _change(self, key: ObjectKey, obj: Json | None) -> None:
        old = self._shelf.get(key)
        new = self._transform(obj) if obj else None
        if (old is None and new is None) or (new and self._shelf.holds(key, new)):
            return
        if old and new and self._shelf.uid(key) != new["metadata"].get("uid", ""):
            self._change(key, None)
            old = None
        self._shelf.put(key, new)
        try:
            self._on_change(old, new)
        except Exception:  # noqa: BLE001 - what is made of it is its reader's matter; the object is there
            _log.exception("a change of %s %s/%s was lost", self._resource.kind, *key)
