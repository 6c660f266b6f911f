"""`steelyard train describe`: shows one job with all its replicas, and why it failed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from steelyard.cli.train.cluster import ClusterOptions, JobArgument, on, on_cluster
from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations
from steelyard_kube.pods import read_phase

if TYPE_CHECKING:
    from steelyard.clusters.training.logs import LogCluster
    from steelyard.clusters.training.progress import Progress
    from steelyard.clusters.training.records import FailureView, ReplicaView
    from steelyard.clusters.training.view import JobView

EVENTS = 10
PROGRESS_LINES = 500
"""Number of last lines of a replica's log that are searched for its newest progress report."""
INDENT = "  "
GPUS = "steelyard/gpus"
"""Annotation of a Pod: the GPUs that the process kubelet gave it."""
OVER = {"Running": "Ended", "Pending": "Not run"}
"""Names for the phases of replicas whose Pods are gone because the job has ended."""


@on_cluster
def describe(job: JobArgument, *, cluster: ClusterOptions) -> None:
    """Show one job: replicas, progress, conditions, events. It says why a replica failed.

    For a failure, the last lines of the program are shown, too.
    """
    import asyncio

    from steelyard.cli.output import now
    from steelyard.clusters.training import jobs

    place = cluster.find()

    async def description(api: "LogCluster") -> str:
        view = await jobs.find(api, job, place.namespace)
        pods = await jobs.pods(api, view)
        reports, events = await asyncio.gather(_reports(api, pods), _events(api, view))
        return description_text(view, pods, reports, events, now())

    typer.echo(on(place, description))


async def _reports(api: "LogCluster", pods: Sequence["Json"]) -> dict[str, "Progress"]:
    """The newest progress report of every replica that has made one."""
    import asyncio

    from steelyard.clusters.training.logs import Tail, find_replica, list_lines
    from steelyard.clusters.training.progress import newest

    logs = await asyncio.gather(*(list_lines([Tail(api, pod)], PROGRESS_LINES) for pod in pods))
    reports = {
        find_replica(pod)[0]: newest(line.text for line in lines)
        for pod, lines in zip(pods, logs, strict=True)
    }
    return {name: report for name, report in reports.items() if report is not None}


async def _events(api: "LogCluster", job: "JobView") -> list["Json"]:
    from steelyard_kube.resource import EVENTS as RESOURCE

    events = await api.list(RESOURCE, job.namespace, field_selector=f"involvedObject.uid={job.uid}")
    # The API gives events in no order, and repeats change their times.
    return sorted(events.items, key=lambda event: str(event.get("lastTimestamp") or ""))[-EVENTS:]


def description_text(
    job: "JobView",
    pods: Sequence["Json"],
    reports: Mapping[str, "Progress"],
    events: Sequence["Json"],
    now: datetime,
) -> str:
    """Return everything about the job, with what a person asks first at the top."""
    from steelyard.cli.train import wording

    parts = [_head(job, reports, now), _replicas(job, pods, reports, now)]
    parts += [gpus] if (gpus := _gpus(pods)) else []
    parts += [[text] for text in wording.waiting(pods)]
    parts += [_failure(failure, title) for failure, title in _list_failures(job)]
    parts += [_conditions(job)] if job.conditions else []
    parts += [_event_table(events)] if events else []
    return "\n\n".join("\n".join(part) for part in parts)


def _head(job: "JobView", reports: Mapping[str, "Progress"], now: datetime) -> list[str]:
    from steelyard.cli.eval.wording import duration
    from steelyard.cli.train import wording

    end = job.completed or now
    leader = next((reports[replica.name] for replica in job.replicas if replica.name in reports), None)
    fields: dict[str, Any] = {
        "Job": f"{wording.full_name(job)} in namespace {job.namespace}",
        "Program": job.program,
        "State": f"{job.state}: {job.message}" if job.message else job.state,
        "Replicas": wording.replicas(job),
        "Took" if job.finished else "Since": duration((end - job.started).total_seconds())
        if job.started
        else None,
        "Progress": leader.description if leader else None,
        "Result": wording.results(job.results),
        "Model": wording.output(job),
        "Restarts": _restarts(job),
        "Again in": _again_in(job, now),
    }
    return [f"{name + ':':<10}{value}" for name, value in fields.items() if value]


def _restarts(job: "JobView") -> str | None:
    from steelyard.cli.eval.wording import count

    if not job.restarts and not job.disruptions:
        return None
    limit = job.backoff_limit
    of = f" of at most {limit}" if limit is not None else ""
    outside = f", and {count(job.disruptions)} not counted" if job.disruptions else ""
    return f"{job.restarts}{of}{outside}"


def _again_in(job: "JobView", now: datetime) -> str | None:
    """The time until the next restart."""
    from steelyard.cli.eval.wording import duration

    seconds = (job.restart_at - now).total_seconds() if job.restart_at and not job.finished else 0.0
    return duration(seconds) if seconds > 0 else None


def _replicas(
    job: "JobView", pods: Sequence["Json"], reports: Mapping[str, "Progress"], now: datetime
) -> list[str]:
    from steelyard.cli.output import columns

    heading = ("REPLICA", "PHASE", "ATTEMPT", "RESTARTS", "EXIT", "AGE", "NODE", "")
    phases = _phases(job, pods)
    rows = [_row(replica, phases[replica.name], reports.get(replica.name), now) for replica in job.replicas]
    return columns([heading, *rows]).split("\n")


def _gpus(pods: Sequence["Json"]) -> list[str]:
    """Say which GPUs of its machine each replica has, or had."""
    from steelyard.cli.output import columns
    from steelyard.clusters.training.logs import find_replica

    given = [
        (find_replica(pod)[0], gpu)
        for pod in pods
        for gpu in str(read_annotations(pod).get(GPUS) or "").split(",")
        if gpu
    ]
    return columns([("REPLICA", "GPU"), *given]).split("\n") if given else []


def _phases(job: "JobView", pods: Sequence["Json"]) -> dict[str, str]:
    """The phases of the replicas by their names."""
    from steelyard.clusters.training.logs import find_replica

    if not job.finished:
        return {replica.name: replica.phase for replica in job.replicas}
    # The status of a job that has ended is not updated any more; the Pods that are left are.
    left = {find_replica(pod)[0]: read_phase(pod) for pod in pods}
    return {
        replica.name: left.get(replica.name) or OVER.get(replica.phase, replica.phase)
        for replica in job.replicas
    }


def _row(replica: "ReplicaView", phase: str, report: "Progress | None", now: datetime) -> tuple[str, ...]:
    from steelyard.cli.output import age

    since = {"creationTime": replica.started.isoformat()} if replica.started else {}
    exit_code = "" if replica.exit_code is None else str(replica.exit_code)
    reason = replica.reason if replica.exit_code != 0 and phase == replica.phase else ""
    return (
        replica.name,
        phase,
        str(replica.attempt + 1),
        str(replica.restarts),
        exit_code,
        age(since, now),
        replica.node,
        report.description if report else reason,
    )


def _list_failures(job: "JobView") -> Iterator[tuple["FailureView", str]]:
    """The failure that ended the job, or else the newest, and the first failure where that is another."""
    own = [failure for failure in job.failures if not failure.consequence]
    first, cause = own[:1], job.cause
    if cause is not None:
        yield cause, "Failed because"
    elif own[1:]:
        yield own[-1], "Last failure:"
    if first and first[0] != cause:
        yield first[0], "First failure:"


def _failure(failure: "FailureView", title: str) -> list[str]:
    from steelyard.cli.train import wording

    when = f", {failure.time:%Y-%m-%d %H:%M:%S} UTC" if failure.time else ""
    sentence = f"{title} {wording.failure_text(failure)} (attempt {failure.attempt + 1}{when})"
    return [sentence, *(f"{INDENT}{line}" for line in wording.end_lines(failure.message))]


def _conditions(job: "JobView") -> list[str]:
    from steelyard.cli.output import columns

    rows = [("CONDITION", "", "SINCE", "MESSAGE")]
    rows += [
        (
            condition["type"],
            condition["status"],
            str(condition.get("lastTransitionTime") or ""),
            str(condition.get("message") or ""),
        )
        for condition in job.conditions
    ]
    return columns(rows).split("\n")


def _event_table(events: Sequence["Json"]) -> list[str]:
    from steelyard.cli.output import columns

    rows: list[tuple[str, ...]] = [("EVENT", "LAST", "MESSAGE")]
    rows += [
        tuple(str(event.get(field) or "") for field in ("reason", "lastTimestamp", "message"))
        for event in events
    ]
    return columns(rows).split("\n")
