"""Documents of the view: an entity with what its filters and orders read, and the one that says how far it is.

Labels are texts of an array, because the keys of labels have dots and MongoDB's names of fields must not be read as
paths. Texts may hold any character; MongoDB's order of texts is that of their UTF-8 bytes, as ours is.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from steelyard.views.fields import CHANGED, CREATED, FILTERS, Entity, labels, sort_key, value
from steelyard.views.view import Change, Position, StoredEntity

Document = dict[str, Any]

ENTITIES, STATE = "entities", "state"
"""Collections."""
ONLY = "view"
"""Id of the one document of `state`."""
GUARD = {"_id": 1, "resync": 1, "epoch": 1, "position": 1}
"""Fields that decide which of two changes is the later one."""
INDEXES: tuple[tuple[str, list[tuple[str, int]]], ...] = (
    ("created", [("kind", 1), ("keys.creationTime", 1), ("_id", 1)]),
    ("changed", [("kind", 1), ("keys.lastTransitionTime", 1), ("_id", 1)]),
    *(
        (name, [("kind", 1), (f"fields.{name}", 1), ("keys.creationTime", 1), ("_id", 1)])
        for name in sorted({name for filters in FILTERS.values() for name in filters} - {"id"})
    ),
    ("account_status", [("kind", 1), ("fields.account", 1), ("fields.status", 1), ("keys.creationTime", 1)]),
    ("labels", [("kind", 1), ("labels", 1), ("keys.creationTime", 1), ("_id", 1)]),
    ("resync", [("resync", 1)]),
)
"""Names and keys of the indexes of `entities`: one for each documented filter and order."""


def label(key: str, text: str) -> str:
    """Return the element of `labels` for a label; no two labels have the same."""
    return orjson.dumps([key, text]).decode()


def document(change: Change, read: tuple[str, Entity] | None, resync: int) -> Document:
    """Return the document of a change. A forgotten entity keeps its place, so that an older record revives nothing."""
    place = {"resync": resync, "epoch": change.position.epoch, "position": change.position.offset}
    if read is None:
        return {"_id": change.id, **place}
    kind, entity = read
    texts = {name: value(entity, path) for name, path in FILTERS[kind].items() if name != "id"}
    times = {name: sort_key(entity, kind, name) for name in (CREATED, CHANGED)}
    return {
        "_id": change.id,
        **place,
        "kind": kind,
        "json": change.json,
        "fields": {name: text for name, text in texts.items() if text is not None},
        "keys": {name: key for name, key in times.items() if key is not None},
        "labels": [label(key, text) for key, text in labels(entity).items()],
    }


def to_stored(entity: Mapping[str, Any]) -> StoredEntity:
    """Return the entity of a document."""
    position = Position(entity["epoch"], entity["position"])
    return StoredEntity(entity["kind"], entity["_id"], bytes(entity["json"]), position)


def is_newer(change: Change, resync: int, known: Mapping[str, Any] | None) -> bool:
    """Return whether a change comes after the last known one of its entity; in a resync the log's first record does."""
    if known is None:
        return True
    there = Position(known["epoch"], known["position"])
    return bool((known["resync"], there) < (resync, change.position))
