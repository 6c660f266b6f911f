"""One stored object: its JSON as bytes, which all readers share, and the few facts asked of it without parsing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from steelyard.types import Json, sequence

_NONE: Mapping[str, str] = {}
Key = tuple[str, str]  # namespace (empty for what has none), name


@dataclass(frozen=True, slots=True)
class Item:
    raw: bytes
    version: int
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owners: tuple[str, ...]  # uids
    deleting: bool

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    def parsed(self) -> Json:
        """A copy of its own for the caller."""
        # Parsed for each caller: a change of one's copy would else be one of the stored object, without a commit.
        return cast("Json", orjson.loads(self.raw))


def item_of(obj: Json) -> Item:
    metadata = obj["metadata"]
    return Item(
        # A copy: what orjson returns keeps the buffer that it grew, about three times the bytes in it.
        bytes(memoryview(orjson.dumps(obj))),
        int(metadata["resourceVersion"]),
        metadata.get("namespace") or "",
        metadata["name"],
        metadata["uid"],
        metadata.get("labels") or _NONE,
        tuple(owner["uid"] for owner in sequence(metadata, "ownerReferences")),
        "deletionTimestamp" in metadata,
    )
