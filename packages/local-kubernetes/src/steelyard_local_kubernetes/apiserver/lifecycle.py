"""Consequences of deletions: dependents of owners that are gone, contents of namespaces and of definitions.

Follows the store's commits through a queue, in a task of the server; everything that it does is a write like any
other, with the uid as its condition.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterator

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import owner_references, read_finalizers, read_status
from steelyard_local_kubernetes import garbage
from steelyard_local_kubernetes.apiserver.admission.server import CLEANUP, DEFINITIONS
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.options import Deletion, Options
from steelyard_local_kubernetes.apiserver.protection import (
    CLAIMS,
    NETWORK_PROTECTION,
    NETWORKS,
    VOLUMES,
    claims_to_check,
    is_new_network,
    is_new_volume,
    needless_finalizer,
    ready_network,
)
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.ring import Change
from steelyard_local_kubernetes.apiserver.rules.cluster import FINALIZER
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.garbage import FOREGROUND, ORPHAN, OwnerState

log = logging.getLogger(__name__)

Reference = tuple[str, Key]  # bucket, key
BATCH = 200  # objects between two turns of the event loop


class Lifecycle:
    def __init__(
        self,
        objects: Objects,
        registry: Registry,
        faults: Faults | None = None,
        *,
        collects_garbage: bool = True,
    ) -> None:
        self._faults, self._collects_garbage = faults or Faults(), collects_garbage
        self._objects, self._store, self._registry = objects, objects.store, registry
        self._waiting: dict[Reference, None] = {}  # a set that remembers the order
        self._wake = asyncio.Event()
        # Only after a commit: what is taken back was no deletion, and must have no consequences.
        self._store.listeners.append(self._on_commit)

    # ---- the objects to check

    def _on_commit(self, changes: list[Change]) -> None:
        for change in changes:
            item = change.new
            if change.kind == "pods":
                for claim in claims_to_check(item):
                    self._look_at((CLAIMS, claim))
            # A deletion frees others: dependents lose their owner, an owner may have waited for this one, and so may
            # the namespace or the definition that is being emptied.
            if change.removed:
                for dependent in self._store.dependents(item.uid):
                    self._look_at(dependent)
                for owner in item.owners:  # one that waits in the foreground for its dependents
                    if reference := self._store.owner(owner):
                        self._look_at(reference)
                self._look_at(("namespaces", ("", item.namespace)))
                self._waiting.pop((DEFINITIONS, ("", change.kind)), None)  # after all dependents
                self._look_at((DEFINITIONS, ("", change.kind)))
                continue
            for owner in change.old.owners if change.old is not None else ():
                # The owner may no longer wait for this object: its reference is gone, or no longer blocks.
                reference = self._store.owner(owner)
                if reference and (waiting := self._store.get(*reference)) and waiting.deleting:
                    self._look_at(reference)
            has_new_owners = item.owners and (change.old is None or change.old.owners != change.new.owners)
            if item.deleting or has_new_owners or change.kind in (VOLUMES, NETWORKS):
                self._look_at((change.kind, item.key))

    def _look_at(self, reference: Reference) -> None:
        self._waiting[reference] = None
        self._wake.set()

    async def run(self) -> None:
        """Handle everything once at the start, for what was left undone; then every change."""
        # Definitions last: one that is being deleted goes after the dependents of its objects.
        for bucket in sorted(self._store.kinds(), key=lambda bucket: bucket == DEFINITIONS):
            # What the last process had begun is in no queue any more; the objects themselves say what is left to do.
            for item in self._store.bucket(bucket).items():
                if item.deleting or item.owners:
                    self._look_at((bucket, item.key))
        while True:
            self._wake.clear()
            await self._drain()
            await self._wake.wait()

    async def _drain(self) -> None:
        done = 0
        while self._waiting:
            # The object is looked up only when its turn comes: it may have changed or gone since it was queued.
            reference = next(iter(self._waiting))
            del self._waiting[reference]
            self._visit(reference)
            done += 1
            # A namespace with thousands of objects must not hold up requests and leases (fair shares).
            if done % BATCH == 0:
                await asyncio.sleep(0)
        with contextlib.suppress(OSError):  # reported to the writer; what is undone comes again with a change
            await self._store.wait_durable()

    def _visit(self, reference: Reference) -> None:
        bucket, key = reference
        item = self._store.get(bucket, key)
        try:
            kind = self._registry.storage_kind(bucket)
        except KeyError:
            return
        # It went between being queued and its turn.
        if item is None:
            return
        try:
            self._look(kind, item)
        except Refusal as refusal:
            log.warning("%s %s/%s: %s", kind.plural, *key, refusal.message)
        except Exception:
            log.exception("%s %s/%s cannot be worked on", kind.plural, *key)
            self._faults.count("lifecycle", kind.kind)

    # ---- what to do

    def _look(self, kind: ResourceType, item: Item) -> None:
        if kind.bucket == "namespaces" and item.deleting:
            self._empty_namespace(kind, item)
        elif kind.bucket == DEFINITIONS and item.deleting:
            self._empty_definition(kind, item)
        if item.deleting:
            finalizers = read_finalizers(item.parse()) if self._collects_garbage else []
            if ORPHAN in finalizers:
                for bucket, key in self._store.dependents(item.uid):
                    # Orphaned before the owner goes: afterwards they would count as children of a missing owner, and be
                    # collected.
                    if (dependent := self._store.get(bucket, key)) is not None:
                        self._forget_owners(self._registry.storage_kind(bucket), dependent, {item.uid})
                self._drop_finalizer(kind, item, ORPHAN)
            elif FOREGROUND in finalizers:
                self._foreground(kind, item)
            elif protection := needless_finalizer(self._store, kind.bucket, item):
                self._drop_finalizer(kind, item, protection)
        elif item.owners and self._collects_garbage:
            self._collect(kind, item)
        elif is_new_volume(kind.bucket, item):
            obj = item.parse()
            obj["status"] = {**read_status(obj), "phase": "Available"}
            self._objects.update(kind, item, obj, Options(), "status")
        elif is_new_network(kind.bucket, item):
            self._protect_network(kind, item)

    def _protect_network(self, kind: ResourceType, item: Item) -> None:
        """Do what a real controller does for a new network, and again for one whose finalizer was taken."""

        def change(metadata: Json) -> Json:
            finalizers = sequence(metadata, "finalizers")
            return {"finalizers": [*finalizers, *({NETWORK_PROTECTION} - {*finalizers})]}

        self._change(kind, item, change)
        protected = self._objects.item(kind, item.key)
        obj = protected.parse()
        obj["status"] = ready_network(read_status(obj), self._objects.clock.stamp())
        self._objects.update(kind, protected, obj, Options(), "status")

    def _delete(self, reference: Reference, propagation: str = "Background") -> None:
        bucket, key = reference
        item = self._store.get(bucket, key)
        if item is not None:
            # With the uid: an object that was made again under the name meanwhile is not the one that lost its owner.
            request = Deletion(propagation=propagation, uid=item.uid)
            self._objects.delete(self._registry.storage_kind(bucket), item, request, Options())

    def _change(self, kind: ResourceType, item: Item, change: Callable[[Json], Json]) -> None:
        """Write fields of the metadata; None takes one away."""
        obj = item.parse()
        metadata = {**obj["metadata"], **change(obj["metadata"])}
        obj["metadata"] = {name: value for name, value in metadata.items() if value is not None}
        self._objects.update(kind, item, obj, Options())

    def _drop_finalizer(self, kind: ResourceType, item: Item, name: str) -> None:
        self._change(kind, item, lambda metadata: garbage.without_finalizer(metadata, name))

    # ---- owners

    def _collect(self, kind: ResourceType, item: Item) -> None:
        """Delete objects without an owner; forget owners that are gone where another is there."""
        obj = item.parse()
        owners = []
        for reference in owner_references(obj):
            state = self._state(reference, item)
            # Better too much is kept than an object removed whose owner some other server knows.
            if state is None:
                return
            owners.append((reference, state))
        verdict = garbage.collect(obj, owners, lambda: self._dependents(item.uid))
        if verdict.forget:
            self._forget_owners(kind, item, verdict.forget)
        if verdict.unblock:
            self._change(kind, item, garbage.unblocking)
        if verdict.delete:
            self._delete((kind.bucket, item.key), verdict.delete)

    def _dependents(self, uid: str) -> Iterator[Json]:
        for reference in self._store.dependents(uid):
            if (dependent := self._store.get(*reference)) is not None:
                yield dependent.parse()

    def _state(self, owner: Json, item: Item) -> OwnerState | None:
        """Return what became of an owner, by its uid, where such an owner could be; None for an unknown kind."""
        kind = self._registry.find_kind(owner["apiVersion"], owner["kind"])
        if kind is None:
            return None
        if kind.namespaced and not item.namespace:
            return "alive"  # its namespace is unknown
        parent = self._store.owner(owner["uid"])
        # As the real garbage collector: a reference to another name or kind with a living uid names no owner.
        if parent is None or parent[0] != kind.bucket or parent[1][1] != owner["name"]:
            return "gone"
        # An owner with a namespace owns in that namespace only: one of another is as good as gone.
        if kind.namespaced and parent[1][0] != item.namespace:
            return "gone"
        there = self._store.get(*parent)
        waits = there is not None and there.deleting and garbage.waits_for_dependents(there.parse())
        return "waiting" if waits else "alive"

    def _forget_owners(self, kind: ResourceType, item: Item, uids: Collection[str]) -> None:
        self._change(kind, item, lambda metadata: garbage.without_owners(metadata, uids))

    def _foreground(self, kind: ResourceType, item: Item) -> None:
        """Delete the dependents; the owner goes with the last one that blocks it."""
        for reference in self._store.dependents(item.uid):
            dependent = self._store.get(*reference)
            if dependent is None:
                continue
            if not dependent.deleting:
                self._collect(self._registry.storage_kind(reference[0]), dependent)
        # Asked again: some of them had no finalizer, and went at once.
        left = any(
            garbage.blocks(dependent.parse(), item.uid)
            for reference in self._store.dependents(item.uid)
            if (dependent := self._store.get(*reference))
        )
        if not left:
            current = self._store.get(kind.bucket, item.key)
            # Read again: in a circle of owners the deletions above may have written or ended this one, too.
            if current is not None and current.uid == item.uid:
                self._drop_finalizer(kind, current, FOREGROUND)

    # ---- namespaces and definitions

    def _empty_namespace(self, kind: ResourceType, item: Item) -> None:
        left = False
        for bucket in self._store.kinds():
            for content in self._store.bucket(bucket).items(item.name):
                if not content.deleting:
                    self._delete((bucket, content.key))
                left |= self._store.get(bucket, content.key) is not None
        if left:
            return
        obj = item.parse()
        held = sequence(obj, "spec", "finalizers")
        others = [finalizer for finalizer in held if finalizer != FINALIZER]
        # Without its own finalizer; others, and those in the metadata, may still hold it.
        obj["spec"] = {"finalizers": others} if others else {}
        if not others and not obj["metadata"].get("finalizers"):
            self._store.remove(kind.bucket, obj)
        elif held != others:
            self._store.put(kind.bucket, obj)

    def _empty_definition(self, kind: ResourceType, item: Item) -> None:
        objects = list(self._store.bucket(item.name).items())
        for obj in objects:
            if not obj.deleting:
                self._delete((item.name, obj.key))
        # Not yet where some were there: their removal leads here again, after their dependents have had their turn.
        # Once the kind is gone, nothing says any more that these have lost their owner.
        if not objects:
            self._drop_finalizer(kind, item, CLEANUP)
