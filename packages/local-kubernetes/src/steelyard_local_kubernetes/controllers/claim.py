"""The controller of PersistentVolumeClaims: a claim gets a volume of its own, which is a folder of this machine.

`sync.py` calls `decide` with the claim and the volumes that are for it. As on a cluster the volume comes first, then
the claim names it, then both say Bound. The data are the kubelet's (`claims/<namespace>/<name>`), and stay when the
claim goes: the volume is then Released, by `volumes_to_release`.
"""

from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import is_deleting, read_annotations, read_status
from steelyard_local_kubernetes.controllers.decision import Decision, Event

DRIVER = "folders.steelyard"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_PROVISIONER = "pv.kubernetes.io/provisioned-by"


def decide(claim: Json, volumes: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `claim`; `volumes` are those that name it."""
    spec, status = claim["spec"], read_status(claim)
    if is_deleting(claim) or status.get("phase") == "Bound":
        return Decision()
    name = f"pvc-{claim['metadata']['uid']}"
    if missing := _obstacle(claim, name):
        text = f"{missing} is not implemented by the embedded Kubernetes: the claim is not bound"
        return Decision(events=(Event("ProvisioningFailed", text, "Warning"),))
    volume = next((volume for volume in volumes if volume["metadata"]["name"] == name), None)
    if volume is None:
        return Decision(create=(_volume(claim, name),))
    if spec.get("volumeName") != name:
        annotations = {**read_annotations(claim), **_BOUND}
        version = claim["metadata"]["resourceVersion"]
        patch = {
            "metadata": {"annotations": annotations, "resourceVersion": version},
            "spec": {"volumeName": name},
        }
        return Decision(patch=((claim, patch),))
    if read_status(volume).get("phase") != "Bound":
        return Decision(statuses=((volume, {"phase": "Bound"}),))
    bound = {"phase": "Bound", "accessModes": sequence(spec, "accessModes"), "capacity": _capacity(claim)}
    provisioned = Event("ProvisioningSucceeded", f"Successfully provisioned volume {name}")
    return Decision(status=bound, events=(provisioned,))


def is_volume_of(claim: Json, volume: Json) -> bool:
    return bool(_reference(volume).get("uid") == claim["metadata"]["uid"])


def claim_key(volume: Json) -> tuple[str, str] | None:
    """Return namespace and name of the claim that a volume of ours is for."""
    reference = _reference(volume)
    ours = mapping(volume["spec"], "csi").get("driver") == DRIVER
    return (reference["namespace"], reference["name"]) if ours and reference else None


def volumes_to_release(volumes: list[Json], key: tuple[str, str], uid: str | None) -> list[Json]:
    """Return the bound volumes of ours for claims of that name that are gone; `uid` is that of the present one."""
    return [
        volume
        for volume in volumes
        if claim_key(volume) == key
        and _reference(volume).get("uid") != uid
        and read_status(volume).get("phase") != "Released"
    ]


def _reference(volume: Json) -> Json:
    return mapping(volume["spec"], "claimRef")


def _obstacle(claim: Json, name: str) -> str:
    """Return what keeps a claim from having a folder; empty where nothing does."""
    spec = claim["spec"]
    if spec.get("volumeName") not in (None, "", name):
        return "spec.volumeName"
    if spec.get("volumeMode") == "Block":
        return "spec.volumeMode Block"
    fields = ("selector", "dataSource", "dataSourceRef")
    return next((f"spec.{field}" for field in fields if spec.get(field)), "")


def _capacity(claim: Json) -> Json:
    return {"storage": mapping(claim["spec"], "resources", "requests")["storage"]}


def _volume(claim: Json, name: str) -> Json:
    metadata, spec = claim["metadata"], claim["spec"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata["namespace"]}
    reference |= {"name": metadata["name"], "uid": metadata["uid"]}
    volume_spec: Json = {
        "accessModes": sequence(spec, "accessModes"),
        "capacity": _capacity(claim),
        "claimRef": reference,
        "csi": {"driver": DRIVER, "volumeHandle": f"{metadata['namespace']}/{metadata['name']}"},
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    }
    if spec.get("storageClassName"):
        volume_spec["storageClassName"] = spec["storageClassName"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONER: DRIVER}},
        "spec": volume_spec,
    }
