"""Managers of an object's fields, and their form in `metadata.managedFields`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.managed.fieldset import FieldSet, from_fields, to_fields

MOST_UPDATERS = 10
_ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    """Identity of a manager; who applies is the same in every version."""

    name: str
    operation: str  # Apply or Update
    api_version: str
    subresource: str = ""


@dataclass(frozen=True)
class Entry:
    """Fields of one manager."""

    fields: FieldSet
    api_version: str
    time: str = ""


Managers = dict[Manager, Entry]


def applier(name: str, subresource: str) -> Manager:
    return Manager(name, "Apply", "", subresource)


def updater(name: str, api_version: str, subresource: str) -> Manager:
    return Manager(name or "unknown", "Update", api_version, subresource)


def decode_managers(entries: Iterable[Any]) -> Managers:
    """Read `managedFields`. ValueError where an entry is malformed."""
    managers: Managers = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
            raise ValueError("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion") or entry.get("fieldsType") != "FieldsV1":
            raise ValueError("an entry needs its apiVersion and fieldsType")
        name, version = entry.get("manager") or "", entry["apiVersion"]
        version_of_manager = "" if entry["operation"] == "Apply" else version
        manager = Manager(name, entry["operation"], version_of_manager, entry.get("subresource") or "")
        fields = from_fields(entry.get("fieldsV1") or {})
        managers[manager] = Entry(fields, version, entry.get("time") or "")
    return managers


def encode_managers(managers: Managers) -> list[Json]:
    """Entries in the order of a real server: those who apply first, then by time and name."""
    entries = [_encode_entry(manager, entry) for manager, entry in managers.items()]
    keys = ("operation", "time", "manager", "apiVersion", "subresource")
    return sorted(entries, key=lambda entry: [entry.get(key, "") for key in keys])


def _encode_entry(manager: Manager, entry: Entry) -> Json:
    content: Json = {"manager": manager.name, "operation": manager.operation, "apiVersion": entry.api_version}
    if entry.time:
        content["time"] = entry.time
    content |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields(entry.fields)}
    return content | ({"subresource": manager.subresource} if manager.subresource else {})


def merge_surplus(managers: Managers) -> Managers:
    """Keep ten who update at most: the oldest of a version become one."""
    updaters = [manager for manager in managers if manager.operation == "Update"]
    surplus = len(updaters) - MOST_UPDATERS
    if surplus <= 0:
        return managers
    result = dict(managers)
    first_of: dict[str, Manager] = {}
    for manager in sorted(updaters, key=lambda manager: (managers[manager].time, manager)):
        if surplus <= 0:
            break
        version = managers[manager].api_version
        if version not in first_of:
            first_of[version] = manager
            continue
        bucket = updater(_ANCIENT, version, "")
        if bucket not in result:
            result[bucket] = result.pop(first_of[version])
        entry = result.pop(manager)
        result[bucket] = replace(entry, fields=entry.fields | result[bucket].fields)
        surplus -= 1
    return result
