"""Objects of Ray clusters for tests, with defaults: a test shows only what matters."""

from typing import Any

from steelyard_common.types import Json


def make_cluster(name: str = "demo", *, state: str = "", namespace: str = "team-a", **spec: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {
            "rayVersion": "2.52.1",
            "headGroupSpec": {
                "template": {"spec": {"containers": [{"name": "ray-head", "image": "own/ray:1"}]}}
            },
            "workerGroupSpecs": [{"groupName": "workers", "replicas": 1, "template": {}}],
            **spec,
        },
        "status": {"state": state, **({"availableWorkerReplicas": 1} if state == "ready" else {})},
    }


def make_pod(
    name: str,
    *,
    cluster: str = "demo",
    waiting: tuple[str, str] | None = None,
    conditions: list[Json] | None = None,
) -> Json:
    status: Json = {"phase": "Pending", "conditions": conditions or []}
    if waiting is not None:
        state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
        status["containerStatuses"] = [{"name": "ray-head", "image": "ray:nowhere", "state": state}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "labels": {"ray.io/cluster": cluster}},
        "spec": {},
        "status": status,
    }


def make_event(kind: str, name: str, reason: str, message: str, *, type: str = "Warning") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason}".lower(), "namespace": "team-a"},
        "involvedObject": {"kind": kind, "name": name},
        "type": type,
        "reason": reason,
        "message": message,
    }


def make_queue(name: str = "team", *, namespace: str = "team-a", default: bool = False, **spec: Any) -> Json:
    annotations = {"kueue.x-k8s.io/default-queue": "true"} if default else {}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"clusterQueue": "pool", **spec},
    }


def make_workload(name: str, *, owner: str, queue: str = "team", priority: int = 0, **status: str) -> Json:
    """`status` has the state of each condition, such as QuotaReserved="True"."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "name": owner,
                    "uid": f"uid-{owner}",
                    "controller": True,
                }
            ],
        },
        "spec": {"queueName": queue, "priority": priority},
        "status": {
            "conditions": [
                {"type": type, "status": value, "reason": "Pending", "message": f"{type} is {value}"}
                for type, value in status.items()
            ]
        },
    }
