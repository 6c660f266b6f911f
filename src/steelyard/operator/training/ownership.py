"""What is a job's own, by v1's rules: what its uid controls; what nobody controls and has its labels is adopted; what
has lost them is released.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from steelyard.operator.children import Children
from steelyard.operator.desired import Patch
from steelyard.operator.names import OWNER, controller_of, owner_reference
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME

Json = dict[str, Any]


def operator_name(kind: str) -> str:
    """The value of the label `operator-name`: PyTorchJob's is pytorchjob-controller."""
    return f"{kind.lower()}-controller"


def observe(resource: Json, objects: Iterable[Json], pods: Iterable[Json]) -> Children:
    """The job's children, what it may adopt, and what it has to let go. The Pods of its Jobs are there, too."""
    seen_objects, seen_pods = tuple(objects), tuple(pods)
    everything = (*seen_objects, *seen_pods)
    return Children(
        tuple(each for each in seen_objects if _is_own(resource, each)),
        tuple(each for each in seen_pods if _is_own(resource, each)),
        tuple(each for each in everything if _is_orphan(resource, each)),
        tuple(each for each in everything if _controls(resource, each) and not _has_labels(resource, each)),
    )


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


def _is_own(resource: Json, obj: Json) -> bool:
    labels = _labels(obj)
    if labels.get(OWNER) == resource["metadata"]["uid"]:  # the Pod of a Job that the job has made
        return True
    return _controls(resource, obj) and _has_labels(resource, obj)


def _is_orphan(resource: Json, obj: Json) -> bool:
    alone = controller_of(obj) is None and not obj["metadata"].get("deletionTimestamp")
    return alone and _has_labels(resource, obj)


def _controls(resource: Json, obj: Json) -> bool:
    owner = controller_of(obj)
    return owner is not None and bool(owner["uid"] == resource["metadata"]["uid"])


def _has_labels(resource: Json, obj: Json) -> bool:
    labels = _labels(obj)
    if labels.get(OWNER):
        return bool(labels[OWNER] == resource["metadata"]["uid"])
    name = resource["metadata"]["name"]
    return labels.get(JOB_NAME) == name and labels.get(OPERATOR_NAME) == operator_name(resource["kind"])


def _labels(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
