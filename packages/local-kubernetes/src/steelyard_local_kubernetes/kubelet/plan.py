"""Plan of the kubelet for a Pod: a pure function of its manifest, its runs and the time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from steelyard_common.awake import SleptSince, never_slept, pause_lasts
from steelyard_common.backoff import backoff_seconds
from steelyard_common.types import Json, sequence
from steelyard_kube.pods import is_sidecar, list_containers, sidecars
from steelyard_kube.times import parse_time
from steelyard_local_kubernetes.kubelet.records import Failure, Run

HEALTHY_SECONDS = 600  # a run as long as this forgives earlier crashes

Runs = Mapping[str, Run | None]


@dataclass(frozen=True)
class Plan:
    """Runs to begin, and the time of the next reconciliation, if one is due without a cause from outside."""

    start: tuple[tuple[str, int], ...] = ()
    stop: bool = False  # end everything that runs
    ended: bool = False  # nothing runs, and nothing will
    retire: tuple[str, ...] = ()  # sidecars that are to end, since the containers have
    back_off: tuple[str, ...] = ()  # containers that wait before they start again
    requeue_at: datetime | None = None

    def __add__(self, other: "Plan") -> "Plan":
        times = [time for time in (self.requeue_at, other.requeue_at) if time is not None]
        return Plan(
            self.start + other.start,
            back_off=self.back_off + other.back_off,
            requeue_at=min(times, default=None),
        )


def back_off(attempt: int, crash_backoff: float) -> float:
    """Seconds between the end of a run and the next: none at first, then doubling."""
    return 0.0 if attempt == 0 else backoff_seconds(attempt, crash_backoff, crash_backoff * 30)


def restarts(run: Run, policy: str) -> bool:
    """Return whether another run follows an ended one."""
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
    return Plan(tuple(start), back_off=tuple(waiting), requeue_at=min(times, default=None))


def decide(
    pod: Json,
    runs: Runs,
    failure: Failure | None,
    *,
    now: datetime,
    crash_backoff: float,
    started: Mapping[str, bool] = MappingProxyType({}),
) -> Plan:
    """`runs` holds the newest run of every container, init containers included; `started` says which sidecars
    have started, so that what comes after them may.
    """
    spec = pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    alive = any(run is not None and run.state != "exited" for run in runs.values())
    if failure or "deletionTimestamp" in pod["metadata"]:
        return Plan(stop=alive, ended=not alive)
    # Kubernetes' rule: an init container that has succeeded does not run again, whatever the Pod's policy is.
    init_policy = "OnFailure" if policy == "Always" else policy
    begun = any(runs.get(container["name"]) is not None for container in spec["containers"])
    plan = Plan()
    for container in sequence(spec, "initContainers"):
        run = runs.get(container["name"])
        if is_sidecar(container):
            plan += _begin([container], runs, "Always", now, crash_backoff)
            running = run is not None and run.state == "running" and started.get(container["name"], False)
            if running or begun:
                continue
            return plan
        if run is not None and run.succeeded:
            continue
        if run is not None and run.state == "exited" and not restarts(run, init_policy):
            return _over(pod, runs)
        return plan + _begin([container], runs, init_policy, now, crash_backoff)
    own = _begin(spec["containers"], runs, policy, now, crash_backoff)
    if own.start or own.back_off or any(_is_alive(runs, container) for container in spec["containers"]):
        return plan + own
    return _over(pod, runs)


def _is_alive(runs: Runs, container: Json) -> bool:
    run = runs.get(container["name"])
    return run is not None and run.state != "exited"


def _over(pod: Json, runs: Runs) -> Plan:
    """The end of a Pod whose work is done: its sidecars end one after the other, the last one first."""
    running = [container["name"] for container in sidecars(pod) if _is_alive(runs, container)]
    return Plan(retire=tuple(running[-1:])) if running else Plan(ended=True)


def next_to_end(pod: Json, runs: Runs) -> list[str]:
    """Return which containers of a Pod that is to end are asked next: all but sidecars, then the last sidecar."""
    others = [
        container["name"]
        for container in list_containers(pod["spec"])
        if not is_sidecar(container) and _is_alive(runs, container)
    ]
    return others or [container["name"] for container in sidecars(pod) if _is_alive(runs, container)][-1:]
