"""The state of an in-memory cluster: objects, their versions, and the history that watches read.

`memory.MemoryCluster` puts the protocol over it; tests and the operator's exploration use it directly, as the hand
that changes the world outside the API. Objects are kept as JSON bytes: a snapshot copies references only, equal
content is equal bytes, and no caller can change the stored object.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import orjson

from steelyard_common.types import Json
from steelyard_kube import rules
from steelyard_kube.errors import AlreadyExists, Gone, NotFound
from steelyard_kube.objects import owner_references
from steelyard_kube.resource import Resource, find_resource

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


class Key(NamedTuple):
    resource: Resource
    namespace: str
    name: str


class StoredObject(NamedTuple):
    """An object; its resourceVersion is kept outside it, so that equal content is equal bytes."""

    raw: bytes
    version: int

    def load(self) -> Json:
        obj: Json = orjson.loads(self.raw)
        obj["metadata"]["resourceVersion"] = str(self.version)
        return obj


class Change(NamedTuple):
    """One entry of the watch history; a bookmark concerns no object."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    version: int
    key: Key | None = None
    new: StoredObject | None = None
    old: StoredObject | None = None


@dataclass(frozen=True)
class Snapshot:
    """A store's whole state. `content` is equal for equal states, whatever order of writes led there."""

    objects: dict[Key, StoredObject]
    made: dict[Key, int]
    version: int
    compacted: int
    history: tuple[Change, ...]

    @property
    def content(self) -> frozenset[tuple[Key, bytes]]:
        return frozenset((key, stored.raw) for key, stored in self.objects.items())


def make_key(resource: Resource, namespace: str | None, name: str) -> Key:
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.kind} {name!r} needs a namespace")
    return Key(resource, namespace or "" if resource.namespaced else "", name)


@lru_cache(maxsize=100_000)
def make_uid(key: Key, incarnation: int) -> str:
    """A uid that depends on nothing but the name and how often it was made before."""
    resource, namespace, name = key
    return str(uuid5(NAMESPACE_OID, f"{resource.plural}.{resource.group}/{namespace}/{name}#{incarnation}"))


class Store:
    """Objects under the API's rules of writing; `on_change` is called after each change."""

    def __init__(self, now: Callable[[], datetime], on_change: Callable[[], None]) -> None:
        self.now = now
        self.version = 1
        self.number: Callable[[Key, bytes], int] | None = None
        """Gives an object's new version in place of the next number; there must be no watches then."""
        self.history_limit = 10_000
        self._on_change = on_change
        self._objects: dict[Key, StoredObject] = {}
        self._made: dict[Key, int] = {}
        self._compacted = 0  # changes up to here are forgotten
        self._history: list[Change] = []

    # ---- reading

    @property
    def all_objects(self) -> Mapping[Key, StoredObject]:
        """All objects as they are kept; not to be held on to."""
        return self._objects

    @property
    def creations(self) -> Mapping[Key, int]:
        """Number of times that each name was created."""
        return self._made

    def get(self, key: Key) -> Json:
        return self._load(key).load()

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        stored = self._objects.get(make_key(resource, namespace, name))
        return stored.load() if stored else None

    def objects(self, resource: Resource | None = None, namespace: str | None = None) -> list[Json]:
        """All objects, of one resource and namespace or of all, ordered by name."""
        keys = (
            key
            for key in self._objects
            if (resource is None or key.resource == resource) and namespace in (None, "", key.namespace)
        )
        ordered = sorted(keys, key=lambda key: (key.resource.plural, key.namespace, key.name))
        return [self._objects[key].load() for key in ordered]

    def since(self, version: int) -> list[Change]:
        """The changes after `version`, or Gone."""
        # As etcd compacts: a watch from before has missed changes, and has to list again.
        if version < self._compacted:
            raise Gone(f"too old resource version: {version} ({self._compacted})")
        return self._history[bisect_right(self._history, version, key=attrgetter("version")) :]

    # ---- writing by the API's rules

    def create(self, resource: Resource, obj: Json) -> Json:
        metadata = obj["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{self.version:05x}"
        key = make_key(resource, metadata.get("namespace"), name)
        if key in self._objects:
            raise AlreadyExists(f"{resource.plural} {name!r} already exists")
        uid = make_uid(key, self._made.get(key, 0))
        named = {**obj, "metadata": {**metadata, "name": name}}
        return self._write("ADDED", key, rules.complete_new(resource, named, uid=uid, now=self.now()))

    def update(self, key: Key, change: Callable[[Json], Json], subresource: str = "") -> Json:
        """Store what `change` makes of the object; a change of nothing makes no event."""
        rules.check_subresource(key.resource, subresource)
        stored = self._load(key)
        old = stored.load()
        new = change(old)
        rules.check_preconditions(key.resource, old, new)
        # The version is kept outside the bytes: otherwise no two states would ever be equal, and no exploration would
        # end.
        del old["metadata"]["resourceVersion"]
        return self._write("MODIFIED", key, rules.complete_update(key.resource, old, new, subresource))

    def delete(
        self,
        key: Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """A Pod on a node only gets its deletionTimestamp, unless its grace is 0."""
        stored = self._load(key)
        # As the API does: a delete with another object's uid or version is a conflict.
        expected = {"uid": uid, "resourceVersion": resource_version}
        rules.check_preconditions(key.resource, stored.load(), {"metadata": expected})
        old: Json = orjson.loads(stored.raw)
        # The kubelet deletes the Pod when its containers have ended; until then it exists, and its name is taken.
        if remainder := rules.terminating(key.resource, old, grace_seconds, self.now()):
            self._write("MODIFIED", key, remainder)
            return
        del self._objects[key]
        self._record(
            Change("DELETED", self.version + 1, key, StoredObject(stored.raw, self.version + 1), stored)
        )

    # ---- writing by other hands

    def put(self, obj: Json, resource: Resource | None = None) -> Json:
        """Write an object as it is, status and uid included, whether it exists or not."""
        resource = resource or find_resource(obj)
        key = make_key(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"])
        old = self._objects.get(key)
        given = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
        if old:
            metadata = orjson.loads(old.raw)["metadata"] | given
        else:
            uid = make_uid(key, self._made.get(key, 0))
            metadata = rules.complete_new(resource, obj, uid=uid, now=self.now())["metadata"] | given
        named = {"apiVersion": resource.api_version, "kind": resource.kind, **obj, "metadata": metadata}
        return self._write("MODIFIED" if old else "ADDED", key, named)

    def set_status(self, resource: Resource, name: str, namespace: str | None, status: Json) -> Json:
        key = make_key(resource, namespace, name)
        return self.update(key, lambda old: {**old, "status": status}, "status")

    def remove(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        """Delete at once, whatever it is."""
        self.delete(make_key(resource, namespace, name), grace_seconds=0)

    def collect(self) -> int:
        """Garbage collection: delete objects whose owners are all gone, until none is left; how many."""
        deleted = 0
        # Children of children are found only after their owners are gone.
        while orphans := self._without_owners():
            for key in orphans:
                self.delete(key)
            deleted += len(orphans)
        return deleted

    def orphan(self, uid: str) -> None:
        """Take one owner out of all its children."""
        for key, stored in list(self._objects.items()):
            obj: Json = orjson.loads(stored.raw)
            owners = owner_references(obj)
            if any(owner["uid"] == uid for owner in owners):
                obj["metadata"]["ownerReferences"] = [owner for owner in owners if owner["uid"] != uid]
                self._write("MODIFIED", key, obj)

    # ---- history and state

    def compact(self) -> None:
        """Forget the history: a watch from before now is Gone."""
        self._compacted, self._history = self.version, []
        self._on_change()

    def bookmark(self) -> None:
        """Every watch gets a bookmark."""
        self._record(Change("BOOKMARK", self.version + 1))

    def snapshot(self) -> Snapshot:
        history = tuple(self._history)
        return Snapshot(dict(self._objects), dict(self._made), self.version, self._compacted, history)

    def restore(self, snapshot: Snapshot) -> None:
        self._objects, self._made = dict(snapshot.objects), dict(snapshot.made)
        self.version, self._compacted = snapshot.version, snapshot.compacted
        self._history = list(snapshot.history)

    # ---- inside

    def _load(self, key: Key) -> StoredObject:
        try:
            return self._objects[key]
        except KeyError:
            details = {"name": key.name, "kind": key.resource.plural, "group": key.resource.group}
            raise NotFound(f"{key.resource.plural} {key.name!r} not found", details=details) from None

    def _write(self, kind: Literal["ADDED", "MODIFIED"], key: Key, obj: Json) -> Json:
        old, raw = self._objects.get(key), orjson.dumps(obj, option=_CANONICAL)
        if old and old.raw == raw:
            return old.load()
        version = self.version + 1
        new = self._objects[key] = StoredObject(raw, self.number(key, raw) if self.number else version)
        if kind == "ADDED":
            self._made[key] = self._made.get(key, 0) + 1
        self._record(Change(kind, version, key, new, old))
        return new.load()

    def _record(self, change: Change) -> None:
        self.version = change.version
        self._history.append(change)
        # The older half is forgotten at once: cutting one entry at each change would copy the list each time.
        if len(self._history) > self.history_limit:
            half = len(self._history) // 2
            self._compacted = self._history[half - 1].version
            del self._history[:half]
        self._on_change()

    def _without_owners(self) -> list[Key]:
        metadata = {key: orjson.loads(stored.raw)["metadata"] for key, stored in self._objects.items()}
        living = {entry["uid"] for entry in metadata.values()}
        return [
            key
            for key, entry in metadata.items()
            if entry.get("ownerReferences")
            and not any(owner["uid"] in living for owner in entry["ownerReferences"])
            and "deletionTimestamp" not in entry
        ]
