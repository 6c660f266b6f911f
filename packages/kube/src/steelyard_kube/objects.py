"""Readers of what all objects of the API have in common: metadata, and conditions in their status.

Fields that an object leaves out read as empty, so that callers need no chain of defaults; fields that no reader here
names are read by `mapping` and `sequence` of `steelyard_common.types`.
"""

from typing import Any

from steelyard_common.types import Json, mapping, sequence


def read_labels(obj: Json | None) -> dict[str, str]:
    """The labels; also those of a Pod template."""
    return mapping(obj, "metadata", "labels")


def read_annotations(obj: Json | None) -> dict[str, str]:
    return mapping(obj, "metadata", "annotations")


def read_finalizers(obj: Json | None) -> list[str]:
    return sequence(obj, "metadata", "finalizers")


def owner_references(obj: Json | None) -> list[dict[str, Any]]:
    return sequence(obj, "metadata", "ownerReferences")


def is_deleting(obj: Json) -> bool:
    """Return whether deletion was requested, although finalizers or a grace period still keep the object."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_later(version: str, than: str) -> bool:
    """Return whether a resourceVersion is later than another. On every server so far they are numbers that grow; where
    they are not numbers, each counts as later than all others.
    """
    return int(version) > int(than) if version.isdigit() and than.isdigit() else True


def kind_and_name(obj: Json) -> tuple[str, str]:
    """Kind and name: unique among the children that one resource has in its namespace."""
    return obj["kind"], obj["metadata"]["name"]


def find_controller(obj: Json) -> Json | None:
    """The owner reference of the controller, if the object has one."""
    owner: Json
    for owner in owner_references(obj):
        if owner.get("controller"):
            return owner
    return None


def controller_uid(obj: Json) -> str | None:
    """The uid of the controlling owner, if the object has one."""
    owner = find_controller(obj)
    return owner["uid"] if owner else None


def read_spec(obj: Json | None) -> Json:
    """The specification; also that of a Pod template."""
    return mapping(obj, "spec")


def read_status(obj: Json | None) -> Json:
    return mapping(obj, "status")


def read_conditions(obj: Json | None) -> list[dict[str, Any]]:
    return sequence(obj, "status", "conditions")


def true_condition(obj: Json | None, type: str) -> Json | None:
    """The condition of a type, if its status is True."""
    for condition in read_conditions(obj):
        if condition.get("type") == type and condition.get("status") == "True":
            return condition
    return None
