"""Runs the garbage collector on any server, by requests alone.

Changes become keys; a worker reads the object and its owners from the API itself, since the graph may lag behind, and
carries out what `garbage.py` decides. New kinds are followed as soon as their definition is there.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, Conflict, NotFound
from steelyard_kube.objects import is_deleting, owner_references, read_finalizers
from steelyard_kube.resource import CRDS, Resource
from steelyard_kube.served import KindVersion
from steelyard_kube.workqueue import Backoff, WorkQueue
from steelyard_local_kubernetes import garbage
from steelyard_local_kubernetes.controllers.garbage.graph import Graph
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.garbage import FOREGROUND, ORPHAN, OwnerState

Key = tuple[Resource, str, str]  # resource, namespace, name
WORKERS = 8
TRIES = 5  # of one write that others' writes get ahead of
REMEMBERED = 500  # removed owners of defined kinds, as many as a real collector remembers
REDISCOVERY = 30.0  # seconds between two discoveries of kinds, in addition to those that a definition causes
_log = logging.getLogger(__name__)


class ServingCluster(Cluster, Protocol):
    """A cluster that lists its kinds."""

    async def list_kinds(self) -> Sequence[KindVersion]: ...


async def run_garbage_collector(
    cluster: ServingCluster,
    *,
    stop: asyncio.Event,
    faults: Faults | None = None,
    synced: Callable[[], None] = lambda: None,
) -> None:
    """Collect until `stop`."""
    collector = Collector(cluster, faults or Faults())
    tasks = [asyncio.create_task(collector.discover(synced))]
    tasks += [asyncio.create_task(collector.work()) for _ in range(WORKERS)]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        collector.queue.close()
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, stopping, return_exceptions=True)
        await collector.graph.close()


class Collector:
    def __init__(self, cluster: ServingCluster, faults: Faults) -> None:
        self._cluster, self._faults = cluster, faults
        self.queue: WorkQueue[Key] = WorkQueue(Backoff(cap=30.0), tenant=lambda key: key[1])
        self.graph = Graph(cluster, self._on_change)
        self._of_unknown_kinds: set[Key] = set()  # their owner's kind is not defined, or not yet
        self._definitions: set[str] = set()  # names of those that were ever there
        # The definitions of removed owners that had dependents, the oldest first: a definition may go with its objects,
        # and then no request tells whether an owner is there.
        self._removed: dict[tuple[str, str, str, str], str] = {}
        self._defined = asyncio.Event()
        # Set once the graph is full: before, an owner that it lacks may only not have been read yet.
        self._complete = asyncio.Event()

    async def discover(self, synced: Callable[[], None]) -> None:
        """Follow all kinds; again when a definition changes, and from time to time."""
        while True:
            self._defined.clear()
            try:
                self.graph.follow(await self._cluster.list_kinds())
                await self.graph.wait_for_sync()
                while self._of_unknown_kinds:
                    self.queue.add(self._of_unknown_kinds.pop())
            except ApiError as error:
                _log.warning("the kinds of the server are not known, trying again: %s", error)
                await asyncio.sleep(1.0)
                continue
            if not self._complete.is_set():
                self._complete.set()
                synced()
            try:
                async with asyncio.timeout(REDISCOVERY):
                    await self._defined.wait()
            except TimeoutError:
                pass

    # ---- what has to be collected

    def _on_change(self, resource: Resource, old: Json | None, new: Json | None) -> None:
        if resource.plural == CRDS.plural:
            self._defined.set()
            if new is not None:
                self._definitions.add(new["metadata"]["name"])
        if new is None:
            assert old is not None
            self._remember(resource, old)
            self._add_dependents(old)
            self._add_owners(old)
            return
        if owner_references(old) != owner_references(new):
            self._add_owners(old)  # an owner that waited for this object may no longer have to
        held = is_deleting(new) and not {FOREGROUND, ORPHAN}.isdisjoint(read_finalizers(new))
        if held or (owner_references(new) and not self._is_settled(new)):
            self._add(resource, new)
        if garbage.waits_for_dependents(new):
            self._add_dependents(new)

    def _remember(self, resource: Resource, removed: Json) -> None:
        definition = f"{resource.plural}.{resource.group}"
        if definition in self._definitions and any(self.graph.dependents(removed["metadata"]["uid"])):
            self._removed[_identity(resource.group, resource.kind, removed["metadata"])] = definition
            if len(self._removed) > REMEMBERED:
                del self._removed[next(iter(self._removed))]

    def _is_settled(self, obj: Json) -> bool:
        """Return whether every owner is known and stays: most objects have a living owner, and need no request."""
        for reference in owner_references(obj):
            owner = self.graph.find(reference["uid"])
            if owner is None or garbage.waits_for_dependents(owner[1]):
                return False
            metadata, resource = owner[1]["metadata"], self.graph.resource(reference)
            if resource is None or (resource.group, resource.kind) != (owner[0].group, owner[0].kind):
                return False
            if metadata["name"] != reference["name"]:
                return False
            if resource.namespaced and metadata["namespace"] != obj["metadata"].get("namespace"):
                return False
        return True

    def _add(self, resource: Resource, obj: Json) -> None:
        self.queue.add((resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))

    def _add_dependents(self, owner: Json) -> None:
        for resource, dependent in self.graph.dependents(owner["metadata"]["uid"]):
            self._add(resource, dependent)

    def _add_owners(self, obj: Json | None) -> None:
        for reference in owner_references(obj):
            owner = self.graph.find(reference["uid"])
            if owner and garbage.waits_for_dependents(owner[1]):
                self._add(*owner)

    # ---- what is done about it

    async def work(self) -> None:
        await self._complete.wait()
        while True:
            key = await self.queue.get()
            try:
                await self.sync(key)
            except ApiError as error:
                wait = self.queue.retry(key)
                _log.warning("%s %s/%s: %s; again in %.1f s", key[0].kind, *key[1:], error, wait)
            except Exception:  # noqa: BLE001 - the outermost edge: one object's defect must not stop the others
                self._faults.count("garbage", key[0].kind)
                _log.exception("%s %s/%s cannot be worked on", key[0].kind, *key[1:])
                self.queue.retry(key)
            else:
                self.queue.forget(key)
            finally:
                self.queue.finish(key)

    async def sync(self, key: Key) -> None:
        """Bring one object to what its owners, or its dependents, ask for."""
        obj = await self._get(*key)
        if obj is None:
            return
        if is_deleting(obj):
            if ORPHAN in read_finalizers(obj):
                await self._orphan(key[0], obj)
            elif FOREGROUND in read_finalizers(obj):
                await self._let_go(key[0], obj)
            return
        if not owner_references(obj):
            return
        owners = []
        for reference in owner_references(obj):
            state = await self._state(reference, obj)
            if state is None:  # perhaps the kind is defined later: until then nothing is done to the object
                self._of_unknown_kinds.add(key)
                return
            owners.append((reference, state))
        uid = obj["metadata"]["uid"]
        verdict = garbage.collect(
            obj, owners, lambda: [dependent for _, dependent in self.graph.dependents(uid)]
        )
        if verdict.forget:
            await self._edit(key[0], obj, lambda data: garbage.without_owners(data, verdict.forget))
        if verdict.unblock:
            await self._edit(key[0], obj, garbage.unblocking)
        if verdict.delete:
            await self._delete(key, uid, verdict.delete)

    async def _state(self, reference: Json, obj: Json) -> OwnerState | None:
        """Return what became of an owner; None for a kind that this server does not know."""
        resource = self.graph.resource(reference)
        if resource is None:
            return await self._state_without_kind(reference)
        namespace = obj["metadata"].get("namespace", "")
        if resource.namespaced and not namespace:
            return "alive"  # its namespace is unknown
        try:
            there = await self._cluster.get(
                resource, reference["name"], namespace if resource.namespaced else None
            )
        except NotFound as error:
            # An answer that names no object is about the kind: in another version the owner may live on.
            is_missing = (error.details or {}).get("name")
            return "gone" if is_missing else await self._state_without_kind(reference)
        if there["metadata"]["uid"] != reference["uid"]:
            return "gone"
        return "waiting" if garbage.waits_for_dependents(there) else "alive"

    async def _state_without_kind(self, reference: Json) -> OwnerState | None:
        """Return "gone" for an owner that was removed and whose kind is defined no more; else nothing is known."""
        group = reference["apiVersion"].rpartition("/")[0]
        definition = self._removed.get(_identity(group, reference["kind"], reference))
        # A definition goes after the last of its objects. While it is there, another version of it may be served.
        if definition is None or await self._get(CRDS, "", definition) is not None:
            return None
        return "gone"

    async def _orphan(self, resource: Resource, owner: Json) -> None:
        """Let dependents forget their owner before it goes: afterwards they would be garbage."""
        uid = owner["metadata"]["uid"]
        for kind, dependent in list(self.graph.dependents(uid)):
            await self._edit(kind, dependent, lambda data: garbage.without_owners(data, [uid]))
        await self._edit(resource, owner, lambda data: garbage.without_finalizer(data, ORPHAN))

    async def _let_go(self, resource: Resource, owner: Json) -> None:
        """End the wait of an owner that no dependent blocks any more."""
        uid = owner["metadata"]["uid"]
        blocking = [(kind, obj) for kind, obj in self.graph.dependents(uid) if garbage.blocks(obj, uid)]
        for kind, dependent in blocking:
            if not is_deleting(dependent):
                self._add(kind, dependent)
        if not blocking:
            await self._edit(resource, owner, lambda data: garbage.without_finalizer(data, FOREGROUND))

    # ---- requests

    async def _get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        try:
            return await self._cluster.get(resource, name, namespace or None)
        except NotFound:
            return None

    async def _delete(self, key: Key, uid: str, propagation: str) -> None:
        resource, namespace, name = key
        try:
            await self._cluster.delete(resource, name, namespace or None, uid=uid, propagation=propagation)
        except (Conflict, NotFound):
            return  # gone, or another by this name

    async def _edit(self, resource: Resource, obj: Json, change: Callable[[Json], Json]) -> None:
        """Change the metadata of an object as it is now, unless another object has its name by now."""
        metadata = obj["metadata"]
        for left in reversed(range(TRIES)):
            there = await self._get(resource, metadata.get("namespace", ""), metadata["name"])
            if there is None or there["metadata"]["uid"] != metadata["uid"]:
                return
            known = there["metadata"]
            patch = {"metadata": {**change(known), "resourceVersion": known["resourceVersion"]}}
            try:
                await self._cluster.patch(resource, known["name"], patch, known.get("namespace"))
            except NotFound:
                return
            except Conflict:
                if not left:
                    raise
            else:
                return


def _identity(group: str, kind: str, named: Json) -> tuple[str, str, str, str]:
    return group, kind, named["name"], named["uid"]
