"""Readers of what all objects of the API have in common: metadata, and conditions in their status.

Fields that an object may leave out read as empty, so that callers need no chain of defaults.
"""

from typing import Any

from steelyard.types import Json


def labels_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def is_deleting(obj: Json) -> bool:
    """Return whether deletion was requested, although finalizers or a grace period still keep the object."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def identity_of(obj: Json) -> tuple[str, str]:
    """Kind and name: unique among the children that one resource has in its namespace."""
    return obj["kind"], obj["metadata"]["name"]


def controller_of(obj: Json) -> Json | None:
    """The owner reference of the controller, if the object has one."""
    owner: Json
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner
    return None


def controller_uid(obj: Json) -> str | None:
    """The uid of the controlling owner, if the object has one."""
    owner = controller_of(obj)
    return owner["uid"] if owner else None


def spec_of(obj: Json) -> Json:
    """The specification; also that of a Pod template."""
    return obj.get("spec") or {}


def status_of(obj: Json) -> Json:
    return obj.get("status") or {}


def conditions_of(obj: Json) -> list[dict[str, Any]]:
    return status_of(obj).get("conditions") or []


def true_condition(obj: Json, type: str) -> Json | None:
    """The condition of a type, if its status is True."""
    for condition in conditions_of(obj):
        if condition["type"] == type and condition["status"] == "True":
            return condition
    return None
