"""InferenceSession: a Deployment of the runner's replicas and a headless Service; Ready from one ready replica on."""

from dataclasses import replace
from datetime import datetime

from steelyard.operator.attempts import Situation
from steelyard.operator.children import Children, last_words, waiting_image
from steelyard.operator.conditions import Memory, Phase, condition, failed, memory_of, parse_time, status_of
from steelyard.operator.desired import Desired
from steelyard.operator.names import child_name, controller_of
from steelyard.operator.runners import runner_fault
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.times import later
from steelyard.operator.trouble import NOT_MADE
from steelyard.operator.workflows.common import before_all, ended
from steelyard.schema.steps import EXIT_PERMANENT
from steelyard.types import Json


def reconcile(session: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """What should exist for an InferenceSession."""
    at = Situation(session, children, now, settings)
    if early := before_all(at, "RunnerFailed"):
        return early
    if fault := runner_fault(session["spec"]["inferenceService"]):
        phase = failed(fault.reason, f"spec.inferenceService.{fault.message}")
        return ended(at, phase, memory_of(session))
    memory = memory_of(session)
    memory = replace(memory, started=memory.started or now)
    expires = parse_time(session["spec"]["expires"]) if session["spec"].get("expires") else None
    if expires and now >= expires:
        phase = Phase("expired", "SessionExpired", f"the session expired at {session['spec']['expires']}")
        return ended(at, phase, memory)
    return _running(at, memory, expires)


def _running(at: Situation, memory: Memory, expires: datetime | None) -> Desired:
    pods = _replicas(at)
    ready = sum(_is_ready(pod) for pod in pods)
    began = memory.started or at.now
    start = later(began, at.settings.session_start_seconds + at.settings.sleeps.since(began))
    if ready:
        memory = memory if "Started" in memory.milestones else memory.reached("Started")
    late = not ready and "Started" not in memory.milestones and at.now >= start
    if trouble := _trouble(pods, ready, at.settings) or (_start_deadline(pods, at) if late else None):
        return ended(at, trouble, memory)
    wanted = session_objects(at.resource, at.settings)
    count = at.resource["spec"].get("replicas", 1)
    if ready:
        phase = Phase("ready", "Ready", f"{ready} of {count} replicas are ready")
    else:
        waiting = _waiting_for(pods) or _not_made(at)
        phase = Phase("progressing", "Starting", waiting or f"0 of {count} replicas are ready")
    looks = [each for each in (expires, start if "Started" not in memory.milestones else None) if each]
    status = status_of(at.resource, phase, memory, at.now, ready_replicas=ready)
    return Desired(status, create=wanted, next_look=min(looks, default=None))


def _replicas(at: Situation) -> list[Json]:
    """The Pods of the session's Deployment, which are its ReplicaSets'; a label alone makes no replica."""
    prefix = child_name(at.resource["metadata"]["name"]) + "-"
    owned = ((controller_of(pod) or {}, pod) for pod in at.children.pods)
    return [
        pod
        for owner, pod in owned
        if owner.get("kind") == "ReplicaSet"
        and owner["name"].startswith(prefix)
        and not pod["metadata"].get("deletionTimestamp")
    ]


def _trouble(pods: list[Json], ready: int, settings: OperatorSettings) -> Phase | None:
    """What ends the session for good."""
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("reason") == "BoundToAllAddresses":
            return failed(
                "BoundToAllAddresses", status.get("message") or "the runner listens on all addresses"
            )
        for container in status.get("initContainerStatuses") or ():
            end = _end(container)
            if end and end.get("exitCode") == EXIT_PERMANENT:
                return failed("RunnerFailed", f"{container['name']}: {' '.join(last_words(end))}".strip())
        for container in (
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        ):
            if not ready and container.get("restartCount", 0) >= settings.runner_restarts:
                return failed("RunnerFailed", _restarts(container))
    return None


def _restarts(container: Json) -> str:
    end = _end(container) or {}
    code, message = last_words(end)
    why = " ".join(part for part in (code, message) if part) or end.get("reason", "")
    exited = f"exited {end['exitCode']}" if "exitCode" in end else "ended"
    return f"{container['name']} {exited} and was restarted {container['restartCount']} times: {why}".rstrip(
        ": "
    )


def _end(container: Json) -> Json | None:
    for word in ("state", "lastState"):
        if end := (container.get(word) or {}).get("terminated"):
            return dict(end)
    return None


def _start_deadline(pods: list[Json], at: Situation) -> Phase:
    none = "no Pod was made" if not pods else "no replica became ready"
    what = _waiting_for(pods) or _not_made(at) or _held_up(at) or none
    return failed(
        "StartDeadline", f"no replica was ready after {at.settings.session_start_seconds} s: {what}"
    )


def _waiting_for(pods: list[Json]) -> str:
    """What the replicas wait for, of the first that says."""
    for pod in pods:
        conditions = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
        scheduled = conditions.get("PodScheduled")
        if scheduled and scheduled["status"] == "False":
            return f"Unschedulable: {scheduled.get('message', '')}"
        if image := waiting_image(pod):
            return image
    return ""


def _not_made(at: Situation) -> str:
    """Why the Deployment could not make its Pods."""
    for deployment in at.children.of_kind("Deployment"):
        for entry in (deployment.get("status") or {}).get("conditions") or ():
            if entry["type"] == "ReplicaFailure" and entry["status"] == "True":
                return str(entry.get("message") or entry.get("reason") or "")
    return ""


def _held_up(at: Situation) -> str:
    """Why the Deployment itself could not be made."""
    progressing = condition(at.resource, "Progressing") or {}
    return str(progressing["message"]) if progressing.get("reason") == NOT_MADE else ""


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
