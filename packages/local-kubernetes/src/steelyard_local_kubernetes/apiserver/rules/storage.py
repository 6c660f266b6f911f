"""Volumes, claims, and the classes, drivers and attachments of storage."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults, immutable, selector_causes
from steelyard_local_kubernetes.apiserver.rules.fields import (
    choice_causes,
    clamp_quantity,
    emptiness_causes,
)
from steelyard_local_kubernetes.apiserver.rules.pod_warnings import claim_warnings
from steelyard_local_kubernetes.apiserver.rules.table import if_named

CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
ATTRIBUTES_PROTECTION = "kubernetes.io/vac-protection"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_ALONE = "ReadWriteOncePod"
_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ALONE]
_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""Groups and kinds that a claim's older field may name."""


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
    _complete_source(mapping(obj, "spec"))


def _complete_source(spec: Json) -> None:
    """Let both fields of a claim's source say the same, and leave out what a real server forgets."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if isinstance(reference, dict) and reference.get("namespace"):
        # Sources of other namespaces are a feature that is switched off.
        del spec["dataSourceRef"]
        reference = None
    if not isinstance(reference, dict):
        if not isinstance(source, dict):
            return
        if (source.get("apiGroup") or "", source.get("kind")) in _SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif not isinstance(source, dict):
        spec["dataSource"] = {name: reference[name] for name in reference if name != "namespace"}


def _check_claim(obj: Json, old: Json | None) -> list[Cause]:
    return claim_causes(obj["spec"], "spec")


def claim_causes(spec: Json, path: str) -> list[Cause]:
    """Faults of a claim's spec, in a template too."""
    modes, where = sequence(spec, "accessModes"), f"{path}.accessModes"
    causes = [] if modes else [missing_value(where, "at least 1 access mode is required")]
    if (selector := spec.get("selector")) is not None:
        causes += selector_causes(selector, f"{path}.selector", empty=True)
    causes += [not_supported(where, mode, _MODES) for mode in modes if mode not in _MODES]
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        causes.append(forbidden_field(where, f"may not use {_ALONE} with other access modes"))
    size, where = find_field(spec, "resources", "requests", "storage"), f"{path}.resources[storage]"
    if size is None:
        causes.append(missing_value(where))
    elif clamp_quantity(size) <= 0:
        causes.append(invalid(where, size, "must be greater than zero"))
    causes += if_named("storageClassName")(spec, path)
    causes += choice_causes(spec.get("volumeMode"), f"{path}.volumeMode", ["Block", "Filesystem"])
    return causes + _source_causes(spec, path) + if_named("volumeAttributesClassName")(spec, path)


def _source_causes(spec: Json, path: str) -> list[Cause]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    causes: list[Cause] = []
    for name, value in (("dataSource", source), ("dataSourceRef", reference)):
        if value is not None:
            causes += _reference_causes(value, f"{path}.{name}")
    if source is None or reference is None:
        return causes
    # A real server shows an empty object here.
    if reference.get("namespace"):
        causes.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        causes.append(invalid(path, {}, "must match dataSourceRef"))
    return causes


def _reference_causes(reference: Json, path: str) -> list[Cause]:
    causes = emptiness_causes(reference, path, "name", "kind")
    kind, group = reference.get("kind") or "", reference.get("apiGroup")
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        causes.append(invalid(path, kind, text))
    causes += name_causes(group, f"{path}.apiGroup") if group else []
    if namespace := reference.get("namespace"):
        causes += name_causes(namespace, f"{path}.namespace", "label")
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
        causes.append(missing_value("spec.accessModes"))
    if not spec.get("capacity"):
        causes.append(missing_value("spec.capacity"))
    return causes


def _default_class(obj: Json) -> None:
    defaults(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _check_class(obj: Json, old: Json | None) -> list[Cause]:
    causes = [] if obj.get("provisioner") else [missing_value("provisioner")]
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


def _warn_of_claim(obj: Json, old: Json | None) -> list[str]:
    warnings = []
    if _OLD_CLASS in read_annotations(obj):
        text = 'deprecated since v1.8; use "storageClassName" attribute instead'
        warnings.append(f"metadata.annotations[{_OLD_CLASS}]: {text}")
    return warnings + claim_warnings(obj["spec"], "spec")


CLAIM = Rules(_prepare_claim, complete_claim, _check_claim, warn=_warn_of_claim)
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
