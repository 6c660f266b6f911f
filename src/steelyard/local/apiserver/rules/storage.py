"""Volumes, claims, and the classes, drivers and attachments of storage."""

from steelyard.local.apiserver.errors import Cause, invalid, required
from steelyard.local.apiserver.kinds import Rules, field_of
from steelyard.local.apiserver.names import name_causes
from steelyard.local.apiserver.rules.common import defaults, immutable
from steelyard.local.apiserver.rules.fields import amount_of, quantity_causes
from steelyard.types import Json, mapping, sequence

CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
ATTRIBUTES_PROTECTION = "kubernetes.io/vac-protection"


def complete_claim(claim: Json) -> None:
    """The defaults of a claim, in a template too."""
    spec = claim.setdefault("spec", {})
    defaults(spec, volumeMode="Filesystem")
    spec.setdefault("resources", {})


def _protect(obj: Json, finalizer: str) -> None:
    finalizers = sequence(obj["metadata"], "finalizers")
    if finalizer not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, finalizer]


def _prepare_claim(obj: Json) -> None:
    obj["status"] = {"phase": "Pending"}
    # Pods may use it: it goes when none does any more.
    _protect(obj, CLAIM_PROTECTION)


def _check_claim(obj: Json, old: Json | None) -> list[Cause]:
    return claim_causes(obj["spec"], "spec")


def claim_causes(spec: Json, path: str) -> list[Cause]:
    """Faults of a claim's spec, in a template too."""
    causes = []
    if not spec.get("accessModes"):
        causes.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    size, where = field_of(spec, "resources", "requests", "storage"), f"{path}.resources[storage]"
    if size is None:
        causes.append(required(where))
    elif faults := quantity_causes(size, where):
        causes += faults
    elif amount_of(size) == 0:
        causes.append(invalid(where, size, "must be greater than zero"))
    if name := spec.get("storageClassName"):
        causes += name_causes(name, f"{path}.storageClassName")
    return causes


def _prepare_volume(obj: Json) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"]}
    _protect(obj, VOLUME_PROTECTION)


def _default_volume(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if path := mapping(spec, "hostPath"):
        defaults(path, type="")


def _check_volume(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    causes = []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes"))
    if not spec.get("capacity"):
        causes.append(required("spec.capacity"))
    return causes


def _default_class(obj: Json) -> None:
    defaults(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _check_class(obj: Json, old: Json | None) -> list[Cause]:
    causes = [] if obj.get("provisioner") else [required("provisioner")]
    return causes + immutable(obj, old, "provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")


def _default_driver(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    )
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _check_capacity(obj: Json, old: Json | None) -> list[Cause]:
    return name_causes(obj.get("storageClassName") or "", "storageClassName")


CLAIM = Rules(_prepare_claim, complete_claim, _check_claim)
VOLUME = Rules(_prepare_volume, _default_volume, _check_volume)
CLASS = Rules(default=_default_class, check=_check_class)


def _prepare_attachment(obj: Json) -> None:
    obj["status"] = {"attached": False}


def _prepare_attributes(obj: Json) -> None:
    _protect(obj, ATTRIBUTES_PROTECTION)


DRIVER = Rules(default=_default_driver)
CAPACITY = Rules(check=_check_capacity)
ATTACHMENT = Rules(prepare=_prepare_attachment)
ATTRIBUTES = Rules(prepare=_prepare_attributes)
