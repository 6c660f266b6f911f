"""Functions over Pods and templates: owners, readiness, and new Pods from a template."""

import hashlib
from collections.abc import Iterable, Iterator
from copy import deepcopy

from steelyard.types import Json

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own: no vowels, so no words


def suffix(*parts: object, length: int = 5) -> str:
    """A suffix for a name, the same for the same parts: a create that is repeated meets its first self."""
    number = int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest())
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[rest])
    return "".join(letters)


def free_names(base: str, owner_uid: str, taken: set[str]) -> Iterator[str]:
    """The names of the owner's fixed series that are not taken; takes each that it yields."""
    serial = 0
    while True:
        name = f"{base[:57]}-{suffix(owner_uid, base, serial)}"
        serial += 1
        if name not in taken:
            taken.add(name)
            yield name


def free_name(base: str, owner_uid: str, taken: set[str]) -> str:
    """The first of `free_names`; takes it."""
    return next(free_names(base, owner_uid, taken))


def controller_uid(obj: Json) -> str | None:
    """The uid of the one owner that controls the object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def owned_by(owner: Json, objects: Iterable[Json]) -> list[Json]:
    uid = owner["metadata"]["uid"]
    return [obj for obj in objects if controller_uid(obj) == uid]


def owner_reference(owner: Json) -> Json:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(owner: Json, name: str, *, labels: Json, finalizers: list[str] | None = None) -> Json:
    """A Pod of `owner`'s template; `labels` are added to the template's."""
    template = deepcopy(owner["spec"]["template"])
    metadata = template.get("metadata") or {}
    made: Json = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(metadata.get("labels") or {}), **labels},
        "ownerReferences": [owner_reference(owner)],
    }
    if metadata.get("annotations"):
        made["annotations"] = metadata["annotations"]
    if finalizers:
        made["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}


def phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminal(pod: Json) -> bool:
    return phase(pod) in {"Succeeded", "Failed"}


def is_deleting(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_active(pod: Json) -> bool:
    return not is_terminal(pod) and not is_deleting(pod)


def condition(obj: Json, kind: str) -> Json | None:
    for listed in (obj.get("status") or {}).get("conditions") or ():
        if listed.get("type") == kind:
            return dict(listed)
    return None


def is_true(obj: Json, kind: str) -> bool:
    match = condition(obj, kind)
    return match is not None and match.get("status") == "True"


def is_ready(pod: Json) -> bool:
    return is_true(pod, "Ready")


def matches(selector: Json | None, labels: Json | None) -> bool:
    """Tell whether a label selector (matchLabels and matchExpressions) selects these labels; an empty one
    selects all.
    """
    labels, selector = labels or {}, selector or {}
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(requirement: Json, labels: Json) -> bool:
    key, values = requirement["key"], requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False


def selector_text(match_labels: Json) -> str:
    """A selector for a list call."""
    return ",".join(f"{key}={value}" for key, value in sorted(match_labels.items()))
