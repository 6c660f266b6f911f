"""A Job on the in-memory cluster, for the tests of its controller."""

from datetime import UTC, datetime
from typing import Any

from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import JOBS, PODS
from steelyard_local_kubernetes.controllers.kinds import JOB
from steelyard_local_kubernetes.controllers.objects import edge, make_ended_status, make_job
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "demo")
ENDED = ("Succeeded", "Failed")


class JobSimulation:
    """A Job on the in-memory cluster; `settle` syncs until nothing changes, each time twice."""

    def __init__(self, **spec: Any) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = MemoryCluster(now=lambda: self.time)
        self.cluster.store.put(make_job(**spec))
        self.edge = edge(self.cluster)

    async def settle(self) -> None:
        for _ in range(10):
            before = self.cluster.store.version
            await sync(self.edge, JOB, KEY)
            once = self.cluster.store.version
            await sync(self.edge, JOB, KEY)
            assert self.cluster.store.version == once, "a second sync of the same state must change nothing"
            self.remove_released()
            if self.cluster.store.version == before:
                return
        raise AssertionError("the Job does not come to rest")

    def remove_released(self) -> None:
        """Remove deleted Pods whose finalizers are gone, as the API does."""
        for pod in self.pods:
            if pod["metadata"].get("deletionTimestamp") and not pod["metadata"].get("finalizers"):
                self.cluster.store.remove(PODS, pod["metadata"]["name"], "default")

    @property
    def pods(self) -> list[Json]:
        return self.cluster.store.objects(PODS)

    @property
    def job(self) -> Json:
        stored = self.cluster.store.find(JOBS, "demo", "default")
        assert stored is not None
        return stored

    @property
    def status(self) -> Json:
        status: Json = self.job["status"]
        return status

    def true_conditions(self) -> dict[str, str]:
        return {
            condition["type"]: condition.get("reason", "")
            for condition in self.status.get("conditions", ())
            if condition["status"] == "True"
        }

    def bind(self) -> None:
        """Give every Pod a node, so that the API does not drop it at once when it is deleted."""
        for pod in self.pods:
            self.cluster.store.put({**pod, "spec": {**pod["spec"], "nodeName": "n"}})

    def change(self, **spec: Any) -> None:
        """Write fields of the Job's specification as a user does."""
        self.cluster.store.put({**self.job, "spec": {**self.job["spec"], **spec}})

    def end(self, phase: str, *, of: Json | None = None, exit_code: int = 1) -> None:
        pod = of or next(
            candidate for candidate in self.pods if candidate.get("status", {}).get("phase") not in ENDED
        )
        at = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.cluster.store.set_status(
            PODS, pod["metadata"]["name"], "default", make_ended_status(phase, at, exit_code)
        )

    def delete_by_hand(self, pod: Json) -> None:
        """Delete a Pod as a user does; the finalizer holds the deletion back."""
        metadata = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.cluster.store.put({**pod, "metadata": metadata})
