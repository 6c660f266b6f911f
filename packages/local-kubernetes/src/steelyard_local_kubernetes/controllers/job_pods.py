"""Pods that a Job lacks, and those that it has too many of. `job.decide` is the only caller.

Names come from a series per version of the Job (and index): a create whose answer was lost is repeated under the same
name and meets the Pod that it made, and no Pod gets the name of one that is gone.
"""

from datetime import datetime
from itertools import islice

from steelyard_common.awake import pause_lasts
from steelyard_common.backoff import backoff_seconds
from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting
from steelyard_kube.pods import is_ready, list_containers, read_phase
from steelyard_local_kubernetes.controllers import job_policies as policies
from steelyard_local_kubernetes.controllers.decision import most_pods
from steelyard_local_kubernetes.controllers.job_counts import FINALIZER, Counts, completions
from steelyard_local_kubernetes.controllers.job_policies import INDEX
from steelyard_local_kubernetes.controllers.pods import (
    choose_free_names,
    free_name,
    is_active,
    name_series,
    pod_from_template,
)

FIRST_DELAY, LONGEST_DELAY = 10.0, 600.0  # seconds between a failure and the next Pod, doubling
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def missing(
    job: Json, pods: list[Json], counts: Counts, now: datetime, taken: set[str], most: int
) -> tuple[list[Json], float | None]:
    """Return at most `most` Pods to make now, and the seconds until more may be made."""
    active = [pod for pod in pods if is_active(pod)]
    ending = [pod for pod in pods if _is_awaited(job, pod)]
    count = min(_active_count(job, counts, len(active)) - len(active) - len(ending), most)
    if count <= 0:
        return [], None
    per_index = policies.limit_per_index(job) is not None
    delay = 0.0 if per_index else _delay(pods, counts.failed, now)
    if delay > 0:
        return [], delay
    names = taken | {pod["metadata"]["name"] for pod in pods}
    if not policies.is_indexed(job):
        base = job["metadata"]["name"]
        free_names = choose_free_names(base, name_series(job), names)
        return [_pod(job, name) for name in islice(free_names, count)], None
    held = {policies.pod_index(pod) for pod in (*active, *ending)} | counts.indexes
    held |= counts.failed_indexes or frozenset()
    free = islice((index for index in range(completions(job) or 0) if index not in held), count)
    if not per_index:
        return [_pod_at_index(job, index, names) for index in free], None
    delays = {index: _delay_of_index(counts.replaceable.get(index), now) for index in free}
    due = [index for index, left in delays.items() if left <= 0]
    created = [_pod_at_index(job, index, names, counts) for index in due]
    return created, min((left for left in delays.values() if left > 0), default=None)


def _is_awaited(job: Json, pod: Json) -> bool:
    """Return whether a Pod that is being deleted keeps its place until it has ended."""
    return policies.replaces_only_failed(job) and is_deleting(pod) and not policies.has_ended(pod, job)


def excess(job: Json, active: list[Json], counts: Counts) -> list[Json]:
    """Active Pods beyond the desired number, those with the least progress first; and second Pods of one index."""
    doubles, rest, seen = [], list(active), set(counts.indexes)
    if policies.is_indexed(job):
        rest = []
        for pod in sorted(active, key=_age):
            index = policies.pod_index(pod)
            if index is None or index in seen:
                doubles.append(pod)
            else:
                seen.add(index)
                rest.append(pod)
    too_many = len(rest) - _active_count(job, counts, len(rest))
    return doubles + sorted(rest, key=_progress)[: max(too_many, 0)]


def _active_count(job: Json, counts: Counts, active: int) -> int:
    parallelism = job["spec"].get("parallelism")
    parallelism = min(1 if parallelism is None else int(parallelism), most_pods(job["spec"]["template"]))
    needed = completions(job)
    if needed is None:  # a work queue: once one has succeeded, the others end by themselves
        return min(active, parallelism) if counts.succeeded else parallelism
    return max(min(parallelism, needed - counts.succeeded), 0)


def _delay(pods: list[Json], failed: int, now: datetime) -> float:
    """Seconds until a Pod may take the place of a failed one; a success in between restarts the series."""
    ends = [end for pod in pods if (end := policies.failure_time(pod)) is not None]
    successes = [end for pod in pods if (end := policies.success_time(pod)) is not None]
    if successes:
        ends = [end for end in ends if end > max(successes)]
    return (
        _remaining_wait(len(ends) if successes else max(failed, len(ends)), max(ends), now) if ends else 0.0
    )


def _delay_of_index(replaced: Json | None, now: datetime) -> float:
    end = policies.failure_time(replaced) if replaced else None
    return _remaining_wait(policies.failures_before(replaced) + 1, end, now) if replaced and end else 0.0


def _remaining_wait(failures: int, end: datetime, now: datetime) -> float:
    wait = backoff_seconds(failures, FIRST_DELAY, LONGEST_DELAY)
    return wait - (now - end).total_seconds() if pause_lasts(end, wait, now) else 0.0


def _age(pod: Json) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _progress(pod: Json) -> tuple[bool, bool, str]:
    return read_phase(pod) == "Running", is_ready(pod), pod["metadata"]["name"]


def _labels(job: Json) -> Json:
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _pod(job: Json, name: str) -> Json:
    return pod_from_template(job, name, labels=_labels(job), finalizers=[FINALIZER])


def _pod_at_index(job: Json, index: int, names: set[str], counts: Counts | None = None) -> Json:
    base = f"{job['metadata']['name'][:50]}-{index}"
    pod = _pod(job, free_name(base, name_series(job), names))
    annotations = pod["metadata"].setdefault("annotations", {})
    annotations[INDEX] = str(index)
    if counts is not None:
        annotations |= policies.failure_annotations(job, counts.replaceable.get(index))
    pod["metadata"]["labels"][INDEX] = str(index)
    pod["spec"]["hostname"] = f"{job['metadata']['name']}-{index}"
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    for container in list_containers(pod["spec"]):
        env = container.setdefault("env", [])
        if not any(variable["name"] == INDEX_VARIABLE for variable in env):
            env.append({"name": INDEX_VARIABLE, "valueFrom": field})
    return pod
