"""Effects of a write on the managers of an object's fields: an update takes fields over, an apply may conflict."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.managed.entries import (
    Entry,
    Manager,
    Managers,
    merge_surplus,
    updater,
)
from steelyard_local_kubernetes.apiserver.managed.fieldset import FieldSet, Path, contains, field_set
from steelyard_local_kubernetes.apiserver.managed.merging import merge, with_named_fields, without
from steelyard_local_kubernetes.apiserver.managed.reading import Difference, difference, read_fields
from steelyard_local_kubernetes.apiserver.managed.shape import MISSING, same, with_empty_values
from steelyard_local_kubernetes.apiserver.schema import Node

FIRST = "before-first-apply"
_SELF = Manager("", "Update", "")  # the write at hand, until it is known whether it took any field
_IDENTITY = field_set(
    *((f"f:{name}",) for name in ("apiVersion", "kind", "metadata")),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
            "managedFields", "resourceVersion",
        )
    ),
)  # fmt: skip


class Conflicts(Exception):
    """Fields of an apply that others manage, with other values."""

    def __init__(self, conflicts: list[tuple[Manager, Entry, Path]]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts


@dataclass(frozen=True)
class Write:
    """Circumstances of one write: its schema, its version, the fields that it cannot set, and its time."""

    node: Node
    api_version: str
    subresource: str
    reset: FieldSet
    time: str


def managers_after_update(write: Write, live: Json, new: Json, managers: Managers, name: str) -> Managers:
    """Managers after an update: who wrote manages what changed."""
    node = write.node
    changes = difference(node, with_empty_values(node, live), with_empty_values(node, new)).without(
        write.reset
    )
    rest = _take_over(changes, managers, _SELF)
    taken = (changes.modified | changes.added).without_below(write.reset) - _IDENTITY
    if taken:
        manager = updater(name, write.api_version, write.subresource)
        if manager in rest:
            taken = taken | rest[manager].fields
        rest[manager] = Entry(taken, write.api_version, write.time)
    return merge_surplus(rest)


@dataclass(frozen=True)
class ApplyResult:
    obj: Json
    managers: Managers


def apply_fields(
    write: Write, live: Json, config: Json, managers: Managers, manager: Manager, *, force: bool
) -> ApplyResult:
    """The live object with the applied fields, and its managers. Raises Conflicts."""
    if not managers:
        # It is unknown who set what: it belongs to a manager of its own, which yields to `force` only.
        managers = managers_after_update(write, {}, live, {}, FIRST)
    last = managers.get(manager)
    fields = read_fields(write.node, config).without_below(write.reset)
    managers = managers | {manager: Entry(fields, write.api_version, last.time if last else "")}
    result = merge(write.node, live, config)
    obj = {} if result is MISSING else result
    if last is not None and last.fields:
        obj = _prune(write.node, obj, last.fields, managers)
    changes = difference(write.node, live, obj).without(write.reset)
    conflicts = _conflicts(changes, managers, manager)
    if conflicts and not force:
        raise Conflicts(conflicts)
    managers = _take_over(changes, managers, manager)
    own = managers.pop(manager).fields - _IDENTITY if manager in managers else FieldSet()
    if own:
        # As on a real server, only an apply that changes something has a time.
        time = write.time if not same(live, obj) else last.time if last else ""
        managers[manager] = Entry(own, write.api_version, time)
    return ApplyResult(obj, managers)


def _conflicts(
    changes: Difference, managers: Managers, manager: Manager
) -> list[tuple[Manager, Entry, Path]]:
    changed = changes.modified | changes.added
    return [
        (other, entry, path)
        for other, entry in sorted(managers.items(), key=lambda pair: pair[0])
        if other != manager
        for path in (entry.fields & changed).paths()
    ]


def _take_over(changes: Difference, managers: Managers, manager: Manager) -> Managers:
    """Managers without the fields that another one changed, or that are gone."""
    changed = changes.modified | changes.added
    result: Managers = {}
    for other, entry in managers.items():
        fields = entry.fields if other == manager else entry.fields - changed - changes.removed
        if fields:
            result[other] = replace(entry, fields=fields)
    return result


def _prune(node: Node, obj: Json, last: FieldSet, managers: Managers) -> Json:
    """Remove what the manager applied last time and now leaves out, unless others manage it."""
    everything = with_named_fields(node, read_fields(node, obj))
    last = with_named_fields(node, last)

    def parse_fields(value: Any) -> FieldSet:
        return with_named_fields(node, read_fields(node, value or {}))

    owned = FieldSet()
    for entry in managers.values():
        owned = owned | entry.fields
    left = parse_fields(without(node, obj, last)) | with_named_fields(node, owned)
    # A field without a manager whose list or map is removed was not this manager's to remove.
    left = parse_fields(without(node, obj, everything - left))
    result: Json = without(node, obj, (everything - left) & last) or {}
    return result


def yielding(node: Node, live: Json, last_applied: Json) -> Callable[[Path], bool]:
    """Return whether a field has the value that a client-side apply gave it: the same user may change it."""
    changes = difference(node, last_applied, live)
    fields = read_fields(node, last_applied) - changes.modified - changes.added - changes.removed
    return lambda path: contains(fields, path)
