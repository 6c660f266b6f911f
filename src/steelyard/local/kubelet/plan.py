"""Plan of the kubelet for a Pod: a pure function of its manifest, its runs and the time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from steelyard.awake import SleptSince, never_slept, pause_lasts
from steelyard.local.kubelet.records import Failure, Run
from steelyard.types import Json, sequence

HEALTHY_SECONDS = 600  # a run as long as this forgives earlier crashes

Runs = Mapping[str, Run | None]


@dataclass(frozen=True)
class Plan:
    """Runs to begin, and the time of the next look, if one is needed without a cause from outside."""

    start: tuple[tuple[str, int], ...] = ()
    stop: bool = False  # end everything that runs
    ended: bool = False  # nothing runs, and nothing will
    back_off: tuple[str, ...] = ()  # containers that wait before they start again
    look_again: datetime | None = None


def parse_time(text: str) -> datetime:
    """A time of the API or of a shim; nanoseconds are cut."""
    return datetime.fromisoformat(f"{text[:-1][:26]}+00:00")


def back_off(attempt: int, crash_backoff: float) -> float:
    """Seconds between the end of a run and the next: none at first, then doubling."""
    return 0.0 if attempt == 0 else min(crash_backoff * 2.0 ** min(attempt - 1, 16), crash_backoff * 30)


def restarts(run: Run, policy: str) -> bool:
    """Tell whether another run follows an ended one."""
    return policy == "Always" or (policy == "OnFailure" and run.exit_code != 0)


def deadline(pod: Json, started_at: str, slept: SleptSince = never_slept) -> datetime | None:
    """Return when the Pod fails with DeadlineExceeded; time that the machine slept does not count.

    None for a Pod without one, or with one beyond the last year that a time has.
    """
    seconds = pod["spec"].get("activeDeadlineSeconds")
    if seconds is None:
        return None
    started = parse_time(started_at)
    try:
        return started + timedelta(seconds=seconds + slept(started))
    except OverflowError:
        return None


def _begin(containers: list[Json], runs: Runs, policy: str, now: datetime, crash_backoff: float) -> Plan:
    """The starts that are due among containers that run side by side."""
    start, waiting, times = [], [], []
    for container in containers:
        name = container["name"]
        run = runs.get(name)
        if run is None:
            start.append((name, 0))
        elif run.state == "exited" and restarts(run, policy):
            started, finished = parse_time(run.started_at), parse_time(run.finished_at)
            pause = back_off(run.attempt, crash_backoff)
            healthy = (finished - started).total_seconds() >= HEALTHY_SECONDS
            waits = not healthy and pause_lasts(finished, pause, now)
            due = finished + timedelta(seconds=pause) if waits else now
            if due <= now:
                start.append((name, run.attempt + 1))
            else:
                waiting.append(name)
                times.append(due)
    return Plan(tuple(start), back_off=tuple(waiting), look_again=min(times, default=None))


def decide(pod: Json, runs: Runs, failure: Failure | None, *, now: datetime, crash_backoff: float) -> Plan:
    """`runs` holds the newest run of every container, init containers included."""
    spec = pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    alive = any(run is not None and run.state != "exited" for run in runs.values())
    if failure or "deletionTimestamp" in pod["metadata"]:
        return Plan(stop=alive, ended=not alive)
    # Kubernetes' rule: an init container that has succeeded does not run again, whatever the Pod's policy is.
    init_policy = "OnFailure" if policy == "Always" else policy
    for container in sequence(spec, "initContainers"):
        run = runs.get(container["name"])
        if run is not None and run.succeeded:
            continue
        if run is not None and run.state == "exited" and not restarts(run, init_policy):
            return Plan(ended=True)
        return _begin([container], runs, init_policy, now, crash_backoff)
    plan = _begin(spec["containers"], runs, policy, now, crash_backoff)
    if alive or plan.start or plan.back_off:
        return plan
    return Plan(ended=True)
