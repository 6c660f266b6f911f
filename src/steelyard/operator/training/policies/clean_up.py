"""Deletion of a finished job's Pods, and of the job itself after its time to live."""

from datetime import datetime
from typing import NamedTuple

from steelyard.operator.children import Children
from steelyard.operator.training import conditions
from steelyard.operator.training.model import CleanPods, TrainingJob
from steelyard.operator.training.policies import back_off, deadline
from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting
from steelyard_kube.pods import read_phase

_LIVE = frozenset({"Pending", "Running", "Unknown"})


class CleanUp(NamedTuple):
    """Objects to delete, whether the job itself goes now, and when to decide that again."""

    delete: tuple[Json, ...]
    delete_resource: bool = False
    requeue_at: datetime | None = None


def clean_up_finished(job: TrainingJob, children: Children, now: datetime) -> CleanUp:
    """Decide by `cleanPodPolicy` and `ttlSecondsAfterFinished`. PodGroup and autoscaler are deleted in any case."""
    always = (*children.list_kind("PodGroup"), *children.list_kind("HorizontalPodAutoscaler"))
    delete = (*_pods_and_services(job, children), *(obj for obj in always if not is_deleting(obj)))
    if job.policy.ttl is None or job.status.completed is None:
        return CleanUp(delete)
    end = deadline.later(job.status.completed, job.policy.ttl)
    over = end is not None and now >= end
    return CleanUp(delete, over, None if over else end)


def clean_up_suspended(job: TrainingJob, children: Children) -> tuple[Json, ...]:
    """Return the objects to delete of a suspended job: Pods, and the objects that are created again when the job
    resumes."""
    kinds = ("Service", "PodGroup", "HorizontalPodAutoscaler")
    objects = (obj for kind in kinds for obj in children.list_kind(kind))
    return tuple(obj for obj in (*children.list_pods(job.resource), *objects) if not is_deleting(obj))


def _pods_and_services(job: TrainingJob, children: Children) -> tuple[Json, ...]:
    services, own = children.list_kind("Service"), children.list_pods(job.resource)
    match _clean_pod_policy(job):
        case "All":
            delete: tuple[Json, ...] = (*own, *services)
        case "Running":
            pods = tuple(pod for pod in own if read_phase(pod) in _LIVE)
            names = {pod["metadata"]["name"] for pod in pods}
            delete = (*pods, *(service for service in services if service["metadata"]["name"] in names))
        case _:
            delete = ()
    return tuple(obj for obj in delete if not is_deleting(obj))


def _clean_pod_policy(job: TrainingJob) -> CleanPods:
    """Return the job's own policy, except for a failed job whose Pods would run on for nothing.

    Pods end after a deadline or too many restarts. Pods that wait for a replica that has failed end as well, unless
    the job itself gives the policy None; v1 would let them hold their GPUs.
    """
    if job.policy.clean_pods != "None" or not conditions.holds(job.status.conditions, "Failed"):
        return job.policy.clean_pods
    stopped = {deadline.message(job), back_off.message(job)}
    was_stopped = any(condition["message"] in stopped for condition in job.status.conditions)
    return "Running" if was_stopped or not job.policy.clean_pods_given else "None"
