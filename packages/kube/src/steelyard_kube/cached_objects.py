"""Store of an informer's objects, by name and by indexes.

A packed object is its JSON text until it is read: that takes a quarter of the memory and leaves Python's garbage
collector nothing to search, at a cost of a few microseconds per reading.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import orjson

from steelyard_common.types import Json
from steelyard_kube.tables import shrunk

ObjectKey = tuple[str, str]  # namespace and name; the former is empty where there is none
Index = Callable[[Json], Iterable[str]]
Packed = bool | Callable[[Json], bool]
"""Choice of the objects that are packed: all, none, or those for which it returns true."""


class _Entry(NamedTuple):
    uid: str
    version: str
    content: Json | bytes
    values: tuple[tuple[str, ...], ...]
    """Values of each index for the object."""


class CachedObjects:
    """Objects of one kind."""

    def __init__(self, indexes: Mapping[str, Index], *, packed: Packed = False) -> None:
        self._packs = packed if callable(packed) else lambda obj: packed
        self._objects: dict[ObjectKey, _Entry] = {}
        self._of = tuple(indexes.values())
        self._indexes: dict[str, dict[str, dict[ObjectKey, None]]] = {name: {} for name in indexes}

    def get(self, key: ObjectKey) -> Json | None:
        held = self._objects.get(key)
        return _content(held) if held else None

    def version(self, key: ObjectKey) -> str:
        """The resourceVersion of the kept object; empty without one."""
        held = self._objects.get(key)
        return held.version if held else ""

    def uid(self, key: ObjectKey) -> str:
        """The uid of the kept object; empty without one."""
        held = self._objects.get(key)
        return held.uid if held else ""

    def holds(self, key: ObjectKey, obj: Json) -> bool:
        """Return whether exactly this is kept, with its content: a restored server may give a version twice."""
        held = self._objects.get(key)
        metadata = obj["metadata"]
        if held is None or (held.uid, held.version) != (metadata.get("uid", ""), metadata["resourceVersion"]):
            return False
        return held.content == self._pack(obj) or _content(held) == obj

    def uids(self) -> set[str]:
        return {held.uid for held in self._objects.values()}

    def names(self) -> list[ObjectKey]:
        return list(self._objects)

    def items(self) -> list[Json]:
        return [_content(held) for held in self._objects.values()]

    def by_index(self, index: str, value: str) -> list[Json]:
        return [_content(self._objects[key]) for key in self._indexes[index].get(value, ())]

    def counts(self, index: str) -> Mapping[str, int]:
        """Count the objects for each value of an index."""
        return {value: len(keys) for value, keys in self._indexes[index].items()}

    def count(self, index: str, value: str) -> int:
        return len(self._indexes[index].get(value, ()))

    def put(self, key: ObjectKey, obj: Json | None) -> None:
        """Keep an object in the place of another, or none."""
        values = tuple(tuple(of(obj)) for of in self._of) if obj is not None else ()
        if obj is None:
            self.drop(key)
            return
        self._remove(key)
        for index, keys in zip(self._indexes.values(), values, strict=True):
            for value in keys:
                index.setdefault(value, {})[key] = None
        metadata = obj["metadata"]
        held = _Entry(metadata.get("uid", ""), metadata["resourceVersion"], self._pack(obj), values)
        self._objects[key] = held

    def drop(self, key: ObjectKey) -> None:
        """Keep nothing there."""
        self._remove(key)
        self._objects = shrunk(self._objects)
        for name, index in self._indexes.items():
            self._indexes[name] = shrunk(index)

    def _remove(self, key: ObjectKey) -> None:
        old = self._objects.pop(key, None)
        if old:
            for index, keys in zip(self._indexes.values(), old.values, strict=True):
                for value in set(keys):
                    index[value].pop(key, None)
                    if not index[value]:
                        del index[value]

    def _pack(self, obj: Json) -> Json | bytes:
        """The copy is what makes it small: orjson's own bytes keep the room of the buffer that they were written to."""
        return bytes(memoryview(orjson.dumps(obj))) if self._packs(obj) else obj


def _content(held: _Entry) -> Json:
    content = held.content
    if isinstance(content, bytes):
        obj: Json = orjson.loads(content)
        return obj
    return content
