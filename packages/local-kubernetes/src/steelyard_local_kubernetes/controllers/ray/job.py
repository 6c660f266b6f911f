"""The RayJob controller's decision: a cluster, made or chosen, a submission to it, and its outcome.

The states are those of KubeRay 1.4. `sync.py` calls `decide` with the RayJob, then its RayCluster and its submitter's
Job as they are stored, and what the head says of the submission (`dashboard.py`).
"""

from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime

from steelyard_common.types import Json, mapping
from steelyard_kube.objects import is_deleting, read_annotations, read_labels, read_status
from steelyard_kube.times import format_time
from steelyard_local_kubernetes.controllers.decision import Decision, Event, seconds_until
from steelyard_local_kubernetes.controllers.pods import is_true, make_condition, owner_reference, suffix
from steelyard_local_kubernetes.controllers.ray import names
from steelyard_local_kubernetes.controllers.ray.submitter import submitter_job

POLL_SECONDS = 2.0
LOG_SECONDS = 30.0  # after the program's end, for the rest of its log
SUBMISSION = "RayJobInfo"  # the kind of what the head says
ENDED = ("Complete", "Failed")
_ORIGIN, _ORIGIN_KIND = "ray.io/originated-from-cr-name", "ray.io/originated-from-crd"
_RESET = (
    "jobId",
    "jobStatus",
    "rayClusterName",
    "rayClusterStatus",
    "dashboardURL",
    "reason",
    "message",
    "rayJobInfo",
)


@dataclass(frozen=True)
class JobObjects:
    """The job's own objects, and what the head says."""

    cluster: Json | None
    submitter: Json | None
    info: Json


def labels(job: Json) -> Json:
    """Return the labels of the clusters that are made for the job."""
    return {_ORIGIN: job["metadata"]["name"], _ORIGIN_KIND: "RayJob"}


def is_chosen(job: Json, cluster: Json) -> bool:
    """Return whether the job's selector names the cluster."""
    selector = mapping(job["spec"], "clusterSelector")
    return bool(selector) and selector.get(names.CLUSTER) == cluster["metadata"]["name"]


def decide(job: Json, children: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `job`. `taken`: names that belong to other objects."""
    if is_deleting(job) or names.is_managed_elsewhere(job):
        return Decision()
    observed = _sort_children(children)
    state = str(read_status(job).get("jobDeploymentStatus") or "")
    if state in ("", "New", "Initializing") and (fault := invalid(job)):
        return _transition(job, now, "ValidationFailed", reason="ValidationFailed", message=fault)
    suspend = bool(job["spec"].get("suspend"))
    decision = Decision()
    match state:
        case "" | "New":
            decision = _transition(job, now, "Suspended") if suspend else _begin(job, now)
        case "Suspended" if not suspend:
            decision = _transition(job, now, "")
        case "Suspending" | "Retrying":
            decision = _clear(job, observed, now, "Suspended" if state == "Suspending" else "")
        case "Initializing" | "Running" | "Waiting" if suspend:
            decision = _transition(job, now, "Suspending")
        case "Initializing":
            decision = _initialize(job, observed, now, taken or set())
        case "Running" | "Waiting":
            decision = _follow(job, observed, now)
        case "Complete" | "Failed":
            decision = _shut_down(job, observed, now)
    return decision


def invalid(job: Json) -> str:
    """Return what is wrong with the specification; empty where nothing is."""
    spec = job["spec"]
    chosen, has_spec = bool(mapping(spec, "clusterSelector")), bool(mapping(spec, "rayClusterSpec"))
    if not (chosen or has_spec):
        return "one of RayClusterSpec or ClusterSelector must be set"
    if chosen and spec.get("suspend"):
        return "the ClusterSelector mode doesn't support the suspend operation"
    if chosen and spec.get("shutdownAfterJobFinishes"):
        return "the ClusterSelector mode doesn't support ShutdownAfterJobFinishes"
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if int(spec.get("ttlSecondsAfterFinished") or 0) and not spec.get("shutdownAfterJobFinishes"):
        return "a RayJob with shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished"
    if not spec.get("entrypoint") and spec.get("submissionMode") != "InteractiveMode":
        return "entrypoint is required"
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and int(seconds) <= 0:
        return "activeDeadlineSeconds must be a positive integer"
    return ""


def _sort_children(children: list[Json]) -> JobObjects:
    kinds: dict[str, Json] = {}
    for child in children:
        kinds.setdefault(child["kind"], child)
    return JobObjects(kinds.get("RayCluster"), kinds.get("Job"), mapping(kinds.get(SUBMISSION), "info"))


def _status_with(job: Json, **fields: object) -> Json:
    status = {**read_status(job), "observedGeneration": job["metadata"].get("generation", 1), **fields}
    return {key: value for key, value in status.items() if value is not None}


def _transition(job: Json, now: datetime, state: str, **fields: object) -> Decision:
    """Return the decision that writes another state."""
    status = _status_with(job, jobDeploymentStatus=state, **fields)
    if state in (*ENDED, "ValidationFailed"):
        status.setdefault("endTime", format_time(now))
    return Decision(status=status if status != read_status(job) else None)


def _begin(job: Json, now: datetime) -> Decision:
    """Name the submission and the cluster before anything is made: both are found again by their names."""
    metadata, failed = job["metadata"], read_status(job).get("failed", 0)
    mark = suffix(metadata["uid"], failed, read_status(job).get("observedGeneration", 0))
    chosen = mapping(job["spec"], "clusterSelector").get(names.CLUSTER)
    name = chosen or f"{metadata['name'][:40]}-{mark}"
    job_id = job["spec"].get("jobId") or f"{metadata['name']}-{mark}"
    status = _status_with(
        job,
        jobId=job_id,
        rayClusterName=name,
        startTime=format_time(now),
        jobDeploymentStatus="Initializing",
        endTime=None,
    )
    return Decision(status=status)


def _initialize(job: Json, observed: JobObjects, now: datetime, taken: set[str]) -> Decision:
    if (ended := _deadline(job, now)) is not None:
        return ended
    cluster, status = observed.cluster, read_status(job)
    left = _deadline_in(job, now)
    if cluster is None:
        name = status["rayClusterName"]
        if mapping(job["spec"], "clusterSelector"):
            message = f"RayCluster {name} that clusterSelector names is not there"
            return Decision(
                events=(Event("RayClusterNotFound", message, "Warning"),), requeue_after=_next_poll(left)
            )
        if name in taken:
            return _transition(
                job, now, "Failed", reason="FailedCreate", message=f"RayCluster {name} belongs to another"
            )
        return Decision(create=(_cluster(job, name),), requeue_after=left)
    seen = _status_with(job, rayClusterStatus=read_status(cluster))
    written = seen if seen != status else None
    if read_status(cluster).get("state") != "ready":
        return Decision(status=written, requeue_after=left if written is None else None)
    url = f"{names.head_host(cluster)}:{names.DASHBOARD_PORT}"
    mode = job["spec"].get("submissionMode") or "K8sJobMode"
    if mode == "K8sJobMode" and observed.submitter is None:
        # The address goes into the status first: the submitter's program has it from there.
        if status.get("dashboardURL") != url:
            return Decision(status={**seen, "dashboardURL": url})
        return Decision(status=written, create=(submitter_job(job, cluster, labels(job)),))
    state = "Waiting" if mode == "InteractiveMode" and not job["spec"].get("jobId") else "Running"
    return Decision(
        status={**seen, "dashboardURL": url, "jobDeploymentStatus": state}, requeue_after=POLL_SECONDS
    )


def _cluster(job: Json, name: str) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "labels": {**_annotations_for_cluster(read_labels(job)), **labels(job)},
            "annotations": _annotations_for_cluster(read_annotations(job)),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": deepcopy(job["spec"]["rayClusterSpec"]),
    }


def _annotations_for_cluster(pairs: Json) -> Json:
    """Return what the cluster takes over: not the queue, in which the job itself stands."""
    return {key: value for key, value in pairs.items() if not key.startswith(("kueue.x-k8s.io/", "kubectl."))}


def _follow(job: Json, observed: JobObjects, now: datetime) -> Decision:
    """Follow the submission by what the head says, then by the state of the submitter."""
    info, submitter = observed.info, observed.submitter
    job_status = str(info.get("status") or "")
    fields: Json = {}
    if job_status:
        times = {"startTime": _time(info.get("start_time")), "endTime": _time(info.get("end_time"))}
        fields = {"jobStatus": job_status, "message": info.get("message") or None}
        fields["rayJobInfo"] = {key: value for key, value in times.items() if value}
    if job_status in ("SUCCEEDED", "STOPPED", "FAILED") and _is_writing(submitter, info, now):
        return Decision(requeue_after=_next_poll(_deadline_in(job, now)))
    if job_status in ("SUCCEEDED", "STOPPED"):
        count = int(read_status(job).get("succeeded") or 0) + (job_status == "SUCCEEDED")
        return _transition(job, now, "Complete", **{**fields, "succeeded": count})
    if job_status == "FAILED":
        return _fail(job, now, "AppFailed", fields)
    if (ended := _deadline(job, now, fields)) is not None:
        return ended
    if submitter is not None and is_true(submitter, "Failed"):
        reason = (make_condition(submitter, "Failed") or {}).get("reason", "")
        message = f"The submitter's Job has failed: {reason}"
        return _fail(job, now, "SubmissionFailed", {**fields, "message": message})
    status = _status_with(job, **fields)
    return Decision(
        status=status if status != read_status(job) else None,
        requeue_after=_next_poll(_deadline_in(job, now)),
    )


def _is_writing(submitter: Json | None, info: Json, now: datetime) -> bool:
    """Return whether the submitter still writes the log of a program that has ended.

    The submitter reads the log from the head: with the cluster, the last lines would be lost.
    """
    if submitter is None or is_deleting(submitter) or not info.get("end_time"):
        return False
    status = read_status(submitter)
    ended = not status.get("active") and (status.get("succeeded") or status.get("failed"))
    return not ended and now.timestamp() < info["end_time"] / 1000 + LOG_SECONDS


def _fail(job: Json, now: datetime, reason: str, fields: Json) -> Decision:
    """End the job, or try again while `backoffLimit` allows it."""
    failed = int(read_status(job).get("failed") or 0) + 1
    again = reason != "DeadlineExceeded" and failed <= int(job["spec"].get("backoffLimit") or 0)
    return _transition(
        job, now, "Retrying" if again else "Failed", **{**fields, "reason": reason, "failed": failed}
    )


def _deadline(job: Json, now: datetime, fields: Json | None = None) -> Decision | None:
    left = _deadline_in(job, now)
    if left is None or left > 0:
        return None
    message = "The RayJob has passed the activeDeadlineSeconds. StartTime: " + read_status(job)["startTime"]
    return _fail(job, now, "DeadlineExceeded", {**(fields or {}), "message": message})


def _deadline_in(job: Json, now: datetime) -> float | None:
    seconds, started = job["spec"].get("activeDeadlineSeconds"), read_status(job).get("startTime")
    return None if seconds is None or started is None else seconds_until(started, float(seconds), now)


def _next_poll(left: float | None) -> float:
    return POLL_SECONDS if left is None else min(left, POLL_SECONDS)


def _clear(job: Json, observed: JobObjects, now: datetime, state: str) -> Decision:
    """Remove the job's objects; once they are gone, forget them."""
    leftovers = [
        obj for obj in (observed.cluster, observed.submitter) if obj is not None and not is_chosen(job, obj)
    ]
    if leftovers:
        return Decision(delete=tuple(obj for obj in leftovers if not is_deleting(obj)))
    # An emptied field stays in the status as KubeRay leaves it: not there.
    return _transition(job, now, state, **dict.fromkeys(_RESET))


def _shut_down(job: Json, observed: JobObjects, now: datetime) -> Decision:
    """Remove the cluster of a job that has ended, after its time to live."""
    cluster = observed.cluster
    requested = job["spec"].get("shutdownAfterJobFinishes") and not mapping(job["spec"], "clusterSelector")
    if not requested or cluster is None or is_deleting(cluster):
        return Decision()
    left = seconds_until(
        read_status(job)["endTime"], float(job["spec"].get("ttlSecondsAfterFinished") or 0), now
    )
    return Decision(requeue_after=left) if left > 0 else Decision(delete=(cluster,))


def _time(milliseconds: object) -> str | None:
    if not isinstance(milliseconds, int) or not milliseconds:
        return None
    return format_time(datetime.fromtimestamp(milliseconds / 1000, UTC))
