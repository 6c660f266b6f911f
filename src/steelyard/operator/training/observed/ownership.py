"""What is a job's own, by v1's rules: what its uid controls; what nobody controls and has its labels is adopted; what
has lost them is released.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from steelyard.kube.objects import controller_of
from steelyard.operator.children import Children
from steelyard.operator.desired import Patch
from steelyard.operator.names import OWNER, owner_reference
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME
from steelyard.types import Json


def operator_name(kind: str) -> str:
    """The value of the label `operator-name`: PyTorchJob's is pytorchjob-controller."""
    return f"{kind.lower()}-controller"


def observe(resource: Json, objects: Iterable[Json], pods: Iterable[Json]) -> Children:
    """The job's children, what it may adopt, and what it has to let go. The Pods of its Jobs are there, too."""
    own: tuple[list[Json], list[Json]] = ([], [])
    orphans: list[Json] = []
    strays: list[Json] = []
    for found, seen in zip(own, (objects, pods), strict=True):
        for each in seen:
            match _standing(resource, each):
                case "own":
                    found.append(each)
                case "orphan":
                    orphans.append(each)
                case "stray":
                    strays.append(each)
    return Children(tuple(own[0]), tuple(own[1]), tuple(orphans), tuple(strays))


def _standing(resource: Json, obj: Json) -> Literal["own", "orphan", "stray", "another's"]:
    owner, labelled = controller_of(obj), _has_labels(resource, obj)
    if owner is None:
        if labelled and _labels(obj).get(OWNER):  # the Pod of a Job that the job has made
            return "own"
        return "orphan" if labelled and not obj["metadata"].get("deletionTimestamp") else "another's"
    if owner["uid"] == resource["metadata"]["uid"]:
        return "own" if labelled else "stray"
    return "own" if labelled and _labels(obj).get(OWNER) else "another's"


def claims(resource: Json, children: Children) -> tuple[Patch, ...]:
    """Adoptions and releases."""
    mine = owner_reference(resource)
    adopted = (Patch(each, _owners([*_others(resource, each), mine])) for each in children.orphans)
    return (*adopted, *(_released(resource, each) for each in children.strays))


def release(resource: Json, child: Json) -> Patch | None:
    """Of a child that is not the job's by its labels any more; without the one by which it is watched, no cache
    will show that it has lost them."""
    return None if _has_labels(resource, child) else _released(resource, child)


def _released(resource: Json, child: Json) -> Patch:
    return Patch(child, _owners(_others(resource, child)))


def _owners(owners: list[Json]) -> Json:
    return {"metadata": {"ownerReferences": owners or None}}


def _others(resource: Json, child: Json) -> list[Json]:
    uid = resource["metadata"]["uid"]
    return [each for each in child["metadata"].get("ownerReferences") or () if each["uid"] != uid]


def _has_labels(resource: Json, obj: Json) -> bool:
    labels = _labels(obj)
    if labels.get(OWNER):
        return bool(labels[OWNER] == resource["metadata"]["uid"])
    name = resource["metadata"]["name"]
    return labels.get(JOB_NAME) == name and labels.get(OPERATOR_NAME) == operator_name(resource["kind"])


def _labels(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
