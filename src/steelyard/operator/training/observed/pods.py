"""A Pod as training reads it: what its framework's container does, and whether something from outside ended it.

The container of the framework decides, not the Pod's phase: a sidecar neither holds a job up nor fails it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from steelyard.operator import children
from steelyard.operator.times import later
from steelyard.operator.training.frameworks.framework import Framework
from steelyard.operator.training.labels import ATTEMPT, REPLICA_INDEX, REPLICA_TYPE
from steelyard.operator.training.model import SHELL_SIGNAL, UNKNOWN_EXIT, Phase, ReplicaId, TrainingJob
from steelyard_common.types import Json, mapping
from steelyard_kube.objects import read_labels, read_spec, read_status, true_condition
from steelyard_kube.pods import (
    conditions_by_type,
    container_statuses,
    find_end,
    init_container_statuses,
    last_termination,
    waiting_state,
)
from steelyard_kube.times import parse_time

DISRUPTIONS = children.DISRUPTIONS | {"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods"}
"""Reasons of Pods that failed without a fault of their program."""
LOST = frozenset({"NodeNotReady", "NodeLost"})
TAINTED = "DeletionByTaintManager"
LAST_SIGNAL = 64
_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
_WHY = "not found|no such file|permission denied|exec format error|is a directory|not a directory"
_NO_PROGRAM = re.compile(rf"(?:\bexec\b|executable file)[^\n]*(?:{_WHY})|^[^:\n]+: (?:{_WHY})", re.IGNORECASE)
"""Messages of containerd and CRI-O, and of our kubelet: `PROGRAM: No such file or directory`."""
_SHELL_CANNOT_START = frozenset({126, 127})
"""Exit codes of shells for a program that may not be executed, and for one that does not exist."""
MESSAGE_LIMIT = 4096
"""Number of characters of a termination message that are kept, from its end."""


@dataclass(frozen=True)
class Termination:
    """The end of a container."""

    exit_code: int
    reason: str = ""
    message: str = ""
    at: datetime | None = None
    signalled: int | None = None

    @property
    def signal(self) -> int | None:
        """Signal that ended the container, as the runtime or the exit code names it."""
        if self.signalled:
            return self.signalled
        # Shells and runtimes report a death by signal as 128 + its number; not every runtime fills in `signal`.
        number = self.exit_code - SHELL_SIGNAL
        return number if 0 < number <= LAST_SIGNAL else None

    @property
    def unstartable(self) -> bool:
        """Return whether the program cannot be started at all, because it does not exist or is not a program.

        Another attempt would find the same. Other causes may pass: a node without room, a mount that is late.
        """
        # The runtime gives one reason for a missing program and for a mount that is late: only its message
        # distinguishes them.
        if self.reason in _NOT_STARTED:
            return _NO_PROGRAM.search(self.message) is not None
        return self.exit_code in _SHELL_CANNOT_START


@dataclass(frozen=True)
class ObservedPod:
    """One Pod of a replica."""

    pod: Json
    replica_id: ReplicaId
    attempt: int
    phase: Phase
    termination: Termination | None = None
    """Final end of the container, if it has ended for good."""
    disruption: str = ""
    """Reason for an end that the program did not cause: Evicted, Deleted …"""
    disrupted: datetime | None = None
    """Time of the disruption, if known."""
    in_place: int = 0
    """Number of restarts by the kubelet, including the next one if it is certain to come."""
    last_termination: Termination | None = None
    """End of the container before its last restart."""
    lost_since: datetime | None = None
    """Time since which the control plane has not heard from the Pod's node."""

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def node(self) -> str:
        return str(read_spec(self.pod).get("nodeName") or "")

    @property
    def start_time(self) -> datetime | None:
        text = read_status(self.pod).get("startTime")
        return parse_time(text) if text else None

    @property
    def deleting(self) -> datetime | None:
        """End of the grace period, if the Pod is being deleted."""
        text = self.pod["metadata"].get("deletionTimestamp")
        return parse_time(text) if text else None

    @property
    def active(self) -> bool:
        return self.phase == "Running" and self.deleting is None

    @property
    def waiting(self) -> str:
        """Reason of the first container that does not start: ErrImagePull …"""
        reasons = (waiting_state(container).get("reason") for container in container_statuses(self.pod))
        return next((str(reason) for reason in reasons if reason), "")


def read_replica_id(obj: Json, framework: Framework) -> ReplicaId | None:
    """Read from the labels of a Pod or Service which replica it belongs to."""
    labels = read_labels(obj)
    type = labels.get(REPLICA_TYPE)
    role = next((role.name for role in framework.roles if role.name.lower() == type), None)
    index = str(labels.get(REPLICA_INDEX, ""))
    return ReplicaId(role, int(index)) if role and index.isdecimal() else None


def observe_pod(pod: Json, job: TrainingJob) -> ObservedPod | None:
    """Read a Pod of a job; None if its labels name no replica."""
    replica_id = read_replica_id(pod, job.framework)
    if replica_id is None:
        return None
    role = job.roles.get(replica_id.role)
    name = job.framework.container_name(role.template["spec"]) if role else job.framework.container
    # The framework's container decides. It has no status before the kubelet has seen the Pod.
    own: Json = {}
    container = next((status for status in container_statuses(pod) if status["name"] == name), own)
    termination = _termination(find_end(container))
    last = _termination(last_termination(container))
    phase = _phase(pod, termination)
    final = termination if phase in {"Succeeded", "Failed"} else None
    disruption, since = _disruption(pod, final)
    if phase == "Failed" and final is None:
        final = _failure_before_start(pod)
    attempt = read_labels(pod).get(ATTEMPT, "0")
    return ObservedPod(
        pod=pod,
        replica_id=replica_id,
        attempt=int(attempt) if attempt.isdecimal() else 0,
        phase=phase,
        termination=final,
        disruption=disruption,
        disrupted=since,
        in_place=_restarts_in_place(pod),
        last_termination=last if final else termination or last,
        lost_since=_read_lost_time(pod),
    )


def _termination(terminated: Json | None) -> Termination | None:
    if not terminated:
        return None
    at = terminated.get("finishedAt")
    message = (terminated.get("message") or "").strip()[-MESSAGE_LIMIT:]
    return Termination(
        int(terminated.get("exitCode") or 0),
        terminated.get("reason") or "",
        message,
        parse_time(at) if at else None,
        terminated.get("signal"),
    )


def _failure_before_start(pod: Json) -> Termination:
    """The end of a Pod whose container never ran, in the words of its init container or of the Pod."""
    for container in init_container_statuses(pod):
        termination = _termination(find_end(container))
        if termination is not None and termination.exit_code:
            message = f"init container {container['name']} exited with code {termination.exit_code}: "
            message += termination.message
            return replace(termination, exit_code=UNKNOWN_EXIT, message=message.removesuffix(": "))
    status = read_status(pod)
    return Termination(UNKNOWN_EXIT, status.get("reason") or "", status.get("message") or "")


def _phase(pod: Json, termination: Termination | None) -> Phase:
    phase = read_status(pod).get("phase")
    if termination is not None:
        policy = read_spec(pod).get("restartPolicy") or "Never"
        stays = policy == "Never" or (policy == "OnFailure" and termination.exit_code == 0)
        if stays or phase in {"Succeeded", "Failed"}:
            return "Succeeded" if termination.exit_code == 0 else "Failed"
    match phase:
        case "Succeeded" | "Failed":
            return phase  # type: ignore[no-any-return]
        case "Running" | "Unknown":
            return "Running"
        case _:
            return "Pending"


def _restarts_in_place(pod: Json) -> int:
    """Count the kubelet's restarts. A container that has failed counts at once, not only after its back-off."""
    policy = read_spec(pod).get("restartPolicy")
    return sum(
        int(container.get("restartCount") or 0) + _will_restart(container, policy)
        for container in container_statuses(pod)
    )


def _will_restart(container: Json, policy: str | None) -> bool:
    # The kubelet will restart it after its back-off and counts it only then; the failure itself is certain already.
    if waiting_state(container).get("reason") == "CrashLoopBackOff":
        return True
    terminated = find_end(container)
    if not terminated:
        return False
    return policy == "Always" or (policy == "OnFailure" and bool(terminated.get("exitCode")))


def _disruption(pod: Json, termination: Termination | None) -> tuple[str, datetime | None]:
    """Reason and time of a disruption. A program that ended before it was asked to end did so by itself."""
    status = read_status(pod)
    if status.get("phase") == "Failed" and (reason := status.get("reason")) in DISRUPTIONS:
        return str(reason), termination.at if termination else None
    for time, reason in _requests_to_end(pod):
        # A container that had ended before it was asked to end did so by itself: its exit code counts, not the
        # deletion.
        if termination is None or termination.at is None or termination.at >= time:
            return reason, time
    return "", None


def _requests_to_end(pod: Json) -> Iterator[tuple[datetime, str]]:
    if target := true_condition(pod, "DisruptionTarget"):
        yield parse_time(target["lastTransitionTime"]), target.get("reason") or "DisruptionTarget"
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        grace = int(metadata.get("deletionGracePeriodSeconds") or 0)
        # Kubernetes sets deletionTimestamp to the end of the grace period, not to the time of the request.
        yield later(parse_time(metadata["deletionTimestamp"]), -grace), "Deleted"


def _read_lost_time(pod: Json) -> datetime | None:
    """Time of the marks that the control plane leaves on Pods of a node which it does not hear from."""
    conditions = conditions_by_type(pod)
    ready, target = conditions.get("Ready"), conditions.get("DisruptionTarget")
    if ready and ready["status"] != "True":
        # Only the node's kubelet gives a reason: without one, and with containers that are ready, the node is silent.
        containers = mapping(conditions, "ContainersReady")
        silent = not ready.get("reason") and containers.get("status") == "True"
        if ready.get("reason") in LOST or silent:
            return parse_time(ready["lastTransitionTime"])
    # Another mark of a lost node: the taint manager deletes Pods of nodes that do not answer for five minutes.
    if target and target["status"] == "True" and target.get("reason") == TAINTED:
        return parse_time(target["lastTransitionTime"])
    return None
