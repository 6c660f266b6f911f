"""The node that the kubelet is, and which Pods fit on it. Pods that do not fit stay Pending and say why."""

import os
import platform
from collections.abc import Iterable, Mapping

from steelyard.kube.resource import Json
from steelyard.local.kubelet.quantity import requests_of, text_of

_ENDED = ("Succeeded", "Failed")


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


def used(pods: Iterable[Json], node: str) -> dict[str, float]:
    """What the Pods that are on the node and have not ended take of it."""
    total: dict[str, float] = {}
    for pod in pods:
        if pod["spec"].get("nodeName") == node and (pod.get("status") or {}).get("phase") not in _ENDED:
            for name, amount in requests_of(pod).items():
                total[name] = total.get(name, 0.0) + amount
    return total


def why_not(pod: Json, taken: Mapping[str, float], allocatable: Mapping[str, float], node: str) -> str:
    """Empty when the Pod fits; else the message that says what is missing."""
    labels = node_labels(node)
    missing = [
        f"node {node} has no label {key}={value}"
        for key, value in (pod["spec"].get("nodeSelector") or {}).items()
        if labels.get(key) != value
    ]
    for name, wanted in requests_of(pod).items():
        has = allocatable.get(name, 0.0)
        free = max(0.0, has - taken.get(name, 0.0))
        if wanted > free + 1e-9:
            asks = f"the Pod asks for {text_of(name, wanted)}, {text_of(name, free)} of {text_of(name, has)} is free"
            missing.append(f"1 Insufficient {name} ({asks})")
    return f"0/1 nodes are available: {', '.join(missing)}." if missing else ""
