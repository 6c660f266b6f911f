"""Cells of workloads, of storage and of what bounds a namespace. `rendering.py` puts them into rows."""

from datetime import datetime
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_status
from steelyard_local_kubernetes.apiserver.columns import NONE, UNSET, Cell, age, at
from steelyard_local_kubernetes.apiserver.kinds import find_field

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS = "volume.beta.kubernetes.io/storage-class"


def pairs(*path: str) -> Cell:
    """Labels as text."""

    def cell(obj: Json, now: datetime) -> str:
        labels = find_field(obj, *path) or {}
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE

    return cell


def truth(*path: str) -> Cell:
    return lambda obj, now: bool(find_field(obj, *path))


def whole(*path: str) -> Cell:
    return at(*path, absent=0)


def join_field(*path: str, absent: str = "") -> Cell:
    return lambda obj, now: ",".join(find_field(obj, *path) or ()) or absent


# ---- workloads


def ready_ratio(obj: Json, now: datetime) -> str:
    return f"{read_status(obj).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


def suspension(obj: Json, now: datetime) -> str:
    return str(bool(find_field(obj, "spec", "suspend")))


def cron_last(obj: Json, now: datetime) -> str:
    last = read_status(obj).get("lastScheduleTime")
    return age(last, now) if last else NONE


def revision_controller(obj: Json, now: datetime) -> str:
    owners = [owner for owner in sequence(obj["metadata"], "ownerReferences") if owner.get("controller")]
    if not owners:
        return NONE
    group, slash, _ = owners[0]["apiVersion"].rpartition("/")
    kind = str(owners[0]["kind"]).lower()
    return f"{kind}.{group}/{owners[0]['name']}" if slash else f"{kind}/{owners[0]['name']}"


# ---- storage


def phase(obj: Json, now: datetime) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else read_status(obj).get("phase", "")


def _modes(modes: Any) -> str:
    """Modes without repetition, in the order of their widths."""
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def claim_capacity(obj: Json, now: datetime) -> str:
    bound = find_field(obj, "spec", "volumeName")
    return str(find_field(obj, "status", "capacity", "storage") or "0") if bound else ""


def claim_modes(obj: Json, now: datetime) -> str:
    return _modes(read_status(obj).get("accessModes")) if find_field(obj, "spec", "volumeName") else ""


def volume_modes(obj: Json, now: datetime) -> str:
    return _modes(find_field(obj, "spec", "accessModes"))


def storage_class(obj: Json, now: datetime) -> str:
    older = mapping(obj["metadata"], "annotations").get(_CLASS)
    return str(older or find_field(obj, "spec", "storageClassName") or "")


def volume_claim(obj: Json, now: datetime) -> str:
    claim = find_field(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def class_name(obj: Json, now: datetime) -> str:
    default = mapping(obj["metadata"], "annotations").get("storageclass.kubernetes.io/is-default-class")
    return f"{obj['metadata']['name']} (default)" if default == "true" else str(obj["metadata"]["name"])


def token_audiences(obj: Json, now: datetime) -> str:
    requests = sequence(obj["spec"], "tokenRequests")
    return ",".join(request.get("audience", "") for request in requests) or UNSET


# ---- bounds


def quota_column(*, limits: bool) -> Cell:
    """The quota's resources that bound limits, or those that bound requests and numbers."""

    def cell(obj: Json, now: datetime) -> str:
        status = read_status(obj)
        used = mapping(status, "used")
        rows = [
            f"{name}: {used.get(name, '0')}/{hard}"
            for name, hard in sorted(mapping(status, "hard").items())
            if name.startswith("limits") == limits
        ]
        return ", ".join(rows)

    return cell


def budget(name: str) -> Cell:
    return at("spec", name, absent="N/A")
