"""Metrics of v1's operator, under its names, so that dashboards go on working."""

from prometheus_client import CollectorRegistry, Counter

from steelyard.operator.training.conditions import holds
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_spec, read_status

_FRAMEWORKS = {
    "TFJob": "tensorflow",
    "PyTorchJob": "pytorch",
    "MXJob": "mxnet",
    "JAXJob": "jax",
    "XGBoostJob": "xgboost",
    "PaddleJob": "paddle",
    "MPIJob": "mpi",
}
_JOBS = {
    "Created": ("created", "Jobs created."),
    "Deleted": ("deleted", "Jobs deleted."),
    "Succeeded": ("successful", "Jobs that succeeded."),
    "Failed": ("failed", "Jobs that failed."),
    "Restarting": ("restarted", "Restarts of jobs."),
}


class TrainingMetrics:
    """Counters of jobs by namespace and framework, and of Pods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["job_namespace", "framework"]
        self._jobs = {
            name: Counter(f"training_operator_jobs_{word}", text, labels, registry=registry)
            for name, (word, text) in _JOBS.items()
        }
        self._pods = {
            "create": Counter("created_pods", "Pods created.", registry=registry),
            "delete": Counter("deleted_pods", "Pods deleted.", registry=registry),
        }
        self._failed = Counter("failed_pods", "Pods that failed.", registry=registry)

    def record_write(self, verb: str, owner: Json, obj: Json) -> None:
        """Count a write of the operator."""
        if verb == "status":
            self._status(owner, obj)
        elif verb == "delete" and obj["metadata"].get("uid") == owner["metadata"]["uid"]:
            self._count("Deleted", owner)
        elif obj["kind"] == "Pod" and verb in self._pods:
            self._pods[verb].inc()

    def _status(self, before: Json, after: Json) -> None:
        old, new = read_status(before), read_status(after)
        for condition in ("Created", "Succeeded", "Failed"):
            if holds(sequence(new, "conditions"), condition) and not holds(
                sequence(old, "conditions"), condition
            ):
                self._count(condition, after)
        known = {failure.get("uid") for failure in sequence(old, "failures")}
        uids = [failure.get("uid") for failure in sequence(new, "failures")]
        self._failed.inc(sum(uid not in known for uid in uids))
        restarts = _restarts(new) - _restarts(old)
        if restarts > 0:
            self._count("Restarting", after, restarts)

    def _count(self, condition: str, job: Json, number: int = 1) -> None:
        self._jobs[condition].labels(job["metadata"]["namespace"], framework_name(job)).inc(number)


def framework_name(job: Json) -> str:
    """Return v1's name of the framework; for a DLJob, the name of its Framework resource."""
    named = read_spec(job).get("framework")
    return _FRAMEWORKS.get(job["kind"]) or (named if isinstance(named, str) else "inline")


def _restarts(status: Json) -> int:
    return int(status.get("restarts") or 0) + int(status.get("disruptions") or 0)
