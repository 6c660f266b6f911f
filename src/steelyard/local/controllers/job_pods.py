"""Pods that a Job lacks, and those that it has too many of. `job.decide` is the only caller.

Names come from a fixed series per Job (and index): a create whose answer was lost is repeated under the same name and
meets the Pod that it made.
"""

from datetime import datetime
from itertools import islice

from steelyard.awake import pause_lasts
from steelyard.kube.pods import container_statuses, containers_of, is_ready, phase_of, terminated_state
from steelyard.local.controllers import pods as of
from steelyard.local.controllers.decision import MOST_PODS, parse_time
from steelyard.local.controllers.job_counts import FINALIZER, INDEX, Counts, completions, index_of, is_indexed
from steelyard.types import Json

FIRST_DELAY, LONGEST_DELAY = 10.0, 360.0  # seconds between a failure and the next Pod, doubling


def missing(
    job: Json, pods: list[Json], counts: Counts, now: datetime, taken: set[str], most: int
) -> tuple[list[Json], float | None]:
    """Return at most `most` Pods to make now, and the seconds until more may be made."""
    active = [pod for pod in pods if of.is_active(pod)]
    wanted = min(_wanted(job, counts, len(active)) - len(active), most)
    if wanted <= 0:
        return [], None
    delay = _delay(pods, counts.failed, now)
    if delay > 0:
        return [], delay
    names = taken | {pod["metadata"]["name"] for pod in pods}
    if not is_indexed(job):
        base = job["metadata"]["name"]
        free_names = of.free_names(base, job["metadata"]["uid"], names)
        return [_pod(job, name) for name in islice(free_names, wanted)], None
    held = {index_of(pod) for pod in active} | counts.indexes
    free = (index for index in range(completions(job) or 0) if index not in held)
    return [_indexed_pod(job, index, names) for index in islice(free, wanted)], None


def excess(job: Json, active: list[Json], counts: Counts) -> list[Json]:
    """Active Pods beyond what is wanted, the least far ones first; and second Pods of one index."""
    doubles, rest, seen = [], list(active), set(counts.indexes)
    if is_indexed(job):
        rest = []
        for pod in sorted(active, key=_age):
            index = index_of(pod)
            if index is None or index in seen:
                doubles.append(pod)
            else:
                seen.add(index)
                rest.append(pod)
    too_many = len(rest) - _wanted(job, counts, len(rest))
    return doubles + sorted(rest, key=_progress)[: max(too_many, 0)]


def _wanted(job: Json, counts: Counts, active: int) -> int:
    parallelism = job["spec"].get("parallelism")
    parallelism = min(1 if parallelism is None else int(parallelism), MOST_PODS)
    needed = completions(job)
    if needed is None:  # a work queue: once one has succeeded, the others end by themselves
        return min(active, parallelism) if counts.succeeded else parallelism
    return max(min(parallelism, needed - counts.succeeded), 0)


def _delay(pods: list[Json], failed: int, now: datetime) -> float:
    if not failed:
        return 0.0
    ends = [end for pod in pods if (end := _failed_at(pod)) is not None]
    if not ends:
        return 0.0
    wait = min(FIRST_DELAY * 2.0 ** min(failed - 1, 10), LONGEST_DELAY)
    return wait - (now - max(ends)).total_seconds() if pause_lasts(max(ends), wait, now) else 0.0


def _failed_at(pod: Json) -> datetime | None:
    if phase_of(pod) != "Failed":
        return None
    ends = [
        ended["finishedAt"]
        for container_status in container_statuses(pod)
        if (ended := terminated_state(container_status)) and ended.get("finishedAt")
    ]
    return parse_time(max(ends)) if ends else None


def _age(pod: Json) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _progress(pod: Json) -> tuple[bool, bool, str]:
    return phase_of(pod) == "Running", is_ready(pod), pod["metadata"]["name"]


def _labels(job: Json) -> Json:
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _pod(job: Json, name: str) -> Json:
    return of.pod_from_template(job, name, labels=_labels(job), finalizers=[FINALIZER])


def _indexed_pod(job: Json, index: int, names: set[str]) -> Json:
    base = f"{job['metadata']['name'][:50]}-{index}"
    pod = _pod(job, of.free_name(base, job["metadata"]["uid"], names))
    pod["metadata"].setdefault("annotations", {})[INDEX] = str(index)
    pod["metadata"]["labels"][INDEX] = str(index)
    pod["spec"].setdefault("hostname", base)
    field = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    for container in containers_of(pod["spec"]):
        container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": field})
    return pod
