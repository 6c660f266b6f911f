"""A Pod as training sees it: what its framework's container does, and whether something from outside ended it.

The container of the framework decides, not the Pod's phase: a sidecar neither holds a job nor fails it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from steelyard.operator import children
from steelyard.operator.conditions import parse_time
from steelyard.operator.times import later
from steelyard.operator.training.frameworks.framework import Framework
from steelyard.operator.training.labels import ATTEMPT, REPLICA_INDEX, REPLICA_TYPE
from steelyard.operator.training.model import SHELL_SIGNAL, UNKNOWN_EXIT, Phase, Place, TrainingJob
from steelyard.types import Json

DISRUPTIONS = children.DISRUPTIONS | {"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods"}
"""Reasons of a Pod that failed without its program's doing."""
LOST = frozenset({"NodeNotReady", "NodeLost"})
TAINTED = "DeletionByTaintManager"
LAST_SIGNAL = 64
_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
_WHY = "not found|no such file|permission denied|exec format error|is a directory|not a directory"
_NO_PROGRAM = re.compile(rf"(?:\bexec\b|executable file)[^\n]*(?:{_WHY})|^[^:\n]+: (?:{_WHY})", re.IGNORECASE)
"""Messages of containerd and CRI-O, and of our kubelet: `PROGRAM: No such file or directory`."""
_SHELL_SAYS_SO = frozenset({126, 127})
"""Exit codes of shells: it may not be executed; it is not there."""
MESSAGE_LIMIT = 4096
"""Characters of a termination message that are kept: the last ones."""


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""
    at: datetime | None = None
    signalled: int | None = None

    @property
    def signal(self) -> int | None:
        """That ended it, as the runtime says or as the exit code does."""
        if self.signalled:
            return self.signalled
        number = self.exit_code - SHELL_SIGNAL
        return number if 0 < number <= LAST_SIGNAL else None

    @property
    def unstartable(self) -> bool:
        """Whether its program cannot be started at all: it is not there, or is none. Another try finds it so again.

        What else keeps a runtime from starting a container may pass: a node without room, a mount that is late.
        """
        if self.reason in _NOT_STARTED:
            return _NO_PROGRAM.search(self.message) is not None
        return self.exit_code in _SHELL_SAYS_SO


@dataclass(frozen=True)
class Seen:
    """One Pod of a replica."""

    pod: Json
    place: Place
    attempt: int
    phase: Phase
    ended: Ended | None = None
    """How its container ended, if it has for good."""
    disruption: str = ""
    """Why it ended or will end, if that is not its own doing: Evicted, Deleted …"""
    disrupted: datetime | None = None
    """Since when, where that is known."""
    in_place: int = 0
    """How often the kubelet starts its containers again, the next time included if it is bound to come."""
    last: Ended | None = None
    """How its container ended before that."""
    lost_since: datetime | None = None
    """Since when its node has not been heard of."""

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def node(self) -> str:
        return str((self.pod.get("spec") or {}).get("nodeName") or "")

    @property
    def started(self) -> datetime | None:
        text = (self.pod.get("status") or {}).get("startTime")
        return parse_time(text) if text else None

    @property
    def deleting(self) -> datetime | None:
        """When its grace period ends, if it is being deleted."""
        text = self.pod["metadata"].get("deletionTimestamp")
        return parse_time(text) if text else None

    @property
    def active(self) -> bool:
        return self.phase == "Running" and self.deleting is None

    @property
    def waiting(self) -> str:
        """Why a container does not start: ErrImagePull …"""
        containers = (self.pod.get("status") or {}).get("containerStatuses") or ()
        reasons = (((each.get("state") or {}).get("waiting") or {}).get("reason") for each in containers)
        return next((str(each) for each in reasons if each), "")


def place_of(obj: Json, framework: Framework) -> Place | None:
    """Which replica a Pod or Service is of, by its labels."""
    labels = obj["metadata"].get("labels") or {}
    role = next(
        (each.name for each in framework.roles if each.name.lower() == labels.get(REPLICA_TYPE)), None
    )
    index = str(labels.get(REPLICA_INDEX, ""))
    return Place(role, int(index)) if role and index.isdecimal() else None


def seen(pod: Json, job: TrainingJob) -> Seen | None:
    """None, if its labels name no replica."""
    place = place_of(pod, job.framework)
    if place is None:
        return None
    status = pod.get("status") or {}
    container = _main(status, job, place)
    ended, last = _ended(container, "state"), _ended(container, "lastState")
    phase = _phase(pod, ended)
    final = ended if phase in {"Succeeded", "Failed"} else None
    disruption, since = _disruption(pod, final)
    if phase == "Failed" and final is None:
        final = _before_it_began(status)
    attempt = (pod["metadata"].get("labels") or {}).get(ATTEMPT, "0")
    return Seen(
        pod=pod,
        place=place,
        attempt=int(attempt) if attempt.isdecimal() else 0,
        phase=phase,
        ended=final,
        disruption=disruption,
        disrupted=since,
        in_place=_restarts(pod),
        last=last if final else ended or last,
        lost_since=_lost_since(pod),
    )


def _main(status: Json, job: TrainingJob, place: Place) -> Json:
    role = job.roles.get(place.role)
    name = job.framework.container_of(role.template["spec"]) if role else job.framework.container
    return next((each for each in status.get("containerStatuses") or () if each["name"] == name), {})


def _ended(container: Json, which: str) -> Ended | None:
    ended = (container.get(which) or {}).get("terminated")
    if not ended:
        return None
    at = ended.get("finishedAt")
    message = (ended.get("message") or "").strip()[-MESSAGE_LIMIT:]
    return Ended(
        int(ended.get("exitCode") or 0),
        ended.get("reason") or "",
        message,
        parse_time(at) if at else None,
        ended.get("signal"),
    )


def _before_it_began(status: Json) -> Ended:
    """How a Pod failed whose container never ran: by the Pod's own word, or its init container's."""
    for each in status.get("initContainerStatuses") or ():
        ended = _ended(each, "state")
        if ended is not None and ended.exit_code:
            said = f"init container {each['name']} exited with code {ended.exit_code}: {ended.message}"
            return replace(ended, exit_code=UNKNOWN_EXIT, message=said.removesuffix(": "))
    return Ended(UNKNOWN_EXIT, status.get("reason") or "", status.get("message") or "")


def _phase(pod: Json, ended: Ended | None) -> Phase:
    phase = (pod.get("status") or {}).get("phase")
    if ended is not None:
        policy = (pod.get("spec") or {}).get("restartPolicy") or "Never"
        stays = policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0)
        if stays or phase in {"Succeeded", "Failed"}:
            return "Succeeded" if ended.exit_code == 0 else "Failed"
    match phase:
        case "Succeeded" | "Failed":
            return phase  # type: ignore[no-any-return]
        case "Running" | "Unknown":
            return "Running"
        case _:
            return "Pending"


def _restarts(pod: Json) -> int:
    """A container that has failed counts at once, not when its back-off is over."""
    policy = (pod.get("spec") or {}).get("restartPolicy")
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(each.get("restartCount") or 0) + _comes_back(each, policy) for each in containers)


def _comes_back(container: Json, policy: str | None) -> bool:
    state = container.get("state") or {}
    if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        return True
    ended = state.get("terminated")
    if not ended:
        return False
    return policy == "Always" or (policy == "OnFailure" and bool(ended.get("exitCode")))


def _disruption(pod: Json, ended: Ended | None) -> tuple[str, datetime | None]:
    """Why it ended or will end. Who ended before that was asked of it ended by itself."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed" and (reason := status.get("reason")) in DISRUPTIONS:
        return str(reason), ended.at if ended else None
    for when, why in _asked_to_end(pod):
        if ended is None or ended.at is None or ended.at >= when:
            return why, when
    return "", None


def _asked_to_end(pod: Json) -> Iterator[tuple[datetime, str]]:
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each["type"] == "DisruptionTarget" and each["status"] == "True":
            yield parse_time(each["lastTransitionTime"]), each.get("reason") or "DisruptionTarget"
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        grace = int(metadata.get("deletionGracePeriodSeconds") or 0)
        yield later(parse_time(metadata["deletionTimestamp"]), -grace), "Deleted"


def _lost_since(pod: Json) -> datetime | None:
    """By the marks that the control plane leaves on the Pods of a node which it does not hear of."""
    conditions = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    ready, target = conditions.get("Ready"), conditions.get("DisruptionTarget")
    if ready and ready["status"] != "True" and (ready.get("reason") in LOST or _unheard(ready, conditions)):
        return parse_time(ready["lastTransitionTime"])
    if target and target["status"] == "True" and target.get("reason") == TAINTED:
        return parse_time(target["lastTransitionTime"])
    return None


def _unheard(ready: Json, conditions: dict[str, Json]) -> bool:
    """Not ready although its containers were, and nobody says why: only the node's kubelet could."""
    containers = conditions.get("ContainersReady") or {}
    return not ready.get("reason") and containers.get("status") == "True"
