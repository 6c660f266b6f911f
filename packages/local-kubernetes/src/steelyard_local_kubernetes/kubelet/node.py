"""The node that the kubelet is, and which Pods fit on it. Pods that do not fit stay Pending and say why."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard_common import __version__
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_annotations, read_status
from steelyard_local_kubernetes.gpus.gpus import ANNOTATION, PREFIX, Gpus
from steelyard_local_kubernetes.quantity import quantity_text
from steelyard_local_kubernetes.release import KUBERNETES

GPU_LOST = "GPULost"
"""Type of the Node's condition that holds while a GPU is lost, or their state is unknown."""


def node_labels(name: str) -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine}


def bare_node(name: str) -> Json:
    """Return the Node as it is known before anybody has read it: its labels."""
    return {"metadata": {"name": name, "labels": node_labels(name)}, "spec": {}}


def node_object(name: str, allocatable: Mapping[str, float], *, can: Mapping[str, bool], now: str) -> Json:
    """The Node as it is written at the kubelet's start; `can` says what this machine's kernel allows."""
    amounts = {resource: quantity_text(resource, amount) for resource, amount in allocatable.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": node_labels(name),
            "annotations": {f"steelyard/{what}": str(holds).lower() for what, holds in can.items()},
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "the process kubelet runs",
                    "lastTransitionTime": now,
                    "lastHeartbeatTime": now,
                }
            ],
            "nodeInfo": {
                "kernelVersion": os.uname().release,
                "operatingSystem": "linux",
                "architecture": node_labels(name)["kubernetes.io/arch"],
                "kubeletVersion": KUBERNETES,
                "osImage": "this machine",
                "containerRuntimeVersion": f"steelyard://{__version__}",
            },
        },
    }


def reference(name: str) -> Json:
    """The Node as events name it: its uid is its name, as the kubelet of Kubernetes has it."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}}


def gpu_fields(gpus: Gpus) -> Json:
    """Make what the Node says of its GPUs: amounts, condition, and in an annotation who has which."""
    amounts = {key: gpus.amounts(healthy=key == "allocatable") for key in ("capacity", "allocatable")}
    texts = {
        key: {name: quantity_text(name, amount) for name, amount in requests.items()}
        for key, requests in amounts.items()
    }
    return {**texts, "condition": gpus.condition(), "annotations": gpus.annotations()}


def patches_for_gpus(node: Json, shown: Json, now: str) -> tuple[Json, Json]:
    """Patches of the Node's annotations and of its status. Devices of earlier days that are gone go from it."""
    status = read_status(node)
    patch: Json = {}
    for key in ("capacity", "allocatable"):
        # A merge patch removes only what it names with null.
        stale = {name: None for name in mapping(status, key) if is_device(name)}
        patch[key] = stale | shown[key]
    # A merge patch replaces a list as a whole: the other conditions are sent along.
    others = [condition for condition in sequence(status, "conditions") if condition["type"] != GPU_LOST]
    known = [condition for condition in sequence(status, "conditions") if condition["type"] == GPU_LOST]
    if shown["condition"]:
        state, reason, message = shown["condition"]
        changed = known[0]["lastTransitionTime"] if known and known[0]["status"] == state else now
        others.append({
            "type": GPU_LOST, "status": state, "reason": reason, "message": message,
            "lastTransitionTime": changed, "lastHeartbeatTime": now,
        })  # fmt: skip
    patch["conditions"] = others
    before = read_annotations(node)
    stale = {key: None for key in before if key == ANNOTATION or key.startswith(PREFIX)}
    return {"annotations": stale | shown["annotations"]}, patch


KEPT = 0.25
"""The part of the node that an owner of many Pods leaves to the Pods of others."""


@dataclass(frozen=True)
class Lack:
    """Resources that a Pod waits for; false when it fits. The amounts change with every other Pod, the kind
    seldom.
    """

    kind: str = ""
    text: str = ""
    holders: str = ""  # who has the devices, where such are lacking

    def __bool__(self) -> bool:
        return bool(self.kind)


def is_device(resource: str) -> bool:
    """Return whether a resource is counted in whole devices; of Kubernetes' own resources only other kinds have a /."""
    return "/" in resource


def no_devices(resource: str) -> str:
    return f"this machine offers no {resource}"


def make_lack(reason: str) -> Lack:
    """Return the lack of a Pod that may not run here, whatever amounts are free."""
    return Lack(reason, f"0/1 nodes are available: 1 {reason}.") if reason else Lack()


def find_lack(
    taken: Mapping[str, float],
    allocatable: Mapping[str, float],
    requested: Mapping[str, float],
    why_of: Callable[[str], str] = no_devices,
) -> Lack:
    """Return what a Pod with these requests lacks on the node; `why_of` says why a device is not to be had."""
    missing: dict[str, str] = {}
    for name, requested_amount in requested.items():
        has = allocatable.get(name, 0.0)
        free = max(0.0, has - taken.get(name, 0.0))
        # Sums of binary fractions: ten requests of 0.1 are not exactly 1.
        if requested_amount > free + 1e-9:
            missing[name] = f"1 Insufficient {name} ({_asks(name, requested_amount, free, has, why_of)})"
    if not missing:
        return Lack()
    # How many devices there are, and why there are none, changes seldom, and decides what a person does about it.
    kinds = [
        f"{name} of {allocatable.get(name, 0.0):g}{'' if allocatable.get(name) else f': {why_of(name)}'}"
        if is_device(name)
        else name
        for name in missing
    ]
    text = f"0/1 nodes are available: {', '.join(missing.values())}."
    return Lack(", ".join(kinds), text, "; ".join(why_of(name) for name in missing if is_device(name)))


def _asks(name: str, requested: float, free: float, has: float, why_of: Callable[[str], str]) -> str:
    asks = f"the Pod asks for {quantity_text(name, requested)}"
    if not is_device(name):
        return f"{asks}, {quantity_text(name, free)} of {quantity_text(name, has)} is free"
    if not has:
        return f"{asks}: {why_of(name)}"
    return f"{asks}, {quantity_text(name, free)} of {quantity_text(name, has)} is free: {why_of(name)}"


def no_room_beside_others(
    taken: Mapping[str, float], allocatable: Mapping[str, float], requested: Mapping[str, float]
) -> Lack:
    """Return what a further Pod of an owner with many Pods lacks: a part of the node is kept for others."""
    missing = {}
    for name, requested_amount in requested.items():
        has = allocatable.get(name, 0.0)
        # A part of one GPU cannot be kept: who asks for the only one would never have it.
        if not is_device(name) and taken.get(name, 0.0) + requested_amount > has * (1 - KEPT) + 1e-9:
            missing[name] = f"{quantity_text(name, has * KEPT)} of {quantity_text(name, has)} {name}"
    if not missing:
        return Lack()
    kept = " and ".join(missing.values())
    text = (
        f"0/1 nodes are available: 1 keeps {kept} for other namespaces, since this owner has many Pods on it."
    )
    return Lack(f"room for others: {', '.join(missing)}", text)
