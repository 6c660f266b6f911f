"""One stored object: its JSON as bytes, which all readers share, and the few facts asked of it without parsing."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from steelyard_common.types import Json, sequence

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

    def parse(self) -> Json:
        """A copy of its own for the caller."""
        # Parsed for each caller: a change of one's copy would else be one of the stored object, without a commit.
        return cast("Json", orjson.loads(self.raw))


def make_item(obj: Json, earlier: Item | None = None, raw: bytes | None = None) -> Item:
    """Return the item of an object. With its earlier state, of the same key, it shares unchanged parts: watches
    keep thousands of states, whose small parts took more memory than all else, and left it in pieces when they went.
    `raw` is its JSON, where it is known.
    """
    metadata = obj["metadata"]
    uid, labels = metadata["uid"], metadata.get("labels") or _NONE
    owners = tuple(owner["uid"] for owner in sequence(metadata, "ownerReferences"))
    if earlier is None:
        # Thousands of objects share one of few namespaces.
        namespace, name = sys.intern(metadata.get("namespace") or ""), metadata["name"]
    else:
        namespace, name = earlier.namespace, earlier.name
        uid = earlier.uid if earlier.uid == uid else uid
        labels = earlier.labels if earlier.labels == labels else labels
        owners = earlier.owners if earlier.owners == owners else owners
    return Item(
        # A copy: what orjson returns keeps the buffer that it grew, about three times the bytes in it.
        bytes(memoryview(orjson.dumps(obj))) if raw is None else raw,
        int(metadata["resourceVersion"]),
        namespace,
        name,
        uid,
        labels,
        owners,
        "deletionTimestamp" in metadata,
    )
