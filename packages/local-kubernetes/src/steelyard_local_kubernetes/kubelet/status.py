"""A Pod's status from its runs: a pure function, so that a new kubelet says what the old one said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_conditions
from steelyard_kube.pods import is_sidecar, sidecars
from steelyard_kube.times import format_time
from steelyard_local_kubernetes.kubelet.plan import Runs
from steelyard_local_kubernetes.kubelet.records import LOST, OUT_OF_MEMORY, Failure, Run, Sandbox


@dataclass(frozen=True)
class ObservedPod:
    """Observed state of a Pod on the node."""

    runs: Runs  # the newest of each container
    previous: Mapping[str, Run | None] = field(default_factory=dict)  # the one before
    waiting: Mapping[str, tuple[str, str]] = field(
        default_factory=dict
    )  # reason and message, where not started
    ready: Mapping[str, bool] = field(default_factory=dict)
    started: Mapping[str, bool] = field(default_factory=dict)
    failure: Failure | None = None
    sandbox: Sandbox | None = None
    ended: bool = False  # nothing runs, and nothing will


def seconds_text(text: str) -> str:
    """A shim's time as the API writes times: whole seconds."""
    return f"{text[:19]}Z"


def _state(run: Run) -> Json:
    if run.state == "running":
        return {"running": {"startedAt": seconds_text(run.started_at)}}
    state: Json = {
        "exitCode": run.exit_code,
        "reason": run.reason,
        "startedAt": seconds_text(run.started_at),
        "finishedAt": seconds_text(run.finished_at),
    }
    # A node gives the exit code alone where it has ended the container.
    if run.signal and run.reason != OUT_OF_MEMORY:
        state["signal"] = run.signal
    if run.message:
        state["message"] = run.message
    return {"terminated": state}


def _container_status(container: Json, observed: ObservedPod, uid: str, first: str) -> Json:
    """`first` is the reason of a container that has not been started yet."""
    name = container["name"]
    run, previous = observed.runs.get(name), observed.previous.get(name)
    status: Json = {
        "name": name,
        "image": container["image"],
        "imageID": "",
        "restartCount": run.attempt if run else 0,
        "ready": False,
        "started": False,
        "state": {},
        "lastState": {},
    }
    waiting = observed.waiting.get(name)
    if run is None or run.state == "intended":
        reason, message = waiting or (first, "")
        status["state"] = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    # Kubernetes' form of a back-off: the container waits now, and how it ended is its last state.
    elif run.state == "exited" and waiting and not observed.ended:
        status["state"] = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
        previous = run
    else:
        status["state"] = _state(run)
        status["ready"] = run.state == "running" and observed.ready.get(name, False)
        status["started"] = run.state == "running" and observed.started.get(name, False)
    if run is not None and run.state != "intended":  # what is only meant to run changes nothing yet
        status["containerID"] = f"process://{uid}/{name}/{run.attempt}"
    if previous is not None:
        status["lastState"] = _state(previous)
    return status


def _phase(pod: Json, observed: ObservedPod, initialized: bool) -> str:
    names = [container["name"] for container in pod["spec"]["containers"]]
    runs = [observed.runs.get(name) for name in names]
    if observed.ended:
        if observed.failure or not initialized:
            return "Failed"
        return "Succeeded" if all(run is not None and run.succeeded for run in runs) else "Failed"
    begun = initialized and any(run is not None and run.state != "intended" for run in runs)
    return "Running" if begun else "Pending"


def _condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Json:
    condition = {"type": kind, "status": "True" if holds else "False"}
    return condition | ({"reason": reason, "message": message} if reason else {})


def _conditions(
    pod: Json, statuses: list[Json], phase: str, observed: ObservedPod, initialized: bool
) -> list[Json]:
    unready = [status["name"] for status in statuses if not status["ready"]]
    if phase == "Succeeded":
        not_ready = ("PodCompleted", "")
    elif phase == "Failed":
        not_ready = ("PodFailed", "")
    else:
        not_ready = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    not_ready = ("", "") if not unready else not_ready
    incomplete = [
        container["name"]
        for container in sequence(pod["spec"], "initContainers")
        if not _is_initialized(pod, container, observed)
    ]
    of_init = ("ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]")
    if initialized:
        of_init = ("PodCompleted", "") if phase == "Succeeded" else ("", "")
    conditions = [
        _condition("PodReadyToStartContainers", _is_ready_to_start(observed)),
        _condition("PodScheduled", True),
        _condition("Initialized", initialized, *of_init),
        _condition("ContainersReady", not unready, *not_ready),
        _condition("Ready", not unready, *not_ready),
    ]
    disruption = _disruption(observed)
    if disruption is not None:
        conditions.append(_condition("DisruptionTarget", True, "TerminationByKubelet", disruption))
    return conditions


def _is_ready_to_start(observed: ObservedPod) -> bool:
    """Return whether the Pod can start containers: its volumes are there, and it has not ended.

    A node makes a sandbox between the volumes and the containers, and removes it at the Pod's end.
    """
    # A run that starts again proves it as well: the one before it had started.
    started = any(
        run is not None and (run.attempt > 0 or run.state != "intended") for run in observed.runs.values()
    )
    waits = any(
        reason not in ("ContainerCreating", "PodInitializing") for reason, _ in observed.waiting.values()
    )
    return not observed.ended and (started or waits)


def _disruption(observed: ObservedPod) -> str | None:
    """Return why the Pod's end says nothing about its program, if so."""
    if observed.failure and observed.failure.disruption:
        return observed.failure.message
    lost = [run for run in observed.runs.values() if run is not None and run.reason == LOST]
    return lost[0].message if lost and observed.ended else None


def _has_succeeded(run: Run | None) -> bool:
    return run is not None and run.succeeded


def _is_initialized(pod: Json, container: Json, observed: ObservedPod) -> bool:
    """Return whether an init container keeps no other waiting: it has succeeded, or started as a sidecar."""
    name = container["name"]
    if not is_sidecar(container):
        return _has_succeeded(observed.runs.get(name))
    # Once the containers have begun, a sidecar that starts again does not take that back.
    begun = any(observed.runs.get(other["name"]) is not None for other in pod["spec"]["containers"])
    run = observed.runs.get(name)
    return begun or (run is not None and run.state == "running" and observed.started.get(name, False))


def with_times(conditions: list[Json], known: list[Json], now: str) -> list[Json]:
    """The conditions with the time at which their status changed; those of others stay."""
    before = {condition["type"]: condition for condition in known}
    timed = []
    for condition in conditions:
        old = before.pop(condition["type"], None)
        same = old is not None and old["status"] == condition["status"]
        time = old["lastTransitionTime"] if old and same and "lastTransitionTime" in old else now
        timed.append({**condition, "lastProbeTime": None, "lastTransitionTime": time})
    return [*timed, *before.values()]


def pod_status(pod: Json, observed: ObservedPod, *, host_ip: str, now: datetime) -> Json:
    """The whole status of a Pod that is bound to this node."""
    spec, uid = pod["spec"], pod["metadata"]["uid"]
    init = sequence(spec, "initContainers")
    initialized = all(_is_initialized(pod, container, observed) for container in init)
    first = "ContainerCreating" if initialized else "PodInitializing"
    init_statuses = []
    for position, container in enumerate(init):
        begins = "PodInitializing" if position else "ContainerCreating"
        entry = _container_status(container, observed, uid, begins)
        if not is_sidecar(container):
            entry["ready"] = _has_succeeded(observed.runs.get(container["name"]))
        init_statuses.append(entry)
    statuses = [_container_status(container, observed, uid, first) for container in spec["containers"]]
    phase = _phase(pod, observed, initialized)
    known = read_conditions(pod)
    beside = {container["name"] for container in sidecars(pod)}
    running = [*(entry for entry in init_statuses if entry["name"] in beside), *statuses]
    conditions = _conditions(pod, running, phase, observed, initialized)
    status: Json = {
        "phase": phase,
        "conditions": with_times(conditions, known, format_time(now)),
        "containerStatuses": statuses,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
    }
    if init_statuses:
        status["initContainerStatuses"] = init_statuses
    if observed.sandbox:
        status |= {"podIP": observed.sandbox.ip, "podIPs": [{"ip": observed.sandbox.ip}]}
        status["startTime"] = seconds_text(observed.sandbox.started_at)
    if observed.failure:
        status |= {"reason": observed.failure.reason, "message": observed.failure.message}
    return status
