"""Names and labels of children: short enough for a Pod's name, and one way from a resource to them."""

import hashlib
import re

from steelyard.types import Json

CHILD_LIMIT = 57
"""Characters: a Job's Pod adds six, and 63 is the limit of a DNS label."""

ENTITY = "steelyard/entity"
OWNER = "steelyard/owner-uid"
COMPONENT = "app.kubernetes.io/component"


def child_name(name: str, suffix: str = "") -> str:
    """The name of a child: what is too long, or no DNS label, is cut and gets 8 hex digits of the whole's hash."""
    plain = re.sub(r"[^a-z0-9-]", "-", name.lower())
    if plain == name and len(name) + len(suffix) <= CHILD_LIMIT and name[0].isalpha():
        return name + suffix
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    room = CHILD_LIMIT - len(suffix) - len(digest) - 1
    head = plain if plain[0].isalpha() else f"s-{plain}"
    return f"{head[:room].rstrip('-')}-{digest}{suffix}"


def labels(resource: Json, component: str) -> dict[str, str]:
    """What every child and its Pods carry."""
    return {
        ENTITY: resource["spec"]["id"],
        OWNER: resource["metadata"]["uid"],
        "app.kubernetes.io/name": "steelyard",
        COMPONENT: component,
        "app.kubernetes.io/managed-by": "steelyard-operator",
    }


def owner_reference(resource: Json) -> Json:
    """Makes a child the resource's own: it is collected with it, and counts only for it."""
    return {
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "name": resource["metadata"]["name"],
        "uid": resource["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Json) -> Json | None:
    """The owner that controls the object, if one does."""
    found: Json
    for found in obj["metadata"].get("ownerReferences") or ():
        if found.get("controller"):
            return found
    return None
