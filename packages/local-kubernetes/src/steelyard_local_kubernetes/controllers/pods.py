"""Functions over Pods and templates: owners, readiness, and new Pods from a template."""

import hashlib
from collections.abc import Iterable, Iterator

from steelyard_common.types import Json, copy_value, mapping, sequence
from steelyard_kube.objects import (
    controller_uid,
    is_deleting,
    read_annotations,
    read_conditions,
    read_labels,
)
from steelyard_kube.pods import is_terminal

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own: no vowels, so no words


def suffix(*parts: object, length: int = 5) -> str:
    """A suffix for a name, the same for the same parts: a create that is repeated meets its first self."""
    number = int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest())
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[rest])
    return "".join(letters)


def name_series(owner: Json) -> str:
    """Return the series of the names of an owner's next Pods.

    A Pod that comes or goes changes the owner's status, and with it the version: by the uid alone the next Pod would
    get the name of the last one. What a create without an answer has made is found by the list of the next turn.
    """
    return f"{owner['metadata']['uid']}/{owner['metadata'].get('resourceVersion', '')}"


def choose_free_names(base: str, series: str, taken: set[str]) -> Iterator[str]:
    """The names of a series that are not taken; takes each that it yields."""
    serial = 0
    while True:
        name = f"{base[:57]}-{suffix(series, base, serial)}"
        serial += 1
        if name not in taken:
            taken.add(name)
            yield name


def free_name(base: str, series: str, taken: set[str]) -> str:
    """The first of `choose_free_names`; takes it."""
    return next(choose_free_names(base, series, taken))


def select_owned(owner: Json, objects: Iterable[Json]) -> list[Json]:
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
    template = copy_value(owner["spec"]["template"])
    metadata: Json = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": {**read_labels(template), **labels},
        "ownerReferences": [owner_reference(owner)],
    }
    if annotations := read_annotations(template):
        metadata["annotations"] = annotations
    if finalizers:
        metadata["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def is_active(pod: Json) -> bool:
    return not is_terminal(pod) and not is_deleting(pod)


def make_condition(obj: Json, kind: str) -> Json | None:
    for listed in read_conditions(obj):
        if listed.get("type") == kind:
            return dict(listed)
    return None


def is_true(obj: Json, kind: str) -> bool:
    match = make_condition(obj, kind)
    return match is not None and match.get("status") == "True"


def matches(selector: Json | None, labels: Json | None) -> bool:
    """Return whether a label selector (matchLabels and matchExpressions) selects these labels; an empty one
    selects all.
    """
    labels, selector = labels or {}, selector or {}
    if not mapping(selector, "matchLabels").items() <= labels.items():
        return False
    return all(_holds(expression, labels) for expression in sequence(selector, "matchExpressions"))


def _holds(requirement: Json, labels: Json) -> bool:
    key, values = requirement["key"], sequence(requirement, "values")
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
