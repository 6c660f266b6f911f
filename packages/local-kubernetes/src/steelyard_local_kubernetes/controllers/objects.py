"""Makers of objects for the controllers' tests: a test shows only what matters to it."""

from typing import Any

from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import ENDPOINT_SLICES, JOBS, PODS, SERVICES, Resource
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import Key, owner_key

TEMPLATE: Json = {
    "metadata": {"labels": {"app": "demo"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
}


def make_job(name: str = "demo", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 0, "template": TEMPLATE, **spec},
    }


def make_deployment(name: str = "demo", **spec: Any) -> Json:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "demo"}}, "template": template, **spec},
    }


def make_service(name: str = "demo", **spec: Any) -> Json:
    ports = [{"port": 8000, "targetPort": 8000, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": {"app": "demo"}, "ports": ports, **spec},
    }


def make_pod(
    name: str, ip: str = "", *, ready: bool = False, labels: Json | None = None, **spec: Any
) -> Json:
    status: Json = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": labels or {"app": "demo"},
        },
        "spec": {**TEMPLATE["spec"], **spec},
        "status": {**status, **({"podIP": ip} if ip else {})},
    }


def make_ended_status(phase: str, at: str = "2026-01-01T00:00:00Z", exit_code: int = 1) -> Json:
    code = 0 if phase == "Succeeded" else exit_code
    terminated = {"exitCode": code, "finishedAt": at}
    return {"phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}


class StoreView:
    """A cache that never lags; `freeze` makes one that lags from then on."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._frozen: dict[Resource, list[Json]] = {}

    def freeze(self, *resources: Resource) -> None:
        self._frozen = {resource: self._cluster.store.objects(resource) for resource in resources}

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        objects = [
            obj
            for obj in self._objects(resource)
            if (obj["metadata"]["namespace"], obj["metadata"]["name"]) == (namespace, name)
        ]
        return objects[0] if objects else None

    def children(self, resource: Resource, owner: Resource, key: Key) -> list[Json]:
        return [obj for obj in self._objects(resource) if owner_key(obj, owner) == key]

    def in_namespace(self, resource: Resource, namespace: str) -> list[Json]:
        return [obj for obj in self._objects(resource) if obj["metadata"].get("namespace", "") == namespace]

    def orphans(self, resource: Resource, owner: Json) -> list[Json]:
        return self.in_namespace(resource, owner["metadata"]["namespace"])

    def _objects(self, resource: Resource) -> list[Json]:
        return self._frozen[resource] if resource in self._frozen else self._cluster.store.objects(resource)


def edge(cluster: MemoryCluster) -> Edge:
    return Edge(cluster, StoreView(cluster), cluster.store.now)


__all__ = ["ENDPOINT_SLICES", "JOBS", "PODS", "SERVICES", "StoreView", "edge", "make_ended_status"]
