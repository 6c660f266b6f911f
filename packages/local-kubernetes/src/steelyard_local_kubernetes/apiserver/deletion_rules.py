"""Rules for when a deleted object goes: finalizers, the time that a Pod gets to end, namespaces that are still full."""

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_spec, read_status
from steelyard_local_kubernetes.apiserver.kinds import ResourceType

LONGEST_GRACE = 2**31 - 1  # seconds: more than a date can hold would follow


def set_propagation(kind: ResourceType, metadata: Json, propagation: str) -> None:
    """Finalizers that stand for what becomes of the dependents."""
    # batch/v1 orphans by default, since clients rely on what the first Jobs did.
    if not propagation and kind.bucket == "jobs.batch":
        propagation = "Orphan"
    finalizers = [
        finalizer
        for finalizer in sequence(metadata, "finalizers")
        if finalizer not in ("orphan", "foregroundDeletion")
    ]
    if not propagation:
        return
    if propagation == "Orphan":
        finalizers.append("orphan")
    elif propagation == "Foreground":
        finalizers.append("foregroundDeletion")
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers


def grace_seconds(kind: ResourceType, obj: Json, requested: int | None) -> int | None:
    """Seconds that a Pod gets to end; None for kinds without such."""
    if kind.bucket != "pods":
        return None
    spec, phase = obj["spec"], read_status(obj).get("phase")
    # No kubelet has anything of it to end.
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    seconds = int(spec.get("terminationGracePeriodSeconds", 30)) if requested is None else requested
    return min(max(seconds, 0), LONGEST_GRACE)


def is_held(kind: ResourceType, obj: Json) -> bool:
    """A namespace stays until its own finalizer is gone."""
    return kind.bucket == "namespaces" and bool(read_spec(obj).get("finalizers"))
