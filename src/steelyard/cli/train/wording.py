"""Sentences about a job."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from steelyard.cli.eval.wording import count, duration
from steelyard.clusters.training.logs import container_status, find_replica
from steelyard.clusters.training.progress import Pace, Progress, number, parse
from steelyard.clusters.training.records import FailureView, lines
from steelyard.clusters.training.view import JobView
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_status
from steelyard_kube.pods import waiting_state

LAST_LINES = 12
"""Maximum number of a failed program's last lines that are shown at the end of a job."""
BENIGN = frozenset({"", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"})


def plural(role: str, number: int) -> str:
    """`1 Worker`, `3 Workers`, `2 PS`."""
    return f"{number} {role}" if number == 1 or role.endswith("S") else f"{number} {role}s"


def replicas(job: JobView) -> str:
    """`1 Master and 3 Workers`."""
    parts = [plural(role, n) for role, n in job.counts.items()]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "no replica"


def full_name(job: JobView) -> str:
    return f"{job.kind.lower()}/{job.name}"


def status_line(job: JobView, progress: Progress | None, pace: Pace, now: datetime) -> str:
    """Return the state of a job in one line, the most interesting part first."""
    total = sum(job.counts.values())
    parts = [progress.description] if progress else []
    left = pace.seconds_left
    if left is not None and progress and progress.share != 1:
        parts.append(f"about {duration(left)} left")
    match job.state:
        case "Running":
            parts.append(f"{job.running} of {total} running")
        case "New" | "Created":
            parts.append(f"starting {count(total, 'replica')}")
        case _:
            parts.append(job.state.lower())
    if job.restarts:
        parts.append(count(job.restarts, "restart"))
    if began := job.started or job.created:
        parts.append(duration(max(((job.completed or now) - began).total_seconds(), 0)))
    return ", ".join(parts)


def failure_text(failure: FailureView) -> str:
    return f"{failure.name} {failure.description}"


def goes_on(before: JobView, job: JobView, failure: FailureView, now: datetime) -> str:
    """A failure, and what follows it."""
    if failure.action == "Fail":
        return failure_text(failure)
    if failure.action == "Ignore":
        return f"{failure_text(failure)}; the job goes on without it"
    attempts = {replica.name: replica.attempt for replica in before.replicas}
    again = [replica for replica in job.replicas if replica.attempt > attempts.get(replica.name, 0)]
    who = "it starts again"
    if len(again) > 1:
        every = len(again) == len(job.replicas)
        all_of = "both" if every and len(again) == 2 else f"{'all ' if every else ''}{len(again)}"
        who = f"{all_of} replicas start again"
    seconds = (job.restart_at - now).total_seconds() if job.restart_at else 0
    wait = f" in {duration(seconds)}" if seconds > 1 else ""
    limit = job.backoff_limit
    of = f" of at most {limit}" if limit is not None else ""
    counted = f" (restart {job.restarts}{of})" if failure.counted and job.restarts else ""
    return f"{failure_text(failure)}; {who}{wait}{counted}"


def end_text(job: JobView) -> str:
    """The last words: what came of it, and where there is more."""
    seconds = (job.completed - job.started).total_seconds() if job.completed and job.started else None
    after = ""
    if seconds is not None:  # known by the second
        after = f" after {duration(seconds)}" if seconds >= 1 else " within a second"
    with_ = f", with {count(job.restarts, 'restart')}" if job.restarts else ""
    if job.state == "Succeeded":
        sentences = [f"{full_name(job)} succeeded{after}{with_}"]
        sentences += [f"result: {results(job.results)}"] if job.results else []
        return "\n".join(sentences)
    cause = job.cause
    sentences = [f"{full_name(job)} failed{after}{with_}: {failure_text(cause) if cause else job.message}"]
    # v1's own sentence says no more than the cause.
    if cause and job.message and "replica(s) failed" not in job.message:
        sentences.append(f"  {job.message}")
    return "\n".join([*sentences, *last_words(cause, "  its last lines:")])


def last_words(failure: FailureView | None, title: str) -> list[str]:
    """The end of what a program said before it failed."""
    said = end_lines(failure.message)[-LAST_LINES:] if failure else []
    return [title, *(f"    {line}" for line in said)] if said else []


def end_lines(message: str) -> list[str]:
    """The lines of last words; reports of progress say nothing of why it ended."""
    return [line for line in lines(message) if parse(line) is None]


def results(values: dict[str, Any]) -> str:
    """`accuracy 0.97, epochs 12`."""
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def output(job: JobView) -> str:
    """Return what became of the output of a job that promised a Model; empty where it promised none."""
    said = job.outputs
    if not said:
        return job.output_model
    message = f": {said['message']}" if said.get("message") else ""
    return f"{said.get('model') or job.output_model} ({str(said.get('state', '')).lower()}{message})"


def waiting(pods: Sequence[Json]) -> list[str]:
    """Pods that cannot start, and why: `worker-0 waits: ErrImageNeverPull: …`."""
    sentences = []
    for pod in pods:
        reason, message = _waits(pod)
        if reason not in BENIGN:
            said = f"{reason}: {message}" if message else reason
            sentences.append(f"{find_replica(pod)[0]} waits: {said}")
    return sentences


def _waits(pod: Json) -> tuple[str, str]:
    status = read_status(pod)
    state = waiting_state(container_status(pod))
    if state:
        return str(state.get("reason") or ""), str(state.get("message") or "")
    for condition in sequence(status, "conditions"):
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            return str(condition.get("reason") or ""), str(condition.get("message") or "")
    return "", ""
