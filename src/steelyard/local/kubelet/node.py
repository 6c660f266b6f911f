"""The node that the kubelet is, and which Pods fit on it. Pods that do not fit stay Pending and say why."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.local.kubelet.quantity import text_of
from steelyard.types import Json


def node_labels(name: str) -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine}


def node_object(name: str, allocatable: Mapping[str, float], *, can: Mapping[str, bool], now: str) -> Json:
    """The Node as it is written at the kubelet's start; `can` says what this machine's kernel allows."""
    amounts = {resource: text_of(resource, amount) for resource, amount in allocatable.items()}
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
                "kubeletVersion": "steelyard",
                "osImage": "this machine",
                "containerRuntimeVersion": "process",
            },
        },
    }


KEPT = 0.25
"""The part of the node that an owner of many Pods leaves to the Pods of others."""


@dataclass(frozen=True)
class Lack:
    """Resources that a Pod waits for; false when it fits. The amounts change with every other Pod, the kind
    seldom.
    """

    kind: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.kind)


def why_not(
    pod: Json,
    taken: Mapping[str, float],
    allocatable: Mapping[str, float],
    node: str,
    requested: Mapping[str, float],
) -> Lack:
    """Return what a Pod with these requests lacks on the node."""
    labels = node_labels(node)
    missing = {
        f"label {key}": f"node {node} has no label {key}={value}"
        for key, value in (pod["spec"].get("nodeSelector") or {}).items()
        if labels.get(key) != value
    }
    for name, wanted in requested.items():
        has = allocatable.get(name, 0.0)
        free = max(0.0, has - taken.get(name, 0.0))
        if wanted > free + 1e-9:
            asks = f"the Pod asks for {text_of(name, wanted)}, {text_of(name, free)} of {text_of(name, has)} is free"
            missing[name] = f"1 Insufficient {name} ({asks})"
    if not missing:
        return Lack()
    return Lack(", ".join(missing), f"0/1 nodes are available: {', '.join(missing.values())}.")


def no_room_beside_others(
    taken: Mapping[str, float], allocatable: Mapping[str, float], requested: Mapping[str, float]
) -> Lack:
    """Return what a further Pod of an owner with many Pods lacks: a part of the node is kept for others."""
    missing = {}
    for name, wanted in requested.items():
        has = allocatable.get(name, 0.0)
        if taken.get(name, 0.0) + wanted > has * (1 - KEPT) + 1e-9:
            missing[name] = f"{text_of(name, has * KEPT)} of {text_of(name, has)} {name}"
    if not missing:
        return Lack()
    kept = " and ".join(missing.values())
    text = (
        f"0/1 nodes are available: 1 keeps {kept} for other namespaces, since this owner has many Pods on it."
    )
    return Lack(f"room for others: {', '.join(missing)}", text)
