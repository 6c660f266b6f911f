"""Jobs and Pods for tests, as the operator and a kubelet would leave them."""

from typing import Any

from steelyard.clusters.names import ATTEMPT, JOB_NAME, REPLICA_INDEX, REPLICA_TYPE
from steelyard.clusters.training.frameworks import BY_NAME
from steelyard.clusters.training.manifest import JobRequest, Program
from steelyard.clusters.training.view import JobView
from steelyard_common.types import Json
from steelyard_kube.cluster import LogLine
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS, PYTORCH_JOBS

NAMESPACE = "default"


def make_request(name: str = "digits", framework: str = "pytorch", **given: Any) -> JobRequest:
    program = given.pop("program", Program("image", ("python", "train.py")))
    return JobRequest(name, BY_NAME[framework], program, **given)


def condition(type: str, status: str = "True", message: str = "") -> Json:
    return {"type": type, "status": status, "reason": f"PyTorchJob{type}", "message": message}


def make_job(name: str = "digits", *, workers: int = 2, **status: Any) -> Json:
    """A PyTorchJob; `conditions` by their types, or as they are."""
    status["conditions"] = [
        condition(item) if isinstance(item, str) else item for item in status.get("conditions", ("Created",))
    ]
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": NAMESPACE, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": {}}}, "runPolicy": {}},
        "status": status,
    }


async def store(cluster: MemoryCluster, job: Json | None = None) -> JobView:
    """The job, in the cluster with its status."""
    job = job or make_job()
    created = await cluster.create(PYTORCH_JOBS, {**job, "status": {}})
    return await set_status(cluster, JobView(created), **job["status"])


async def set_status(cluster: MemoryCluster, job: JobView, **status: Any) -> JobView:
    status["conditions"] = [
        condition(item) if isinstance(item, str) else item for item in status.get("conditions", ())
    ]
    patch: Json = {"status": status}
    return JobView(await cluster.patch(job.type, job.name, patch, job.namespace, subresource="status"))


async def make_pod(
    cluster: MemoryCluster,
    job: JobView,
    replica: str,
    lines: list[str],
    *,
    phase: str = "Succeeded",
    attempt: int = 0,
) -> Json:
    """A Pod of the job that has written lines, each `SECOND text`."""
    role, _, index = replica.rpartition("-")
    labels = {JOB_NAME: job.name, REPLICA_TYPE: role, REPLICA_INDEX: index, ATTEMPT: str(attempt)}
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }
    name = f"{job.name}-{replica}"
    pod = await cluster.create(
        PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": job.namespace,
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "pytorch"}, {"name": "side"}]},
        },
    )
    cluster.written[pod["metadata"]["uid"]] = [make_line(line) for line in lines]
    return await set_phase(cluster, pod, phase)


async def set_phase(cluster: MemoryCluster, pod: Json, phase: str) -> Json:
    state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": 0}}
    status: Json = {"phase": phase}
    if phase != "Pending":
        status["containerStatuses"] = [{"name": "pytorch", "restartCount": 0, "state": state}]
    metadata = pod["metadata"]
    return await cluster.patch(
        PODS, metadata["name"], {"status": status}, metadata["namespace"], subresource="status"
    )


def make_line(line: str) -> LogLine:
    second, _, text = line.partition(" ")
    return LogLine(f"2026-01-01T00:00:{float(second):06.3f}Z", text)
