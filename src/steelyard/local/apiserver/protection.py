"""Storage in use: a claim stays until no Pod uses it, a volume until no claim is bound to it. `lifecycle.py` asks."""

from steelyard.kube.objects import finalizers_of
from steelyard.kube.pods import phase_of
from steelyard.local.apiserver.item import Item, Key
from steelyard.local.apiserver.kinds import field_of
from steelyard.local.apiserver.rules.storage import ATTRIBUTES_PROTECTION, CLAIM_PROTECTION, VOLUME_PROTECTION
from steelyard.local.apiserver.store import Store
from steelyard.types import Json, mapping, sequence

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
ATTRIBUTES = "volumeattributesclasses.storage.k8s.io"
_NAMED = b'"persistentVolumeClaim"'


def expired_protection(store: Store, bucket: str, item: Item) -> str:
    """The finalizer that holds a deleted claim or volume for nothing; empty where there is none."""
    if bucket not in (CLAIMS, VOLUMES, ATTRIBUTES):
        return ""
    obj = item.parsed()
    if bucket == ATTRIBUTES:
        name, used = ATTRIBUTES_PROTECTION, False  # nothing here attaches a volume
    elif bucket == VOLUMES:
        name, used = VOLUME_PROTECTION, field_of(obj, "status", "phase") == "Bound"
    else:
        name, used = CLAIM_PROTECTION, _is_used(store, item)
    return name if name in finalizers_of(obj) and not used else ""


def is_new_volume(bucket: str, item: Item) -> bool:
    """Tell whether a volume waits for the word that it can be claimed."""
    if bucket != VOLUMES or item.deleting:
        return False
    volume = item.parsed()
    # One that is made for a claim is bound by whoever made it.
    return phase_of(volume) == "Pending" and not field_of(volume, "spec", "claimRef", "uid")


def released_claims(item: Item) -> list[Key]:
    """Claims that a Pod names which is gone or has ended; a deletion may wait for it."""
    # Most Pods name none: they are not parsed for it.
    if _NAMED not in item.raw:
        return []
    return [(item.namespace, name) for name in _claims_of(item.parsed())]


def _is_used(store: Store, claim: Item) -> bool:
    for item in store.bucket("pods").items(claim.namespace):
        if _NAMED in item.raw:
            pod = item.parsed()
            if phase_of(pod) not in ("Succeeded", "Failed") and claim.name in _claims_of(pod):
                return True
    return False


def _claims_of(pod: Json) -> list[str]:
    volumes = [
        mapping(volume, "persistentVolumeClaim") for volume in sequence(mapping(pod, "spec"), "volumes")
    ]
    return [str(volume.get("claimName")) for volume in volumes if volume]
