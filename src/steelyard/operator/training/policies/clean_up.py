"""What becomes of a finished job's Pods, and when the job itself goes."""

from datetime import datetime
from typing import NamedTuple

from steelyard.operator.children import Children
from steelyard.operator.training import status
from steelyard.operator.training.model import CleanPods, TrainingJob
from steelyard.operator.training.policies import back_off, deadline
from steelyard.types import Json

_LIVE = frozenset({"Pending", "Running", "Unknown"})


class CleanUp(NamedTuple):
    delete: tuple[Json, ...]
    delete_resource: bool = False
    requeue_at: datetime | None = None


def finished(job: TrainingJob, children: Children, now: datetime) -> CleanUp:
    """By `cleanPodPolicy` and `ttlSecondsAfterFinished`. A PodGroup and an autoscaler go in any case."""
    delete = (*_pods_and_services(job, children), *_always(children))
    if job.policy.ttl is None or job.memory.completed is None:
        return CleanUp(delete)
    end = deadline.later(job.memory.completed, job.policy.ttl)
    over = end is not None and now >= end
    return CleanUp(delete, over, None if over else end)


def everything(job: TrainingJob, children: Children) -> tuple[Json, ...]:
    """Of a suspended job nothing stays that takes room: what else it has is made again or does no harm."""
    kinds = ("Service", "PodGroup", "HorizontalPodAutoscaler")
    objects = (each for kind in kinds for each in children.of_kind(kind))
    return tuple(each for each in (*children.pods_of(job.resource), *objects) if not _going(each))


def _always(children: Children) -> tuple[Json, ...]:
    groups = (*children.of_kind("PodGroup"), *children.of_kind("HorizontalPodAutoscaler"))
    return tuple(each for each in groups if not _going(each))


def _pods_and_services(job: TrainingJob, children: Children) -> tuple[Json, ...]:
    services, own = children.of_kind("Service"), children.pods_of(job.resource)
    match _policy(job):
        case "All":
            going: tuple[Json, ...] = (*own, *services)
        case "Running":
            pods = tuple(pod for pod in own if _phase(pod) in _LIVE)
            names = {pod["metadata"]["name"] for pod in pods}
            going = (*pods, *(each for each in services if each["metadata"]["name"] in names))
        case _:
            going = ()
    return tuple(each for each in going if not _going(each))


def _policy(job: TrainingJob) -> CleanPods:
    """As the job says; but what had to be stopped does not go on running: a deadline, a limit of restarts. Nor does
    what waits for a replica that has failed, unless the job says itself that it should: v1 lets it hold its GPUs.
    """
    if job.policy.clean_pods != "None" or not status.holds(job.memory.conditions, "Failed"):
        return job.policy.clean_pods
    stopped = {deadline.message(job), back_off.message(job)}
    had_to_be = any(each["message"] in stopped for each in job.memory.conditions)
    return "Running" if had_to_be or not job.policy.clean_pods_said else "None"


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _going(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
