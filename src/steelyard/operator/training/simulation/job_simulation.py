"""A simulated training job for tests: the edge over a cluster in memory, and methods for what Pods and people do."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from steelyard.operator import concurrency
from steelyard.operator.controller import Controller
from steelyard.operator.edge import Key, Stale, SyncResult
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.simulator import drive
from steelyard.operator.training.frameworks import ALL
from steelyard.operator.training.labels import JOB_NAME
from steelyard.operator.training.observed.caches import child_kinds, slim, slim_job, slim_pod
from steelyard_common.types import Json, mapping
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.objects import find_controller, read_labels, read_status
from steelyard_kube.pods import read_phase
from steelyard_kube.resource import PODS, SERVICES, Resource, find_resource
from steelyard_kube.store import Key as StoreKey
from steelyard_kube.times import format_time

NAMESPACE = "default"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = OperatorSettings(storage="file:///storage")


def make_template(container: str, **container_fields: Any) -> Json:
    return {"spec": {"containers": [{"name": container, "image": "train", **container_fields}]}}


def make_job(
    kind: str = "PyTorchJob",
    replicas: Mapping[str, int] | None = None,
    *,
    name: str = "job",
    restart: str | None = None,
    policy: Json | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A job of a v1 kind with so many replicas of each type."""
    framework = ALL[kind]
    restarts = {"restartPolicy": restart} if restart else {}
    types = {
        role: {"replicas": count, "template": make_template(framework.container), **restarts}
        for role, count in (replicas or {"Master": 1, "Worker": 2}).items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "resourceVersion": "1",
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {framework.specs: types, "runPolicy": policy or {}, **spec},
    }


class StoreCaches:
    """Caches that never lag, but for the names in `blind`, which they do not show, and for `stale`, an old job."""

    def __init__(self, cluster: MemoryCluster, settings: OperatorSettings) -> None:
        self._store = cluster.store
        self._settings = settings
        self.blind: set[str] = set()
        self.stale: Json | None = None

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        stored = self.stale or self._store.find(resource, name, namespace)
        return slim_job(stored) if stored else None

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        job, kinds = resource["metadata"], child_kinds(self._settings)
        own = [
            [
                obj
                for obj in self._store.objects(kind, job["namespace"])
                if obj["metadata"]["name"] not in self.blind and self.concerns(job, obj)
            ]
            for kind in (*kinds, PODS)
        ]
        return [slim(obj) for group in own[:-1] for obj in group], [slim_pod(obj) for obj in own[-1]]

    @staticmethod
    def concerns(job: Json, child: Json) -> bool:
        """Return whether an object is of the job with this metadata, or may become so."""
        owner, labels = find_controller(child), read_labels(child)
        if JOB_NAME not in labels:
            return False
        return bool(owner["uid"] == job["uid"] if owner else labels[JOB_NAME] == job["name"])

    def settings(self) -> OperatorSettings:
        return self._settings

    def apply_write(self, obj: Json) -> bool:
        return True


class JobSimulation:
    """One job. What Pods do happens through `run`, `end` and `remove`; `settle` lets the operator answer."""

    def __init__(self, job: Json, settings: OperatorSettings = SETTINGS) -> None:
        self.now = BEGIN
        self.cluster = MemoryCluster(lambda: self.now)
        self.store = self.cluster.store
        self.caches = StoreCaches(self.cluster, settings)
        self.controller = Controller(self.cluster, self.caches)
        self.key = Key(find_resource(job), job["metadata"]["namespace"], job["metadata"]["name"])
        self.look: datetime | None = None
        metadata = {
            name: job["metadata"][name] for name in job["metadata"].keys() - {"uid", "resourceVersion"}
        }
        self.store.create(self.key.resource, {**job, "metadata": metadata})

    # ---- the operator

    def settle(self) -> "JobSimulation":
        """Reconcile until another reconciliation changes nothing."""
        for _ in range(30):
            before = self.store.version
            try:
                self.step()
            except Stale:
                continue
            if self.store.version == before:
                return self
        raise AssertionError("the operator never comes to rest")

    def step(self) -> SyncResult:
        run = drive if self._few() else asyncio.run
        synced = run(self.controller.sync(self.key, self.now))
        self.look = synced.requeue_at
        return synced

    @property
    def _types(self) -> str:
        kind = self.key.resource.kind
        return ALL[kind].specs if kind in ALL else "roles"

    def _few(self) -> bool:
        """Return whether the edge makes one call after the other, so that nothing needs an event loop."""
        types = mapping(self.job["spec"], self._types)
        replicas = max(
            sum(replica_type.get("replicas", 1) for replica_type in types.values()), len(self.pods())
        )
        return bool(2 * replicas <= concurrency.FEW)

    def wait(self, seconds: float) -> "JobSimulation":
        return self.wait_unseen(seconds).settle()

    def wait_unseen(self, seconds: float) -> "JobSimulation":
        self.now += timedelta(seconds=seconds)
        return self

    # ---- what there is

    @property
    def job(self) -> Json:
        return self.store.get(self._key())

    @property
    def status(self) -> Json:
        status: Json = read_status(self.job)
        return status

    @property
    def state(self) -> str:
        """v1's column State."""
        return str(self.status["conditions"][-1]["type"])

    def condition(self, type: str) -> Json | None:
        return next((condition for condition in self.status["conditions"] if condition["type"] == type), None)

    def read_message(self, type: str) -> str:
        return str((self.condition(type) or {})["message"])

    def pods(self) -> dict[str, Json]:
        return {pod["metadata"]["name"]: pod for pod in self.store.objects(PODS)}

    def services(self) -> list[str]:
        return [service["metadata"]["name"] for service in self.store.objects(SERVICES)]

    def replica(self, name: str) -> Json:
        """Return the replica's entry in the status."""
        return next(entry for entry in self.status["replicas"] if entry["pod"] == name)

    # ---- hands

    def patch_spec(self, **fields: Any) -> "JobSimulation":
        self.store.update(self._key(), lambda old: {**old, "spec": {**old["spec"], **fields}})
        return self.settle()

    def scale(self, role: str, count: int) -> "JobSimulation":
        types = self.job["spec"][self._types]
        return self.patch_spec(**{self._types: {**types, role: {**types[role], "replicas": count}}})

    def run(self, *names: str, **fields: Any) -> "JobSimulation":
        """These Pods run, or all that wait."""
        for name in names or [name for name, pod in self.pods().items() if read_phase(pod) == "Pending"]:
            self._set(
                name, {"phase": "Running", "startTime": format_time(self.now), **fields}, {"running": {}}
            )
        return self.settle()

    def end(self, name: str, code: int = 0, message: str = "", **fields: Any) -> "JobSimulation":
        """The container ends; the operator has not looked yet."""
        ended = {"exitCode": code, "finishedAt": format_time(self.now), "message": message}
        ended |= {"reason": "Completed" if code == 0 else "Error"}
        phase = "Succeeded" if code == 0 else "Failed"
        self._set(name, {"phase": phase, **fields}, {"terminated": ended})
        return self

    def evict(self, name: str, reason: str = "Evicted") -> "JobSimulation":
        self._set(name, {"phase": "Failed", "reason": reason}, {})
        return self

    def again(self, name: str, count: int, code: int = 1) -> "JobSimulation":
        """The kubelet has started its container so often again."""
        last = {"terminated": {"exitCode": code, "finishedAt": format_time(self.now), "reason": "Error"}}
        self._set(name, {"phase": "Running"}, {"running": {}}, restartCount=count, lastState=last)
        return self

    def on_node(self, *names: str) -> "JobSimulation":
        """Pods that end slowly when they are deleted."""
        for name in names:
            pod = self.pods()[name]
            self.store.put({**pod, "spec": {**pod["spec"], "nodeName": "node"}})
        return self

    def lose(self, name: str) -> "JobSimulation":
        """Let the Pod's node answer no more."""
        ready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        lost = {**ready, "lastTransitionTime": format_time(self.now)}
        self._set(name, {"phase": "Running", "conditions": [lost]}, {"running": {}})
        return self

    def remove(self, name: str, grace: int = 0) -> "JobSimulation":
        """`kubectl delete pod`."""
        self.on_node(name)
        self.store.delete(self._key(PODS, name), grace_seconds=grace)
        return self

    def confirm_end(self, name: str) -> "JobSimulation":
        """The kubelet confirms that it has ended."""
        self.store.remove(PODS, name, self.key.namespace)
        return self

    def set_status(self, name: str, status: Json) -> "JobSimulation":
        self.store.set_status(PODS, name, self.key.namespace, status)
        return self

    def _set(self, name: str, status: Json, state: Json, **container: Any) -> None:
        pod = self.pods()[name]
        main = {"name": pod["spec"]["containers"][0]["name"], "state": state, **container}
        self.set_status(name, {"containerStatuses": [main], **status})

    def _key(self, resource: Resource | None = None, name: str = "") -> StoreKey:
        return StoreKey(resource or self.key.resource, self.key.namespace, name or self.key.name)
