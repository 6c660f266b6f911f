"""Names and labels of children: short enough for a Pod's name, and always the same for the same resource."""

import hashlib
import re
from collections.abc import Mapping

from steelyard_common.types import Json

CHILD_LIMIT = 57
"""Longest name of a child: a Job's Pod adds six characters, and a DNS label has at most 63."""

ENTITY = "steelyard/entity"
PLATFORM_ENTITY = "dyff.io/entity"
"""Label of a resource that the platform has made for an entity, after all that the entity refers to was there."""
OWNER = "steelyard/owner-uid"
COMPONENT = "app.kubernetes.io/component"
MANAGED_BY = "app.kubernetes.io/managed-by"
_PREFIXES = ("steelyard/", "dyff.io/")
_RESERVED: Mapping[str, tuple[str, ...]] = {
    COMPONENT: ("api", "client", "session"),
    MANAGED_BY: ("steelyard-operator", "steelyard-orchestrator"),
}
"""Values of common labels by which policies know the platform's own Pods; users may have others."""


def child_name(name: str, suffix: str = "") -> str:
    """Make the name of a child. A name that is too long, or no DNS label, is cut and gets 8 digits of its hash."""
    plain = re.sub(r"[^a-z0-9-]", "-", name.lower())
    if plain == name and len(name) + len(suffix) <= CHILD_LIMIT and name[0].isalpha():
        return name + suffix
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    room = CHILD_LIMIT - len(suffix) - len(digest) - 1
    head = plain if plain[0].isalpha() else f"s-{plain}"
    return f"{head[:room].rstrip('-')}-{digest}{suffix}"


def labels(resource: Json, component: str) -> dict[str, str]:
    """Make the labels of every child and of its Pods."""
    return {
        ENTITY: resource["spec"]["id"],
        OWNER: resource["metadata"]["uid"],
        "app.kubernetes.io/name": "steelyard",
        COMPONENT: component,
        MANAGED_BY: "steelyard-operator",
    }


def find_reserved(labels: Mapping[str, str]) -> str | None:
    """Return the first label that only Pods of the platform have: policies, informer and operator trust it."""
    for name, value in labels.items():
        if name.startswith(_PREFIXES) or value in _RESERVED.get(name, ()):
            return name
    return None


def owner_reference(resource: Json) -> Json:
    """Make the reference by which a resource controls a child: the child is garbage-collected with it."""
    return {
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "name": resource["metadata"]["name"],
        "uid": resource["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
