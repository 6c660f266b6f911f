"""The CronJob controller's decision: which Jobs are due, which are too many, and what the status says.

Past runs are read from the Jobs themselves (their annotation names the scheduled time), so a crash between the
creation of a Job and the status loses no run and repeats none: its name follows from its time, as on a cluster.
Without `timeZone` schedules are in UTC, as in the containers of a real controller manager.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import is_deleting, read_annotations, read_labels, read_status
from steelyard_kube.times import format_time, parse_time
from steelyard_local_kubernetes.controllers.decision import Decision, Event
from steelyard_local_kubernetes.controllers.pods import is_true, owner_reference
from steelyard_local_kubernetes.cron_schedule import Schedule, parse_schedule, time_zone

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
LONGEST_LOOK = (
    60.0  # seconds; timers stand still while the machine sleeps, and a Job may be due when it wakes
)
MANY = 100  # missed times above which the user is warned


@dataclass(frozen=True)
class Due:
    """The latest time that has come since the last one that ran, and how many came."""

    at: datetime | None = None
    missed: int = 0


def decide(cron_job: Json, jobs: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `cron_job`, whose own Jobs are `jobs`. `taken`: names of others' Jobs."""
    status, events = _status(cron_job, jobs)
    changed = status if status != read_status(cron_job) else None
    delete = _beyond_history(cron_job, jobs)
    settled = Decision(status=changed, delete=delete, events=events)
    if is_deleting(cron_job):
        return Decision(status=changed, events=events)
    if cron_job["spec"].get("suspend"):
        return settled
    try:
        schedule, zone = parse_schedule(cron_job["spec"]["schedule"]), time_zone(cron_job)
    except (ValueError, KeyError, OSError) as error:  # an object that an older version accepted
        warning = Event("UnparseableSchedule", f"unparseable schedule: {error}", "Warning")
        return Decision(status=changed, delete=delete, events=(*events, warning))
    last = status.get("lastScheduleTime")
    since = parse_time(last or cron_job["metadata"].get("creationTimestamp") or format_time(now))
    due = _due(cron_job, schedule, zone, since, now)
    following = schedule.next_after(now, zone)
    wait = min((following - now).total_seconds() + 0.1, LONGEST_LOOK) if following else None
    rest = Decision(status=changed, delete=delete, events=events, requeue_after=wait)
    name = due.at and f"{cron_job['metadata']['name']}-{int(due.at.timestamp()) // 60}"
    if name in (taken or ()):
        text = f'Error creating job: jobs.batch "{name}" already exists'
        return _with_events(rest, Event("FailedCreate", text, "Warning"))
    if due.at is None or any(job["metadata"]["name"] == name for job in jobs):
        return rest
    return _start(cron_job, jobs, due, zone, rest)


def _start(cron_job: Json, jobs: list[Json], due: Due, zone: tzinfo, rest: Decision) -> Decision:
    """Return the decision for a time that has come, by the concurrency policy."""
    assert due.at is not None
    active = tuple(job for job in jobs if _is_ours(job) and not _job_end(job))
    policy = cron_job["spec"].get("concurrencyPolicy")
    if policy == "Forbid" and active:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return _with_events(rest, Event("JobAlreadyActive", text))
    running = tuple(job for job in active if not is_deleting(job))
    if policy == "Replace" and running:
        return Decision(status=rest.status, delete=running, events=rest.events)
    too_many = (
        "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    )
    events = (Event("TooManyMissedTimes", too_many, "Warning"),) if due.missed > MANY else ()
    decision = Decision(
        status=rest.status, create=(_job(cron_job, due.at, zone),), delete=rest.delete, events=rest.events,
        requeue_after=rest.requeue_after,
    )  # fmt: skip
    return _with_events(decision, *events)


def _with_events(decision: Decision, *events: Event) -> Decision:
    return replace(decision, events=(*decision.events, *events))


# ---- times


def _due(cron_job: Json, schedule: Schedule, zone: tzinfo, since: datetime, now: datetime) -> Due:
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        # A time that lies longer ago may not start any more.
        since = max(since, _before(now, float(deadline)))
    first = schedule.next_after(since, zone)
    second = first and schedule.next_after(first, zone)
    if first is None or first > now:
        return Due()
    if second is None or second > now:
        return Due(first, 1)
    # Kubernetes' estimate: a schedule may have come millions of times while the machine was off.
    pause = max((second - first).total_seconds(), 1.0)
    missed = int((now - first).total_seconds() // pause) + 1
    latest, at = None, schedule.next_after(first + timedelta(seconds=(missed - 2) * pause), zone)
    while at is not None and at <= now:
        latest, at = at, schedule.next_after(at, zone)
    return Due(latest, missed)


def _before(now: datetime, seconds: float) -> datetime:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


# ---- Jobs


def _is_ours(job: Json) -> bool:
    """Return whether the schedule made this Job; `kubectl create job --from` makes others."""
    return SCHEDULED in read_annotations(job)


def _job_end(job: Json) -> str:
    """Return Complete or Failed; empty for a Job that has not ended."""
    return next((kind for kind in ("Complete", "Failed") if is_true(job, kind)), "")


def _job(cron_job: Json, at: datetime, zone: tzinfo) -> Json:
    template, metadata = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    local = at.astimezone(zone)
    text = local.isoformat(timespec="seconds").removesuffix("+00:00")
    stamp = text if local.utcoffset() else f"{text}Z"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{metadata['name']}-{int(at.timestamp()) // 60}",
            "namespace": metadata["namespace"],
            "labels": read_labels(template),
            "annotations": {**read_annotations(template), SCHEDULED: stamp},
            "ownerReferences": [owner_reference(cron_job)],
        },
        "spec": mapping(template, "spec"),
    }


def _status(cron_job: Json, jobs: list[Json]) -> tuple[Json, tuple[Event, ...]]:
    """Return the status, and what it says newly."""
    stored = read_status(cron_job)
    ours = sorted((job for job in jobs if _is_ours(job)), key=lambda job: read_annotations(job)[SCHEDULED])
    by_uid = {job["metadata"]["uid"]: job for job in ours}
    status: Json = {}
    # A reference stays as it is, also when its Job changes: each change would be another write.
    known = {reference.get("uid"): reference for reference in sequence(stored, "active")}
    running = [job for job in ours if not _job_end(job)]
    if active := [known.get(job["metadata"]["uid"]) or _reference(job) for job in running]:
        status["active"] = active
    times = [parse_time(read_annotations(job)[SCHEDULED]) for job in ours]
    times += [parse_time(text) for text in (stored.get("lastScheduleTime"),) if text]
    if times:
        status["lastScheduleTime"] = format_time(max(times))
    ends = [stored.get("lastSuccessfulTime"), *(read_status(job).get("completionTime") for job in jobs)]
    if last := max((parse_time(text) for text in ends if text), default=None):
        status["lastSuccessfulTime"] = format_time(last)
    events = []
    for uid, reference in known.items():
        job = by_uid.get(uid)
        if job is None:
            events.append(Event("MissingJob", f"Active job went missing: {reference.get('name')}"))
        elif end := _job_end(job):
            text = f"Saw completed job: {job['metadata']['name']}, condition: {end}"
            events.append(Event("SawCompletedJob", text))
    return status, tuple(events)


def _reference(job: Json) -> Json:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


def _beyond_history(cron_job: Json, jobs: list[Json]) -> tuple[Json, ...]:
    """Return the oldest finished Jobs beyond the numbers that are kept."""
    gone: list[Json] = []
    for end, field in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        limit = cron_job["spec"].get(field)
        ended = sorted((job for job in jobs if _job_end(job) == end), key=_start_time)
        if limit is not None:
            gone += [job for job in ended[: max(len(ended) - int(limit), 0)] if not is_deleting(job)]
    return tuple(gone)


def _start_time(job: Json) -> tuple[str, str]:
    return read_status(job).get("startTime") or "~", job["metadata"]["name"]
