"""The Cluster protocol in memory: the double of every test, and the ground of the operator's exploration.

It keeps the API's rules of writing (`rules.py`) but validates nothing: schemas, defaults and finalizers are
unknown to it, and every namespace exists. All of it is deterministic: the clock comes in, and a uid depends
only on the object's name and on how often that name was made. What happens outside the API (a Job that ends,
an object deleted by hand) tests do to `store`, whose changes watches see like any other.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TypeVar

from steelyard_common.types import Json
from steelyard_kube import rules
from steelyard_kube.cluster import LogLine, ObjectList, Patch, Resource, WatchEvent
from steelyard_kube.errors import ApiError
from steelyard_kube.patches import apply_patch
from steelyard_kube.resource import PODS
from steelyard_kube.selectors import Matcher, everything, matcher
from steelyard_kube.store import Change, Snapshot, Store, make_key

Hook = Callable[[str, Resource, str], None]
T = TypeVar("T")


class Crash(BaseException):
    """The process dies between two calls: hooks raise it, and no handler of errors may catch it."""


class CrashAt:
    """A hook that raises `Crash` at one call, counted from 1; `calls` is how many there were."""

    def __init__(self, call: int) -> None:
        self.calls = 0
        self._call = call

    def __call__(self, _verb: str, _resource: Resource, _name: str) -> None:
        self.calls += 1
        if self.calls == self._call:
            raise Crash


class MemoryCluster:
    """`before_call` and `after_call` get (verb, resource, name) around each call's effect and may raise:
    a `Crash`, or any error of the API. A write to a subresource has a verb such as `patch/status`.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.store = Store(now, self._wake)
        self.before_call: Hook | None = None
        self.after_call: Hook | None = None
        self.written: dict[str, list[LogLine]] = {}
        """Lines that each Pod's containers have written, by the Pod's uid; tests put them here."""
        # In the order of their begin: a set would wake them by their addresses, and no simulation could be repeated.
        self._watches: dict[asyncio.Event, None] = {}
        self._epoch = 0  # watches of an earlier epoch end

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        key = make_key(resource, namespace, name)
        return self._call("get", resource, name, lambda: self.store.get(key))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        matches = matcher(label_selector, field_selector)

        def effect() -> ObjectList:
            objects = [obj for obj in self.store.objects(resource, namespace) if matches(obj)]
            return ObjectList(objects, str(self.store.version))

        return self._call("list", resource, "", effect)

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[ObjectList]:
        yield await self.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def create(self, resource: Resource, obj: Json) -> Json:
        name = obj["metadata"].get("name") or obj["metadata"]["generateName"]
        return self._call("create", resource, name, lambda: self.store.create(resource, obj))

    async def replace(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        key = make_key(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"])

        def effect() -> Json:
            rules.check_replacement(resource, obj)
            return self.store.update(key, lambda _: obj, subresource)

        return self._call(_verb("replace", subresource), resource, key.name, effect)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Json:
        key = make_key(resource, namespace, name)

        def effect() -> Json:
            return self.store.update(key, lambda old: apply_patch(old, patch), subresource)

        return self._call(_verb("patch", subresource), resource, name, effect)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        key = make_key(resource, namespace, name)

        def effect() -> None:
            gone = self.store.get(key)["metadata"]["uid"]
            self.store.delete(key, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds)
            if propagation == "Orphan":
                self.store.orphan(gone)

        self._call("delete", resource, name, effect)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[WatchEvent]:
        matches = matcher(label_selector, field_selector)
        start = self._call("watch", resource, "", lambda: int(resource_version or 0))
        version = start or self.store.version
        if not start:
            for obj in self.store.objects(resource, namespace):
                if matches(obj):
                    yield WatchEvent("ADDED", obj)
        async with aclosing(self._changes(version, timeout_seconds)) as changes:
            async for change in changes:
                version = change.version
                if event := _event(change, resource, namespace, matches):
                    yield event
        if timeout_seconds is not None:
            yield WatchEvent("BOOKMARK", _bookmark(resource, version))

    async def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        since: str = "",
        tail: int | None = None,
    ) -> AsyncIterator[LogLine]:
        """Yield the lines written so far; the log ends there, followed or not."""
        uid = (await self.get(PODS, pod, namespace))["metadata"]["uid"]
        if uid not in self.written:
            raise ApiError(f"container {container!r} in pod {pod!r} is waiting to start", status=400)
        lines = [line for line in self.written[uid] if line.time >= since]
        for line in lines[max(len(lines) - tail, 0) :] if tail is not None else lines:
            yield line

    async def close(self) -> None:
        self.end_watches()

    def end_watches(self) -> None:
        """End all watches, as a server does that goes away."""
        self._epoch += 1
        self._wake()

    def collect(self) -> int:
        """Garbage collection, which here runs when it is called."""
        return self.store.collect()

    def snapshot(self) -> Snapshot:
        return self.store.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Back to `snapshot`; watches end."""
        self.store.restore(snapshot)
        self.end_watches()

    def _call(self, verb: str, resource: Resource, name: str, effect: Callable[[], T]) -> T:
        if self.before_call:
            self.before_call(verb, resource, name)
        answer = effect()
        if self.after_call:
            self.after_call(verb, resource, name)
        return answer

    def _wake(self) -> None:
        for watch in self._watches:
            watch.set()

    async def _changes(self, version: int, timeout_seconds: int | None) -> AsyncGenerator[Change, None]:
        """Yield the changes after `version`, until the watches end or time is up."""
        loop, epoch, more = asyncio.get_running_loop(), self._epoch, asyncio.Event()
        end = None if timeout_seconds is None else loop.time() + timeout_seconds
        self._watches[more] = None
        try:
            while True:
                more.clear()
                for change in self.store.since(version):
                    version = change.version
                    yield change
                if epoch != self._epoch:
                    return
                async with asyncio.timeout_at(end):  # wait_for forgets a cancellation that comes with its end
                    await more.wait()
        except TimeoutError:
            return
        finally:
            self._watches.pop(more, None)


def _verb(verb: str, subresource: str) -> str:
    return f"{verb}/{subresource}" if subresource else verb


def _bookmark(resource: Resource, version: int) -> Json:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"resourceVersion": str(version)},
    }


def _event(change: Change, resource: Resource, namespace: str | None, matches: Matcher) -> WatchEvent | None:
    """The change as this watch sees it: an object that begins or ceases to match is ADDED or DELETED."""
    if change.key is None or change.new is None:
        return WatchEvent("BOOKMARK", _bookmark(resource, change.version))
    if change.key.resource != resource or namespace not in (None, "", change.key.namespace):
        return None
    obj = change.new.load()
    if matches is everything or change.type != "MODIFIED":
        return WatchEvent(change.type, obj) if matches(obj) else None
    before, after = change.old is not None and matches(change.old.load()), matches(obj)
    match before, after:
        case True, True:
            return WatchEvent("MODIFIED", obj)
        case False, True:
            return WatchEvent("ADDED", obj)
        case True, False:
            return WatchEvent("DELETED", obj)
        case _:
            return None
