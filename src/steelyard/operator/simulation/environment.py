"""What happens around the operator in the exploration: Jobs and their Pods, sessions, and people's hands.

Each function does one thing to the objects of a `Bench`, as a controller, a kubelet or a person would.
"""

from typing import Any

from steelyard.kube.objects import controller_of
from steelyard.kube.resource import JOBS, PODS, REPLICA_SETS, Resource, resource_of
from steelyard.operator.children import live
from steelyard.operator.conditions import parse_time, time_text
from steelyard.operator.names import owner_reference
from steelyard.operator.simulation.resources import NAMESPACE
from steelyard.operator.simulation.simulator import Bench, seconds
from steelyard.types import Json

FOREIGN = "somebody-elses"


def jobs(bench: Bench) -> list[Json]:
    """The Jobs that run for somebody: a Job that nobody controls is somebody else's."""
    return [job for job in bench.objects(JOBS) if live(job) and controller_of(job)]


def pod_of(bench: Bench, owner: Json) -> Json | None:
    return bench.find(PODS, f"{owner['metadata']['name']}-pod", NAMESPACE)


def put_pod(bench: Bench, owner: Json, labels: Json, status: Json) -> None:
    metadata = {
        "name": f"{owner['metadata']['name']}-pod",
        "namespace": NAMESPACE,
        "labels": labels,
        "ownerReferences": [owner_reference(owner)],
    }
    bench.store.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})


def job_pod(bench: Bench, job: Json, status: Json) -> None:
    put_pod(bench, job, job["spec"]["template"]["metadata"]["labels"], status)


def pod_runs(bench: Bench, job: Json) -> None:
    job_pod(bench, job, {"phase": "Running", "conditions": [_condition(bench, "Ready", "True")]})


def job_succeeds(bench: Bench, job: Json) -> None:
    job_pod(bench, job, {"phase": "Succeeded"})
    end_job(bench, job, "Complete")


def job_fails(bench: Bench, job: Json, exit_code: int, message: str, reason: str = "Error") -> None:
    ended = {"exitCode": exit_code, "reason": reason, "message": message}
    containers = [{"name": "step", "state": {"terminated": ended}}]
    job_pod(bench, job, {"phase": "Failed", "containerStatuses": containers})
    end_job(bench, job, "Failed", "BackoffLimitExceeded")


def job_evicted(bench: Bench, job: Json) -> None:
    job_pod(bench, job, {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"})
    end_job(bench, job, "Failed", "BackoffLimitExceeded")


def job_pod_deleted(bench: Bench, job: Json) -> None:
    bench.store.remove(PODS, f"{job['metadata']['name']}-pod", NAMESPACE)
    end_job(bench, job, "Failed", "BackoffLimitExceeded")


def job_unschedulable(bench: Bench, job: Json) -> None:
    condition = _condition(bench, "PodScheduled", "False", "Unschedulable", "0 of 1 nodes have room")
    job_pod(bench, job, {"phase": "Pending", "conditions": [condition]})


def job_image_missing(bench: Bench, job: Json) -> None:
    waiting = {"reason": "ErrImageNeverPull", "message": "there is no image"}
    containers = [{"name": "step", "state": {"waiting": waiting}}]
    job_pod(bench, job, {"phase": "Pending", "containerStatuses": containers})


def job_node_lost(bench: Bench, job: Json, ago: int = 0) -> None:
    since = time_text(bench.now - seconds(ago))
    condition = _condition(bench, "Ready", "False", "NodeNotReady") | {"lastTransitionTime": since}
    job_pod(bench, job, {"phase": "Running", "conditions": [condition]})


def overdue(bench: Bench, job: Json) -> bool:
    since = parse_time(job["metadata"]["creationTimestamp"])
    return bench.now >= since + seconds(job["spec"].get("activeDeadlineSeconds", 10**9))


def job_times_out(bench: Bench, job: Json) -> None:
    end_job(bench, job, "Failed", "DeadlineExceeded")


def end_job(bench: Bench, job: Json, kind: str, reason: str = "") -> None:
    status = {"conditions": [_condition(bench, kind, "True", reason)]}
    bench.store.set_status(JOBS, job["metadata"]["name"], NAMESPACE, status)


def stuck(bench: Bench, job: Json) -> bool:
    """A Pod that does not get on by itself: the operator has to see to it."""
    pod = pod_of(bench, job)
    status = (pod or {}).get("status") or {}
    image = any("waiting" in each["state"] for each in status.get("containerStatuses") or ())
    return image or any(each.get("reason") == "NodeNotReady" for each in status.get("conditions") or ())


# ---- sessions


def session_status(bench: Bench, session: Json, kind: str, reason: str) -> None:
    """What the session's own workflow would write."""
    finished = kind in {"Failed", "Expired"}
    types = ("Progressing", "Failed", "Finished", "Ready", "Expired")
    holds = {kind, "Finished"} if finished else {kind}
    conditions = [_condition(bench, each, "True" if each in holds else "False", reason) for each in types]
    status = {"conditions": conditions, "observedGeneration": 1}
    bench.store.set_status(resource_of(session), session["metadata"]["name"], NAMESPACE, status)


def replica(bench: Bench, deployment: Json, status: Json) -> None:
    """A Pod of a Deployment, below its ReplicaSet."""
    name, labels = deployment["metadata"]["name"], deployment["spec"]["template"]["metadata"]["labels"]
    metadata = {
        "name": f"{name}-rs",
        "namespace": NAMESPACE,
        "labels": labels,
        "ownerReferences": [owner_reference(deployment)],
    }
    bench.store.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata})
    replicas = bench.find(REPLICA_SETS, f"{name}-rs", NAMESPACE)
    assert replicas is not None
    put_pod(bench, replicas, labels, status)


def replica_pod(bench: Bench, deployment: Json) -> Json | None:
    return bench.find(PODS, f"{deployment['metadata']['name']}-rs-pod", NAMESPACE)


def ready(bench: Bench, word: str = "True") -> Json:
    return {"phase": "Running", "conditions": [_condition(bench, "Ready", word)]}


def crash_looping(bench: Bench) -> Json:
    last = {"terminated": {"exitCode": 1, "message": "no model"}}
    container = {"name": "runner", "restartCount": 5, "state": {"waiting": {}}, "lastState": last}
    return {**ready(bench, "False"), "containerStatuses": [container]}


def bound_to_all(_: Bench) -> Json:
    return {"phase": "Failed", "reason": "BoundToAllAddresses", "message": "it listens on 0.0.0.0:8000"}


def init_failed_for_good(_: Bench) -> Json:
    ended = {"exitCode": 65, "message": '{"code": "DigestMismatch", "message": "model.onnx differs"}'}
    return {"phase": "Pending", "initContainerStatuses": [{"name": "fetch", "state": {"terminated": ended}}]}


def unschedulable(bench: Bench) -> Json:
    return {"phase": "Pending", "conditions": [_condition(bench, "PodScheduled", "False", "", "no room")]}


# ---- hands


def make_foreign(bench: Bench, resource: Resource, name: str, **metadata: Any) -> None:
    """An object of somebody else's; where ours has that name, in its place."""
    if bench.find(resource, name, NAMESPACE):
        bench.store.remove(resource, name, NAMESPACE)
    obj = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {FOREIGN: "yes"}, **metadata},
    }
    bench.store.put(obj, resource)


def is_foreign(obj: Json) -> bool:
    return FOREIGN in (obj["metadata"].get("annotations") or {})


def remove(bench: Bench, obj: Json) -> None:
    bench.store.remove(resource_of(obj), obj["metadata"]["name"], NAMESPACE)
    bench.cluster.collect()


def _condition(bench: Bench, kind: str, word: str, reason: str = "", message: str = "") -> Json:
    return {
        "type": kind,
        "status": word,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time_text(bench.now),
    }
