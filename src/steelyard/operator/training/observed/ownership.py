"""Ownership of objects by v1's rules.

An object belongs to the job that controls it. An object with the job's labels and no controller is adopted; an object
that has lost the labels is released.
"""

from collections.abc import Iterable
from typing import Literal

from steelyard.operator.children import Children
from steelyard.operator.desired import Patch
from steelyard.operator.names import OWNER, owner_reference
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME
from steelyard_common.types import Json
from steelyard_kube.objects import find_controller, is_deleting, owner_references, read_labels


def operator_name(kind: str) -> str:
    """Return the value of the label `operator-name` for a kind: pytorchjob-controller for PyTorchJob."""
    return f"{kind.lower()}-controller"


def observe(resource: Json, objects: Iterable[Json], pods: Iterable[Json]) -> Children:
    """Select the job's children, the objects that it may adopt, and those that it has to release.

    The Pods of batch Jobs that the training job has created count as its own, too.
    """
    own: tuple[list[Json], list[Json]] = ([], [])
    orphans: list[Json] = []
    strays: list[Json] = []
    for selected, cached in zip(own, (objects, pods), strict=True):
        for obj in cached:
            match _relation(resource, obj):
                case "own":
                    selected.append(obj)
                case "orphan":
                    orphans.append(obj)
                case "stray":
                    strays.append(obj)
    return Children(tuple(own[0]), tuple(own[1]), tuple(orphans), tuple(strays))


def _relation(resource: Json, obj: Json) -> Literal["own", "orphan", "stray", "another's"]:
    owner, labelled = find_controller(obj), _has_labels(resource, obj)
    if owner is None:
        if labelled and read_labels(obj).get(OWNER):  # the Pod of a batch Job that this job has created
            return "own"
        return "orphan" if labelled and not is_deleting(obj) else "another's"
    if owner["uid"] == resource["metadata"]["uid"]:
        return "own" if labelled else "stray"
    return "own" if labelled and read_labels(obj).get(OWNER) else "another's"


def ownership_patches(resource: Json, children: Children) -> tuple[Patch, ...]:
    """Make the patches that adopt orphans and release strays."""
    reference = owner_reference(resource)
    adoptions = (
        Patch(orphan, _owners([*_foreign_owners(resource, orphan), reference])) for orphan in children.orphans
    )
    return (*adoptions, *(_release(resource, stray) for stray in children.strays))


def release(resource: Json, child: Json) -> Patch | None:
    """Make the patch that releases a child without the job's labels; None for a child that has them.

    A child that has lost the label by which it is watched is in no cache any more, so that `observe` cannot find it.
    """
    return None if _has_labels(resource, child) else _release(resource, child)


def _release(resource: Json, child: Json) -> Patch:
    return Patch(child, _owners(_foreign_owners(resource, child)))


def _owners(owners: list[Json]) -> Json:
    return {"metadata": {"ownerReferences": owners or None}}


def _foreign_owners(resource: Json, child: Json) -> list[Json]:
    uid = resource["metadata"]["uid"]
    return [owner for owner in owner_references(child) if owner["uid"] != uid]


def _has_labels(resource: Json, obj: Json) -> bool:
    labels = read_labels(obj)
    if labels.get(OWNER):
        return bool(labels[OWNER] == resource["metadata"]["uid"])
    name = resource["metadata"]["name"]
    return labels.get(JOB_NAME) == name and labels.get(OPERATOR_NAME) == operator_name(resource["kind"])
