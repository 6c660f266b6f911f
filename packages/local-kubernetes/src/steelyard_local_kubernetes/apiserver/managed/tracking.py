"""Managers of an object's fields. `objects.py` asks at every write.

They are kept from an object's first apply on, or from its creation by a request that names its field manager, as all
of kubectl and helm do. An object that a controller creates without naming one is without: to find them would take as
long as the write itself, and they are two thirds of an object's bytes. What a real server does with objects without
`managedFields` is done with these at their first apply: their fields belong to `before-first-apply`.
"""

from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.managed.entries import Managers, decode_managers, encode_managers
from steelyard_local_kubernetes.apiserver.managed.fieldset import FieldSet, field_set
from steelyard_local_kubernetes.apiserver.managed.ownership import Write, managers_after_update

_STATUS = field_set(("f:status",))


def make_write(kind: ResourceType, api_version: str, subresource: str, time: str) -> Write:
    node = kind.node()
    reset = FieldSet()
    if subresource == "status":
        reset = field_set(*((f"f:{name}",) for name in node.properties or {} if name != "status"))
    elif not subresource and kind.has_status:
        reset = _STATUS
    return Write(node, api_version, subresource, reset, time)


def read_managers(entries: Any) -> Managers:
    """Managers of a stored object; none where its entries cannot be read, as on a real server."""
    try:
        return decode_managers(entries or ())
    except (ValueError, TypeError):
        return {}


def after_update(write: Write, old: Json, new: Json, known: Any, sent: Any, manager: str) -> list[Json]:
    """Entries after an update, from those that are stored and those in the request, which come first."""
    if sent in ([], [{}]):
        return []  # by this a client ends the tracking
    managers = (read_managers(sent) if sent else {}) or read_managers(known)
    # Without managers a stored object has no tracking; with a new one it begins.
    return (
        encode_managers(managers_after_update(write, old, new, managers, manager))
        if managers or not old
        else []
    )


def without_times(entries: list[Json] | None) -> list[Json]:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries or ()]
