"""The Job controller's decision: which Pods a Job should have, and what its status says.

`sync.py` reads the Job and then its Pods, calls `decide` until it wants nothing more, and carries out each answer.
Conditions, reasons and counts are those of Kubernetes 1.31 and later: SuccessCriteriaMet and FailureTarget come
first, Complete and Failed once no Pod is left running. A Job whose `managedBy` names another controller is left to it.
"""

from dataclasses import dataclass
from datetime import datetime

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import is_deleting, read_conditions, read_status
from steelyard_kube.pods import is_ready, is_terminal
from steelyard_kube.times import format_time
from steelyard_local_kubernetes.controllers import job_policies as policies
from steelyard_local_kubernetes.controllers.decision import (
    Decision,
    Event,
    batch,
    seconds_until,
    with_condition,
)
from steelyard_local_kubernetes.controllers.job_counts import (
    Counts,
    completions,
    count,
    is_tracked,
    readiness_delay,
    without_finalizer,
)
from steelyard_local_kubernetes.controllers.job_pods import excess, missing
from steelyard_local_kubernetes.controllers.job_policies import is_indexed, is_suspended
from steelyard_local_kubernetes.controllers.pods import is_active, is_true, make_condition

MANAGER = "kubernetes.io/job-controller"


@dataclass(frozen=True)
class Verdict:
    """The reason why a Job is to end, before its Pods have ended."""

    condition: str  # SuccessCriteriaMet or FailureTarget
    reason: str
    message: str


def decide(job: Json, pods: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `job`, whose own Pods are `pods`. `taken`: Pod names that belong to other
    objects.
    """
    if job["spec"].get("managedBy") not in (None, "", MANAGER):
        return Decision()
    counts = count(job, pods)
    few = batch(len(pods))
    release = tuple((pod, without_finalizer(pod)) for pod in counts.release)
    if job["metadata"].get("deletionTimestamp") or is_finished(job):
        # Nothing is counted any more, but no Pod may be held back by a finalizer that no controller would remove.
        extra = tuple(pod for pod in pods if is_active(pod)) if is_finished(job) else ()
        more = max(len(extra), len(release)) > few
        expiry = expires_in(job, now)
        expired = (job,) if expiry is not None and expiry <= 0 and not more else ()
        return Decision(
            patch=release[:few], delete=extra[:few] + expired, requeue_after=_soonest(expiry), more=more
        )
    active = [pod for pod in pods if is_active(pod)]
    verdict = _verdict(job, pods, counts, active, now)
    status = _status(job, pods, counts, verdict, now)
    changed = status if status != read_status(job) else None
    more, events = len(release) > few, _events(job, status)
    if verdict is not None and verdict.condition == "FailureTarget":
        # They count as failed: their finalizers stay until that is in the status.
        return Decision(
            status=changed, delete=tuple(active[:few]), patch=release[:few], events=events,
            more=more or len(active) > few,
        )  # fmt: skip
    if verdict is None and not is_suspended(job):
        create, wait = missing(job, pods, counts, now, taken or set(), few)
        surplus = excess(job, active, counts)
    else:
        create, wait, surplus = [], None, active
    delay = readiness_delay(job, status, active, now)
    # Pods that are not needed any more count neither as succeeded nor as failed.
    uncounted = tuple((pod, without_finalizer(pod)) for pod in surplus[:few] if is_tracked(pod))
    more = more or len(create) == few or len(surplus) > few
    return Decision(
        status=changed if delay is None else None,
        # While an end is being counted no Pod is added: the number of failures decides whether one may be.
        create=tuple(create) if counts.settled else (),
        delete=tuple(surplus[:few]),
        patch=release[:few] + uncounted,
        more=more,
        events=events,
        children_first=bool(create) and counts.settled and not events and not more,
        # A deadline that is over has been judged: only the watches can show something new.
        requeue_after=_soonest(wait, delay, _deadline_in(job, now) if verdict is None else None),
    )


def claims_pods(job: Json) -> bool:
    """Return whether Pods are adopted and released for the Job."""
    return job["spec"].get("managedBy") in (None, "", MANAGER) and not is_finished(job)


def is_finished(job: Json) -> bool:
    """Return whether the Job is Complete or Failed."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def _verdict(
    job: Json, pods: list[Json], counts: Counts, active: list[Json], now: datetime
) -> Verdict | None:
    for kind in ("FailureTarget", "SuccessCriteriaMet"):  # once said, it stands
        said = make_condition(job, kind)
        if said and said["status"] == "True":
            return Verdict(kind, said.get("reason", ""), said.get("message", ""))
    if (message := policies.failure_of_the_job(job, pods)) is not None:
        return Verdict("FailureTarget", "PodFailurePolicy", message)
    waiting = (pod for pod in counts.replaceable.values() if policies.match_failure(job, pod).counts)
    if counts.failed + sum(1 for _ in waiting) > _backoff_limit(job) or _restarts_exceed(job, active):
        return Verdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    remaining = _deadline_in(job, now)
    if remaining is not None and remaining <= 0:
        return Verdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    if failure := _failure_by_index(job, counts):
        return failure
    if is_indexed(job) and (message := policies.success_rule(job, counts.indexes)):
        return Verdict("SuccessCriteriaMet", "SuccessPolicy", message)
    required = completions(job)
    done = counts.succeeded >= required if required is not None else counts.succeeded > 0 and not active
    if done:
        return Verdict(
            "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
        )
    return None


def _failure_by_index(job: Json, counts: Counts) -> Verdict | None:
    if not counts.failed_indexes:
        return None
    most, failed = job["spec"].get("maxFailedIndexes"), len(counts.failed_indexes)
    if most is not None and failed > int(most):
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Verdict("FailureTarget", "MaxFailedIndexesExceeded", message)
    if len(counts.failed_indexes | counts.indexes) >= (completions(job) or 0):
        return Verdict("FailureTarget", "FailedIndexes", "Job has failed indexes")
    return None


def _backoff_limit(job: Json) -> int:
    limit = job["spec"].get("backoffLimit")
    return 6 if limit is None else int(limit)


def _restarts_exceed(job: Json, active: list[Json]) -> bool:
    """Return whether the containers' restarts exceed the limit; they count with restartPolicy OnFailure."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for pod in active:
        status = read_status(pod)
        for container_status in (
            *sequence(status, "initContainerStatuses"),
            *sequence(status, "containerStatuses"),
        ):
            restarts += int(container_status.get("restartCount") or 0)
    limit = _backoff_limit(job)
    return restarts > 0 if limit == 0 else restarts >= limit


def _deadline_in(job: Json, now: datetime) -> float | None:
    """Seconds until the Job is too late; a deadline counts only while the Job is not suspended."""
    seconds, started = job["spec"].get("activeDeadlineSeconds"), read_status(job).get("startTime")
    if seconds is None or is_suspended(job):
        return None
    if started is None or is_true(job, "Suspended"):
        return float(seconds)
    return seconds_until(started, seconds, now)


def _status(job: Json, pods: list[Json], counts: Counts, verdict: Verdict | None, now: datetime) -> Json:
    stored = read_status(job)
    status: Json = {key: stored[key] for key in ("startTime", "completionTime") if key in stored}
    # Deleting ones are not active any more, but a Job has not ended before they have.
    active = [pod for pod in pods if is_active(pod)]
    terminating = sum(is_deleting(pod) and not is_terminal(pod) for pod in pods)
    if active:
        status["active"] = len(active)
    status |= {"terminating": terminating, "ready": sum(map(is_ready, active))}
    status |= counts.status(indexed=is_indexed(job))
    conditions = list(sequence(stored, "conditions"))
    if verdict:
        said = {"status": "True", "reason": verdict.reason, "message": verdict.message}
        conditions = with_condition(conditions, {"type": verdict.condition, **said}, now)
        # The verdict must be durable before it is carried out, so that a crash cannot change it half-way.
        if counts.settled and not active and not terminating and is_true(job, verdict.condition):
            final = "Failed" if verdict.condition == "FailureTarget" else "Complete"
            conditions = with_condition(conditions, {"type": final, **said}, now)
            if final == "Complete":
                status["completionTime"] = format_time(now)
    elif suspension := _suspension(job):
        conditions = with_condition(conditions, suspension, now)
        if not is_suspended(job):
            status["startTime"] = format_time(now)
    if "startTime" not in status and not is_suspended(job):
        status["startTime"] = format_time(now)
    if conditions:
        status["conditions"] = conditions
    return status


def _suspension(job: Json) -> Json | None:
    """Return the condition Suspended where it changes; a Job that never was suspended is without."""
    if is_suspended(job) == is_true(job, "Suspended"):
        return None
    word = "suspended" if is_suspended(job) else "resumed"
    said = {"status": str(is_suspended(job)), "reason": f"Job{word.title()}", "message": f"Job {word}"}
    return {"type": "Suspended", **said}


def _events(job: Json, status: Json) -> tuple[Event, ...]:
    """Return what the status says newly; `sync` records it once the status is written."""
    events = []
    for condition in sequence(status, "conditions"):
        if condition in read_conditions(job):
            continue
        if condition["type"] == "Complete":
            events.append(Event("Completed", "Job completed"))
        elif condition["type"] == "Failed":
            events.append(Event(condition["reason"], condition["message"], "Warning"))
        elif condition["type"] == "Suspended":
            events.append(Event(condition["reason"].removeprefix("Job"), condition["message"]))
    return tuple(events)


def _soonest(*delays: float | None) -> float | None:
    known = [max(delay, 0.0) for delay in delays if delay is not None]
    return min(known) if known else None


def expires_in(job: Json, now: datetime) -> float | None:
    """Seconds until a finished Job is to be deleted (`ttlSecondsAfterFinished`); None when it stays."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or not is_finished(job) or job["metadata"].get("deletionTimestamp"):
        return None
    ends = [
        condition for condition in job["status"]["conditions"] if condition["type"] in {"Complete", "Failed"}
    ]
    return seconds_until(ends[0]["lastTransitionTime"], ttl, now)
