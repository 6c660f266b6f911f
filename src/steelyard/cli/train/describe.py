"""`steelyard train describe`: one job with all its replicas, and why it failed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from steelyard.cli.train.cluster import ClusterOptions, JobArgument, on, on_cluster
from steelyard.types import Json

if TYPE_CHECKING:
    from steelyard.clusters.training.logs import LogCluster
    from steelyard.clusters.training.progress import Progress
    from steelyard.clusters.training.records import FailureView, ReplicaView
    from steelyard.clusters.training.view import JobView

EVENTS = 10
PROGRESS_LINES = 500
"""Of a replica's log, its last ones: the newest report is among them."""
INDENT = "  "
OVER = {"Running": "Ended", "Pending": "Not run"}
"""What the phases are called once the job has ended and their Pods are gone."""


@on_cluster
def describe(job: JobArgument, *, cluster: ClusterOptions) -> None:
    """Show one job, its replicas, and why one failed.

    What each replica does, how far it is, what the program said last before it failed, conditions and events.
    """
    import asyncio

    from steelyard.cli.output import now
    from steelyard.clusters.training import jobs

    place = cluster.find()

    async def seen(api: "LogCluster") -> str:
        found = await jobs.find(api, job, place.namespace)
        pods = await jobs.pods(api, found)
        reports, events = await asyncio.gather(_reports(api, pods), _events(api, found))
        return described(found, pods, reports, events, now())

    typer.echo(on(place, seen))


async def _reports(api: "LogCluster", pods: Sequence["Json"]) -> dict[str, "Progress"]:
    """The newest report of each replica that has made one."""
    import asyncio

    from steelyard.clusters.training.logs import Tail, replica_of, written
    from steelyard.clusters.training.progress import newest

    found = await asyncio.gather(*(written([Tail(api, pod)], PROGRESS_LINES) for pod in pods))
    reports = {
        replica_of(pod)[0]: newest(each.text for each in lines)
        for pod, lines in zip(pods, found, strict=True)
    }
    return {name: each for name, each in reports.items() if each is not None}


async def _events(api: "LogCluster", job: "JobView") -> list["Json"]:
    from steelyard.kube.resource import EVENTS as RESOURCE

    found = await api.list(RESOURCE, job.namespace, field_selector=f"involvedObject.uid={job.uid}")
    return sorted(found.items, key=lambda each: str(each.get("lastTimestamp") or ""))[-EVENTS:]


def described(
    job: "JobView",
    pods: Sequence["Json"],
    reports: Mapping[str, "Progress"],
    events: Sequence["Json"],
    now: datetime,
) -> str:
    """Everything about it, what a person asks first at the top."""
    from steelyard.cli.train import wording

    parts = [_head(job, reports, now), _replicas(job, pods, reports, now)]
    parts += [[text] for text in wording.waiting(pods)]
    parts += [_failure(each, title) for each, title in _shown_failures(job)]
    parts += [_conditions(job)] if job.conditions else []
    parts += [_events_told(events)] if events else []
    return "\n\n".join("\n".join(each) for each in parts)


def _head(job: "JobView", reports: Mapping[str, "Progress"], now: datetime) -> list[str]:
    from steelyard.cli.eval.wording import duration
    from steelyard.cli.train import wording

    end = job.completed or now
    leader = next((reports[each.name] for each in job.replicas if each.name in reports), None)
    shown: dict[str, Any] = {
        "Job": f"{wording.full_name(job)} in namespace {job.namespace}",
        "Program": job.program,
        "State": f"{job.state}: {job.message}" if job.message else job.state,
        "Replicas": wording.replicas(job),
        "Took" if job.finished else "Since": duration((end - job.started).total_seconds())
        if job.started
        else None,
        "Progress": leader.told if leader else None,
        "Result": wording.results(job.results),
        "Model": wording.output(job),
        "Restarts": _restarts(job),
        "Again in": _again_in(job, now),
    }
    return [f"{name + ':':<10}{value}" for name, value in shown.items() if value]


def _restarts(job: "JobView") -> str | None:
    from steelyard.cli.eval.wording import count

    if not job.restarts and not job.disruptions:
        return None
    limit = job.backoff_limit
    of = f" of at most {limit}" if limit is not None else ""
    outside = f", and {count(job.disruptions)} not counted" if job.disruptions else ""
    return f"{job.restarts}{of}{outside}"


def _again_in(job: "JobView", now: datetime) -> str | None:
    """How long a restart still waits."""
    from steelyard.cli.eval.wording import duration

    seconds = (job.restart_at - now).total_seconds() if job.restart_at and not job.finished else 0.0
    return duration(seconds) if seconds > 0 else None


def _replicas(
    job: "JobView", pods: Sequence["Json"], reports: Mapping[str, "Progress"], now: datetime
) -> list[str]:
    from steelyard.cli.train.listing import columns

    heading = ("REPLICA", "PHASE", "ATTEMPT", "RESTARTS", "EXIT", "AGE", "NODE", "")
    phases = _phases(job, pods)
    rows = [_row(each, phases[each.name], reports.get(each.name), now) for each in job.replicas]
    return columns([heading, *rows]).split("\n")


def _phases(job: "JobView", pods: Sequence["Json"]) -> dict[str, str]:
    """As the status says; once the job has ended its status stays, and the Pods that are left say it."""
    from steelyard.clusters.training.logs import replica_of

    if not job.finished:
        return {each.name: each.phase for each in job.replicas}
    left = {replica_of(pod)[0]: str((pod.get("status") or {}).get("phase") or "Pending") for pod in pods}
    return {each.name: left.get(each.name) or OVER.get(each.phase, each.phase) for each in job.replicas}


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
        report.told if report else reason,
    )


def _shown_failures(job: "JobView") -> Iterator[tuple["FailureView", str]]:
    """The one that ended the job, or else the newest, and the first where that is another."""
    own = [each for each in job.failures if not each.consequence]
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
    told = f"{title} {wording.failed(failure)} (attempt {failure.attempt + 1}{when})"
    return [told, *(f"{INDENT}{line}" for line in wording.spoken(failure.message))]


def _conditions(job: "JobView") -> list[str]:
    from steelyard.cli.train.listing import columns

    rows = [("CONDITION", "", "SINCE", "MESSAGE")]
    rows += [
        (
            each["type"],
            each["status"],
            str(each.get("lastTransitionTime") or ""),
            str(each.get("message") or ""),
        )
        for each in job.conditions
    ]
    return columns(rows).split("\n")


def _events_told(events: Sequence["Json"]) -> list[str]:
    from steelyard.cli.train.listing import columns

    rows = [("EVENT", "LAST", "MESSAGE")]
    rows += [
        (str(each.get("reason") or ""), str(each.get("lastTimestamp") or ""), str(each.get("message") or ""))
        for each in events
    ]
    return columns(rows).split("\n")
