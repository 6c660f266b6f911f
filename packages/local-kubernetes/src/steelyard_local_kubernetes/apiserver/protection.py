"""Storage in use: a claim stays until no Pod uses it, a volume until no claim is bound to it. `lifecycle.py` asks."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_conditions, read_finalizers
from steelyard_kube.pods import read_phase
from steelyard_local_kubernetes.apiserver.item import Item, Key
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.rules.storage import (
    ATTRIBUTES_PROTECTION,
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
)
from steelyard_local_kubernetes.apiserver.store import Store

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
NETWORKS = "servicecidrs.networking.k8s.io"
NETWORK_PROTECTION = "networking.k8s.io/service-cidr-finalizer"
ATTRIBUTES = "volumeattributesclasses.storage.k8s.io"
_NAMED = b'"persistentVolumeClaim"'


def needless_finalizer(store: Store, bucket: str, item: Item) -> str:
    """The finalizer that holds a deleted claim or volume for nothing; empty where there is none."""
    if bucket not in (CLAIMS, VOLUMES, ATTRIBUTES, NETWORKS):
        return ""
    obj = item.parse()
    if bucket == ATTRIBUTES:
        name, used = ATTRIBUTES_PROTECTION, False  # nothing here attaches a volume
    elif bucket == NETWORKS:
        name, used = NETWORK_PROTECTION, False  # Services have addresses of the server's own network alone
    elif bucket == VOLUMES:
        name, used = VOLUME_PROTECTION, find_field(obj, "status", "phase") == "Bound"
    else:
        name, used = CLAIM_PROTECTION, _is_used(store, item)
    return name if name in read_finalizers(obj) and not used else ""


def is_new_volume(bucket: str, item: Item) -> bool:
    """Return whether a volume waits for the word that it can be claimed."""
    if bucket != VOLUMES or item.deleting:
        return False
    volume = item.parse()
    # One that is made for a claim is bound by the program that made it.
    return read_phase(volume) == "Pending" and not find_field(volume, "spec", "claimRef", "uid")


def is_new_network(bucket: str, item: Item) -> bool:
    """Return whether a network of Services lacks its finalizer, or the word that it is ready."""
    if bucket != NETWORKS or item.deleting:
        return False
    network = item.parse()
    ready = any(condition.get("type") == "Ready" for condition in read_conditions(network))
    return not ready or NETWORK_PROTECTION not in read_finalizers(network)


def ready_network(status: Json, moment: str) -> Json:
    """Return the status of a network that can be used."""
    ready: Json = {"type": "Ready", "status": "True", "reason": "", "lastTransitionTime": moment}
    ready["message"] = "Kubernetes Service CIDR is ready"
    others = [condition for condition in sequence(status, "conditions") if condition.get("type") != "Ready"]
    return {**status, "conditions": [*others, ready]}


def claims_to_check(item: Item) -> list[Key]:
    """Claims that a Pod names which is gone or has ended; a deletion may wait for it."""
    # Most Pods name none: they are not parsed for it.
    if _NAMED not in item.raw:
        return []
    return [(item.namespace, name) for name in _claim_names(item.parse())]


def _is_used(store: Store, claim: Item) -> bool:
    for item in store.bucket("pods").items(claim.namespace):
        if _NAMED in item.raw:
            pod = item.parse()
            if read_phase(pod) not in ("Succeeded", "Failed") and claim.name in _claim_names(pod):
                return True
    return False


def _claim_names(pod: Json) -> list[str]:
    volumes = [
        mapping(volume, "persistentVolumeClaim") for volume in sequence(mapping(pod, "spec"), "volumes")
    ]
    return [str(volume.get("claimName")) for volume in volumes if volume]
