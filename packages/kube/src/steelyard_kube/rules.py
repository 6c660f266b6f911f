"""Rules by which an API server stores a written object: pure functions of the old object and the new one.

Used by the in-memory double; the resources whose behaviour differs are listed at the top.
"""

from datetime import datetime, timedelta

from steelyard_common.types import Json
from steelyard_kube.errors import Conflict, Invalid, NotFound
from steelyard_kube.objects import read_spec, read_status
from steelyard_kube.resource import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from steelyard_kube.selectors import bad_request
from steelyard_kube.times import format_time

_PLAIN = frozenset({CONFIG_MAPS, SECRETS, EVENTS, LEASES, SERVICE_ACCOUNTS})
_WITHOUT_STATUS = _PLAIN | {ENDPOINT_SLICES}
_WITHOUT_GENERATION = _PLAIN | {SERVICES, NODES, NAMESPACES}
_BUILT_IN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_SYSTEM = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_DROPPED = frozenset({*_SYSTEM, "resourceVersion", "managedFields"})


def is_custom(resource: Resource) -> bool:
    return resource.group not in _BUILT_IN_GROUPS and not resource.group.endswith(".k8s.io")


def has_status(resource: Resource) -> bool:
    """Return whether status is written by its subresource only."""
    return resource not in _WITHOUT_STATUS


def complete_new(resource: Resource, obj: Json, *, uid: str, now: datetime) -> Json:
    """Make the stored form of a new object."""
    if obj["metadata"].get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _DROPPED}
    metadata |= {"uid": uid, "creationTimestamp": format_time(now)}
    if resource not in _WITHOUT_GENERATION:
        metadata["generation"] = 1
    stored = {**obj, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    if has_status(resource) and resource != NODES:
        stored.pop("status", None)
    if resource == PODS:
        stored["status"] = {"phase": "Pending"}
    if resource == NAMESPACES:
        stored["status"] = {"phase": "Active"}
    return stored


def check_preconditions(resource: Resource, old: Json, new: Json) -> None:
    """Conflict unless what the writer knew of the object still holds; both are optional for most kinds."""
    metadata = new["metadata"]
    if metadata.get("uid") not in (None, old["metadata"]["uid"]):
        raise conflict(resource, old, "the UID in the precondition does not match that of the object")
    if metadata.get("resourceVersion") not in (None, "", old["metadata"].get("resourceVersion")):
        raise conflict(resource, old, "the object has been modified; read it again")


def check_replacement(resource: Resource, new: Json) -> None:
    """Custom resources and a few others are never replaced blindly."""
    if (is_custom(resource) or resource in (LEASES, CRDS)) and not new["metadata"].get("resourceVersion"):
        raise Invalid("metadata.resourceVersion: Invalid value: 0: must be specified for an update")


def check_subresource(resource: Resource, subresource: str) -> None:
    if subresource and not (subresource == "status" and has_status(resource)):
        raise NotFound(f"the server could not find the requested resource: {resource.plural}/{subresource}")


def conflict(resource: Resource, obj: Json, why: str) -> Conflict:
    return Conflict(f"Operation cannot be fulfilled on {resource.plural} {obj['metadata']['name']!r}: {why}")


def complete_update(resource: Resource, old: Json, new: Json, subresource: str) -> Json:
    """Make the stored form of an updated object: status and the rest never change in one write."""
    if subresource == "status":
        if (
            resource == DEPLOYMENTS and "annotations" in new["metadata"]
        ):  # so its controller writes the revision
            annotations = {"annotations": new["metadata"]["annotations"]}
            old = {**old, "metadata": {**old["metadata"], **annotations}}
        return {**old, "status": new["status"]} if "status" in new else _without(old, "status")
    stored = {**new, "apiVersion": resource.api_version, "kind": resource.kind}
    if has_status(resource):
        stored = _without(stored, "status")
        if "status" in old:
            stored["status"] = old["status"]
    # The metadata are the writer's; what the server sets stays as it is.
    kept = {key: old["metadata"][key] for key in ("name", "namespace", *_SYSTEM) if key in old["metadata"]}
    stored["metadata"] = {key: value for key, value in new["metadata"].items() if key not in _DROPPED} | kept
    if "generation" in old["metadata"] and _without_status(stored) != _without_status(old):
        stored["metadata"]["generation"] += 1
    return stored


def _without(obj: Json, key: str) -> Json:
    return {name: value for name, value in obj.items() if name != key}


def _without_status(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def terminating(resource: Resource, obj: Json, grace_seconds: int | None, now: datetime) -> Json | None:
    """Return the object that a deletion leaves until the kubelet confirms it; None if it goes at once.

    Only Pods stay: those on a node that have not ended, and unless the caller forces it with a grace of 0.
    """
    spec, phase = read_spec(obj), read_status(obj).get("phase")
    if resource != PODS or not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return None
    grace = spec.get("terminationGracePeriodSeconds", 30) if grace_seconds is None else grace_seconds
    if grace == 0:
        return None
    if "deletionTimestamp" in obj["metadata"]:
        return obj
    times = {
        "deletionTimestamp": format_time(now + timedelta(seconds=grace)),
        "deletionGracePeriodSeconds": grace,
    }
    return {**obj, "metadata": {**obj["metadata"], **times}}
