"""Events around the operator in the exploration: Jobs and their Pods, sessions, and people.

Each function does one thing to the objects of a `Simulator`, as a controller, a kubelet or a person would.
"""

from typing import Any

from steelyard.operator.children import live
from steelyard.operator.names import owner_reference
from steelyard.operator.simulation.resources import NAMESPACE
from steelyard.operator.simulation.simulator import Simulator, seconds
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import find_controller, read_annotations, read_status
from steelyard_kube.resource import JOBS, PODS, REPLICA_SETS, Resource, find_resource
from steelyard_kube.times import format_time, parse_time

FOREIGN = "somebody-elses"


def jobs(simulator: Simulator) -> list[Json]:
    """The Jobs that have a controller: a Job without one belongs to another project."""
    return [job for job in simulator.objects(JOBS) if live(job) and find_controller(job)]


def find_pod(simulator: Simulator, owner: Json) -> Json | None:
    return simulator.find(PODS, f"{owner['metadata']['name']}-pod", NAMESPACE)


def put_pod(simulator: Simulator, owner: Json, labels: Json, status: Json) -> None:
    metadata = {
        "name": f"{owner['metadata']['name']}-pod",
        "namespace": NAMESPACE,
        "labels": labels,
        "ownerReferences": [owner_reference(owner)],
    }
    simulator.store.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})


def job_pod(simulator: Simulator, job: Json, status: Json) -> None:
    put_pod(simulator, job, job["spec"]["template"]["metadata"]["labels"], status)


def pod_runs(simulator: Simulator, job: Json) -> None:
    job_pod(simulator, job, {"phase": "Running", "conditions": [_condition(simulator, "Ready", "True")]})


def job_succeeds(simulator: Simulator, job: Json) -> None:
    job_pod(simulator, job, {"phase": "Succeeded"})
    end_job(simulator, job, "Complete")


def job_fails(simulator: Simulator, job: Json, exit_code: int, message: str, reason: str = "Error") -> None:
    ended = {"exitCode": exit_code, "reason": reason, "message": message}
    containers = [{"name": "step", "state": {"terminated": ended}}]
    job_pod(simulator, job, {"phase": "Failed", "containerStatuses": containers})
    end_job(simulator, job, "Failed", "BackoffLimitExceeded")


def job_evicted(simulator: Simulator, job: Json) -> None:
    job_pod(simulator, job, {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"})
    end_job(simulator, job, "Failed", "BackoffLimitExceeded")


def job_pod_deleted(simulator: Simulator, job: Json) -> None:
    simulator.store.remove(PODS, f"{job['metadata']['name']}-pod", NAMESPACE)
    end_job(simulator, job, "Failed", "BackoffLimitExceeded")


def job_unschedulable(simulator: Simulator, job: Json) -> None:
    condition = _condition(simulator, "PodScheduled", "False", "Unschedulable", "0 of 1 nodes have room")
    job_pod(simulator, job, {"phase": "Pending", "conditions": [condition]})


def job_image_missing(simulator: Simulator, job: Json) -> None:
    waiting = {"reason": "ErrImageNeverPull", "message": "there is no image"}
    containers = [{"name": "step", "state": {"waiting": waiting}}]
    job_pod(simulator, job, {"phase": "Pending", "containerStatuses": containers})


def job_node_lost(simulator: Simulator, job: Json, ago: int = 0) -> None:
    since = format_time(simulator.now - seconds(ago))
    condition = _condition(simulator, "Ready", "False", "NodeNotReady") | {"lastTransitionTime": since}
    job_pod(simulator, job, {"phase": "Running", "conditions": [condition]})


def overdue(simulator: Simulator, job: Json) -> bool:
    since = parse_time(job["metadata"]["creationTimestamp"])
    return simulator.now >= since + seconds(job["spec"].get("activeDeadlineSeconds", 10**9))


def job_times_out(simulator: Simulator, job: Json) -> None:
    end_job(simulator, job, "Failed", "DeadlineExceeded")


def end_job(simulator: Simulator, job: Json, kind: str, reason: str = "") -> None:
    status = {"conditions": [_condition(simulator, kind, "True", reason)]}
    simulator.store.set_status(JOBS, job["metadata"]["name"], NAMESPACE, status)


def stuck(simulator: Simulator, job: Json) -> bool:
    """A Pod that does not get on by itself: the operator has to see to it."""
    pod = find_pod(simulator, job)
    status = read_status(pod)
    image = any("waiting" in container["state"] for container in sequence(status, "containerStatuses"))
    return image or any(
        condition.get("reason") == "NodeNotReady" for condition in sequence(status, "conditions")
    )


# ---- sessions


def session_status(simulator: Simulator, session: Json, kind: str, reason: str) -> None:
    """Write the status that the session's own workflow would write."""
    finished = kind in {"Failed", "Expired"}
    types = ("Progressing", "Failed", "Finished", "Ready", "Expired")
    holds = {kind, "Finished"} if finished else {kind}
    conditions = [_condition(simulator, type, "True" if type in holds else "False", reason) for type in types]
    status = {"conditions": conditions, "observedGeneration": 1}
    simulator.store.set_status(find_resource(session), session["metadata"]["name"], NAMESPACE, status)


def replica(simulator: Simulator, deployment: Json, status: Json) -> None:
    """A Pod of a Deployment, below its ReplicaSet."""
    name, labels = deployment["metadata"]["name"], deployment["spec"]["template"]["metadata"]["labels"]
    metadata = {
        "name": f"{name}-rs",
        "namespace": NAMESPACE,
        "labels": labels,
        "ownerReferences": [owner_reference(deployment)],
    }
    simulator.store.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata})
    replicas = simulator.find(REPLICA_SETS, f"{name}-rs", NAMESPACE)
    assert replicas is not None
    put_pod(simulator, replicas, labels, status)


def replica_pod(simulator: Simulator, deployment: Json) -> Json | None:
    return simulator.find(PODS, f"{deployment['metadata']['name']}-rs-pod", NAMESPACE)


def ready(simulator: Simulator, word: str = "True") -> Json:
    return {"phase": "Running", "conditions": [_condition(simulator, "Ready", word)]}


def crash_looping(simulator: Simulator) -> Json:
    last = {"terminated": {"exitCode": 1, "message": "no model"}}
    container = {"name": "runner", "restartCount": 5, "state": {"waiting": {}}, "lastState": last}
    return {**ready(simulator, "False"), "containerStatuses": [container]}


def bind_to_all(_: Simulator) -> Json:
    return {"phase": "Failed", "reason": "BoundToAllAddresses", "message": "it listens on 0.0.0.0:8000"}


def init_failed_for_good(_: Simulator) -> Json:
    ended = {"exitCode": 65, "message": '{"code": "DigestMismatch", "message": "model.onnx differs"}'}
    return {"phase": "Pending", "initContainerStatuses": [{"name": "fetch", "state": {"terminated": ended}}]}


def unschedulable(simulator: Simulator) -> Json:
    return {"phase": "Pending", "conditions": [_condition(simulator, "PodScheduled", "False", "", "no room")]}


# ---- hands


def make_foreign(simulator: Simulator, resource: Resource, name: str, **metadata: Any) -> None:
    """An object of another project; where ours has that name, in its place."""
    if simulator.find(resource, name, NAMESPACE):
        simulator.store.remove(resource, name, NAMESPACE)
    obj = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {FOREIGN: "yes"}, **metadata},
    }
    simulator.store.put(obj, resource)


def is_foreign(obj: Json) -> bool:
    return FOREIGN in read_annotations(obj)


def remove(simulator: Simulator, obj: Json) -> None:
    simulator.store.remove(find_resource(obj), obj["metadata"]["name"], NAMESPACE)
    simulator.cluster.collect()


def _condition(simulator: Simulator, kind: str, word: str, reason: str = "", message: str = "") -> Json:
    return {
        "type": kind,
        "status": word,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(simulator.now),
    }
