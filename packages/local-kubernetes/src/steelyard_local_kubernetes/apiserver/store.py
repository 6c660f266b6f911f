"""All objects in memory, durable in SQLite: one commit per turn of the event loop.

A write is seen by later writes at once; answers and watches learn of it after its commit (`wait_durable`). A commit
that fails takes its whole turn back. Versions only grow, over restarts too.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol

import orjson

from steelyard_common.types import Json
from steelyard_kube.tables import shrunk
from steelyard_local_kubernetes.apiserver.item import Item, Key, make_item
from steelyard_local_kubernetes.apiserver.ring import Change, Ring

log = logging.getLogger(__name__)
Row = tuple[str, str, str, bytes | None]  # kind, namespace, name, JSON; without JSON the object goes
Listener = Callable[[list[Change]], None]
INDEXED_FROM = 64  # objects of a kind; fewer are looked through
INDEXED_LABELS = 8  # of one kind, so that no client fills the memory with indexes


class Database(Protocol):
    """Store in which objects outlive the process."""

    def load(self) -> tuple[int, Iterable[Row]]:
        """The version to go on from, and every object."""

    def commit(self, version: int, rows: Iterable[Row]) -> None:
        """All or nothing, durable when it returns."""

    def give_back(self) -> bool:
        """Give some free room back to the disk; return whether there is more to give."""

    def close(self) -> None: ...


class Bucket:
    """The objects of one kind, by namespace and name, and what lately changed."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.namespaces: dict[str, dict[str, Item]] = {}
        self.size = 0
        self.bytes: Counter[str] = Counter()  # by namespace
        self._labels: dict[str, dict[str, set[Key]]] = {}  # of labels asked for: by name and value

    def get(self, key: Key) -> Item | None:
        return self.namespaces.get(key[0], {}).get(key[1])

    def items(self, namespace: str | None = None) -> list[Item]:
        """Return the items in the order of namespace and name; None means all namespaces."""
        # In the order of whole keys, as on a real server: `a-b/x` comes before `a/x`.
        names = sorted(self.namespaces, key="{}/".format) if namespace is None else [namespace]
        selected: list[Item] = []
        for namespace_name in names:
            objects = self.namespaces.get(namespace_name, {})
            selected.extend(objects[name] for name in sorted(objects))
        return selected

    def find_by_label(self, name: str, values: Iterable[str], namespace: str | None) -> list[Item] | None:
        """Return the items with a label of one of these values, in order; None where all have to be looked at.

        A controller lists the children of one owner by a label whose value is that owner's alone: without an index
        each of a thousand owners would read the children of all.
        """
        if name not in self._labels:
            if self.size < INDEXED_FROM or len(self._labels) == INDEXED_LABELS:
                return None
            self._index(name)
        by_value = self._labels[name]
        keys = {key for value in values for key in by_value.get(value, ())}
        chosen = sorted(key for key in keys if namespace is None or key[0] == namespace)
        chosen.sort(key=lambda key: f"{key[0]}/")
        return [self.namespaces[key[0]][key[1]] for key in chosen]

    def _index(self, name: str) -> None:
        by_value: dict[str, set[Key]] = {}
        for objects in self.namespaces.values():
            for item in objects.values():
                if (value := item.labels.get(name)) is not None:
                    by_value.setdefault(value, set()).add(item.key)
        self._labels[name] = by_value

    def _reindex(self, old: Item | None, new: Item | None) -> None:
        for name, by_value in self._labels.items():
            before, after = (item.labels.get(name) if item else None for item in (old, new))
            if before == after:
                continue
            if old is not None and before is not None:
                by_value[before].discard(old.key)
                if not by_value[before]:
                    del by_value[before]
            if new is not None and after is not None:
                by_value.setdefault(after, set()).add(new.key)

    def set(self, key: Key, item: Item | None) -> None:
        objects = self.namespaces.setdefault(key[0], {})
        self.size += (item is not None) - (key[1] in objects)
        old = objects.get(key[1])
        self.bytes[key[0]] += (len(item.raw) if item else 0) - (len(old.raw) if old else 0)
        self._reindex(old, item)
        if item is not None:
            objects[key[1]] = item
            return
        objects.pop(key[1], None)
        # An empty namespace would stay in the index of every kind for ever.
        if not objects:
            del self.namespaces[key[0]]
            del self.bytes[key[0]]

    def shrink(self) -> None:
        """Give back the room of objects that are gone."""
        self.namespaces = {name: shrunk(objects) for name, objects in self.namespaces.items()}
        self._labels = {name: shrunk(by_value) for name, by_value in self._labels.items()}


class Store:
    """Every method but `wait_durable` is synchronous: what happens between two awaits happens at once."""

    def __init__(self, database: Database | None) -> None:
        self._database = database
        self.version, rows = database.load() if database else (1, ())
        self.committed = self.version
        self.start = self.version  # changes from before are not remembered
        self.listeners: list[Listener] = []
        self._buckets: dict[str, Bucket] = {}
        self._floors: dict[str, int] = {}
        self._by_uid: dict[str, tuple[str, Key]] = {}
        self._dependents: defaultdict[str, set[tuple[str, Key]]] = defaultdict(set)
        self._pending: list[Change] = []
        self._turn: list[asyncio.Future[None]] | None = (
            None  # who waits for the next commit; None: there is none
        )
        self.closed = False
        self.unreadable = 0  # rows left out: no fault of one keeps the others from being served
        for kind, namespace, name, raw in rows:
            try:
                self._apply(kind, None, make_item(orjson.loads(raw or b"{}"), raw=raw))
            except (ValueError, LookupError, TypeError, AttributeError):
                log.exception("%s %s/%s cannot be read and is left out", kind, namespace, name)
                self.unreadable += 1

    # ---- reading

    def bucket(self, kind: str) -> Bucket:
        contents = self._buckets.get(kind)
        if contents is None:
            # Changes from before the start are in no ring: a watch from an older version gets the error by which its
            # client lists again.
            contents = self._buckets[kind] = Bucket(Ring(self._floors.get(kind, self.start)))
        return contents

    def kinds(self) -> list[str]:
        return list(self._buckets)

    def get(self, kind: str, key: Key) -> Item | None:
        return self.bucket(kind).get(key)

    def namespace_bytes(self, namespace: str) -> int:
        """Return the bytes of all objects of a namespace."""
        return sum(bucket.bytes.get(namespace, 0) for bucket in self._buckets.values())

    def owner(self, uid: str) -> tuple[str, Key] | None:
        """The kind and the key of the object with this uid."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[tuple[str, Key]]:
        return sorted(self._dependents.get(uid, ()))

    def items_at(self, kind: str, namespace: str | None, version: int) -> list[Item]:
        """The objects as they were at an earlier version; Compacted where changes since then are forgotten."""
        bucket = self.bucket(kind)
        items = bucket.items(namespace)
        if version >= self.version:
            return items
        changes = [*bucket.ring.since(version), *(change for change in self._pending if change.kind == kind)]
        if not changes:
            return items
        earlier = {item.key: item for item in items}
        for change in reversed(changes):
            if namespace is not None and change.new.namespace != namespace:
                continue
            if change.old is None:
                earlier.pop(change.new.key, None)
            else:
                earlier[change.new.key] = change.old
        return sorted(earlier.values(), key=lambda item: (f"{item.namespace}/", item.name))

    # ---- writing

    def put(self, kind: str, obj: Json) -> Item:
        """Create or replace; the object gets its new version."""
        return self._write(kind, obj)

    def remove(self, kind: str, obj: Json) -> Item:
        """Remove; watches see the object as given, with the version of the removal."""
        return self._write(kind, obj, removed=True)

    def show_as(self, kind: str, key: Key, obj: Json) -> Item:
        """Show an object in another form from now on: neither its version nor its form on the disk changes."""
        item = make_item(obj)
        self.bucket(kind).set(key, item)
        return item

    def _write(self, kind: str, obj: Json, *, removed: bool = False) -> Item:
        metadata = obj["metadata"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        old = self.get(kind, (metadata.get("namespace") or "", metadata["name"]))
        item = make_item(obj, old)
        change = Change(kind, self.version, old, item, removed)
        self._apply(kind, old, None if removed else item)
        self._pending.append(change)
        if self._turn is None:
            self._turn = []
            # At the end of this turn of the loop: all that was written in it shares one flush to the disk.
            asyncio.get_running_loop().call_soon(self._commit)
        return item

    def _apply(self, kind: str, old: Item | None, new: Item | None) -> None:
        """Bring the objects and their indexes from one state to the other."""
        if old is not None:
            self._by_uid.pop(old.uid, None)
            for owner in old.owners:
                # Owners may have changed between old and new: the index forgets the old ones first.
                self._dependents[owner].discard((kind, old.key))
                if not self._dependents[owner]:
                    del self._dependents[owner]
        if new is not None:
            self._by_uid[new.uid] = kind, new.key
            for owner in new.owners:
                self._dependents[owner].add((kind, new.key))
        if (either := new or old) is not None:
            self.bucket(kind).set(either.key, new)

    # ---- committing

    async def wait_durable(self) -> None:
        """Wait until everything written so far is durable; OSError when it could not be."""
        if self._turn is not None:
            # Each waits for a future of its own: a caller that is cancelled must not cancel the turn of all others.
            settled = asyncio.get_running_loop().create_future()
            self._turn.append(settled)
            await settled

    def _commit(self) -> None:
        changes, turn = self._pending, self._turn
        if turn is None:  # committed before its turn came, at the end
            return
        self._pending, self._turn = [], None
        try:
            if self._database:
                self._database.commit(self.version, _rows(changes))
        except OSError as error:
            # In reverse: an object that was written twice in the turn gets back what it was before the first.
            for change in reversed(changes):
                self._apply(change.kind, None if change.removed else change.new, change.old)
            for waiting in turn:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        # Only now do watches see it (answers and watch events go out after the commit).
        self.committed = changes[-1].version
        for change in changes:
            self.bucket(change.kind).ring.append(change)
        for waiting in turn:
            if not waiting.done():
                waiting.set_result(None)
        for listener in self.listeners:
            try:
                listener(changes)
            except Exception:
                log.exception("a commit was not heard")

    def age(self, turns: int) -> int:
        """Forget the changes of so many turns ago; return how many there were."""
        self._by_uid, self._dependents = shrunk(self._by_uid), shrunk(self._dependents)
        for bucket in self._buckets.values():
            bucket.shrink()
        return sum(bucket.ring.age(turns) for bucket in self._buckets.values())

    def give_back(self) -> bool:
        """Give some of the database's free room back to the disk; return whether there is more to give."""
        return self._database is not None and not self.closed and self._database.give_back()

    def end_watches(self, kind: str) -> None:
        """The kind is served no more: the end of the watch reports that to its clients."""
        if bucket := self._buckets.pop(kind, None):
            bucket.ring.close()
        self._floors[kind] = (
            self.version
        )  # one of the same name that is made again remembers nothing from before

    def close(self) -> None:
        """Commit pending writes, end every watch."""
        self._commit()
        self.closed = True
        for bucket in self._buckets.values():
            bucket.ring.close()
        if self._database:
            self._database.close()


def _rows(changes: list[Change]) -> Iterable[Row]:
    """The last state of every object that changed."""
    # Of several writes in one turn only the last has to be on the disk: none of them has been answered yet.
    last = {(change.kind, change.new.key): change for change in changes}
    for (kind, (namespace, name)), change in last.items():
        yield kind, namespace, name, None if change.removed else change.new.raw
