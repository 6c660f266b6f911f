"""InferenceSession: a Deployment of the runner's replicas and a headless Service; Ready from one ready replica on."""

import signal
from dataclasses import replace
from datetime import datetime

from steelyard.operator.attempts import ReconcileContext
from steelyard.operator.children import SHELL_SIGNAL, Children, termination_message, waiting_image
from steelyard.operator.conditions import History, Phase, fail, make_status, read_history
from steelyard.operator.desired import DesiredState
from steelyard.operator.names import child_name
from steelyard.operator.runners import runner_fault
from steelyard.operator.session_objects import session_objects
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.times import later
from steelyard.operator.trouble import NOT_MADE
from steelyard.operator.workflows.common import common_decision, end
from steelyard.runners.table import kind_of_runner
from steelyard_common.types import Json
from steelyard_kube.objects import find_controller, is_deleting, read_status, true_condition
from steelyard_kube.pods import (
    all_container_statuses,
    conditions_by_type,
    find_end,
    init_container_statuses,
    is_ready,
    last_termination,
)
from steelyard_kube.times import parse_time
from steelyard_schema.steps import EXIT_PERMANENT


def reconcile(session: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for an InferenceSession."""
    context = ReconcileContext(session, children, now, settings)
    if early := common_decision(context, "RunnerFailed"):
        return early
    if fault := runner_fault(session["spec"]["inferenceService"]):
        phase = fail(fault.reason, f"spec.inferenceService.{fault.message}")
        return end(context, phase, read_history(session))
    history = read_history(session)
    history = replace(history, started=history.started or now)
    expires = parse_time(session["spec"]["expires"]) if session["spec"].get("expires") else None
    if expires and now >= expires:
        phase = Phase("expired", "SessionExpired", f"the session expired at {session['spec']['expires']}")
        return end(context, phase, history)
    return _running(context, history, expires)


def _running(context: ReconcileContext, history: History, expires: datetime | None) -> DesiredState:
    pods = _replicas(context)
    ready = sum(is_ready(pod) for pod in pods)
    began = history.started or context.now
    start = later(began, context.settings.session_start_seconds + context.settings.sleeps.since(began))
    if ready:
        history = history if "Started" in history.milestones else history.with_milestone("Started")
    # Only until the first replica was ready: later crashes are the Deployment's to mend.
    late = not ready and "Started" not in history.milestones and context.now >= start
    if trouble := _trouble(pods, ready, context) or (_start_deadline(pods, context) if late else None):
        return end(context, trouble, history)
    objects = session_objects(context.resource, context.settings)
    count = context.resource["spec"].get("replicas", 1)
    service = context.resource["spec"]["inferenceService"]
    crashed = _describe_crash([pod for pod in pods if not is_ready(pod)], service)
    if ready:
        said = f"{ready} of {count} replicas are ready"
        phase = Phase("ready", "Ready", f"{said}; {crashed}" if crashed else said)
    else:
        waiting = _waiting_for(pods) or _pod_creation_failure(context)
        reason = "RunnerCrashed" if crashed and not waiting else "Starting"
        phase = Phase("progressing", reason, waiting or crashed or f"0 of {count} replicas are ready")
    times = [time for time in (expires, start if "Started" not in history.milestones else None) if time]
    status = make_status(context.resource, phase, history, context.now, ready_replicas=ready)
    return DesiredState(status, create=objects, requeue_at=min(times, default=None))


def _replicas(context: ReconcileContext) -> list[Json]:
    """The Pods that ReplicaSets of the session's Deployment control; a label alone makes no replica."""
    prefix = child_name(context.resource["metadata"]["name"]) + "-"
    owned = ((find_controller(pod) or {}, pod) for pod in context.children.pods)
    return [
        pod
        for owner, pod in owned
        # The Pods' direct owner is a ReplicaSet, whose name Kubernetes makes from the Deployment's.
        if owner.get("kind") == "ReplicaSet" and owner["name"].startswith(prefix) and not is_deleting(pod)
    ]


def _trouble(pods: list[Json], ready: int, context: ReconcileContext) -> Phase | None:
    """The failure that ends the session for good, if there is one."""
    service = context.resource["spec"]["inferenceService"]
    for pod in pods:
        status = read_status(pod)
        if status.get("reason") == "BoundToAllAddresses":
            return fail("BoundToAllAddresses", status.get("message") or "the runner listens on all addresses")
        for container in init_container_statuses(pod):
            end = _last_end(container)
            if end and end.get("exitCode") == EXIT_PERMANENT:
                return fail(
                    "RunnerFailed", f"{container['name']}: {' '.join(termination_message(end))}".strip()
                )
        for container in all_container_statuses(pod):
            if not ready and container.get("restartCount", 0) >= context.settings.runner_restarts:
                return fail("RunnerFailed", _crash_message(container, service))
    return None


def _describe_crash(pods: list[Json], service: Json) -> str:
    """Say how the first container that crashed ended, from its first crash on; empty if none did."""
    for pod in pods:
        for container in all_container_statuses(pod):
            end = _last_end(container)
            if end is not None and end.get("exitCode") != 0:
                return _crash_message(container, service)
    return ""


def _crash_message(container: Json, service: Json) -> str:
    """Say how a container ended, how often it was started, and the line of its log that says why."""
    end = _last_end(container) or {}
    exit_code, reason = end.get("exitCode"), end.get("reason", "")
    # Not every runtime names the signal.
    after = (exit_code or 0) - SHELL_SIGNAL
    number = end.get("signal") or (after if 0 < after < signal.NSIG else 0)
    code, message = termination_message(end)
    if container["name"] == "runner" and (kind := kind_of_runner(service["runner"])):
        message = kind.last_error(message.splitlines(), number)
    why = " ".join(part for part in (code, message) if part) or (
        "" if reason == "Error" and number else reason
    )
    exited = f"exited {exit_code}" if exit_code is not None else "ended"
    if number:
        exited = f"was killed by signal {number}"
    starts = container.get("restartCount", 0) + 1
    started = "once" if starts == 1 else f"{starts} times"
    return f"{container['name']} {exited}, started {started}: {why}".rstrip(": ")


def _last_end(container: Json) -> Json | None:
    return find_end(container) or last_termination(container)


def _start_deadline(pods: list[Json], context: ReconcileContext) -> Phase:
    what = _waiting_for(pods) or _pod_creation_failure(context)
    progressing = true_condition(context.resource, "Progressing")
    if (
        not what and progressing and progressing.get("reason") == NOT_MADE
    ):  # not even the Deployment was created
        what = str(progressing["message"])
    what = what or ("no replica became ready" if pods else "no Pod was created")
    return fail(
        "StartDeadline", f"no replica was ready after {context.settings.session_start_seconds} s: {what}"
    )


def _waiting_for(pods: list[Json]) -> str:
    """Say what the replicas wait for, from the first Pod that shows it; empty if none does."""
    for pod in pods:
        scheduled = conditions_by_type(pod).get("PodScheduled")
        if scheduled and scheduled["status"] == "False":
            return f"Unschedulable: {scheduled.get('message', '')}"
        if image := waiting_image(pod):
            return image
    return ""


def _pod_creation_failure(context: ReconcileContext) -> str:
    """Return why the Deployment could not create its Pods; empty if it could."""
    for deployment in context.children.list_kind("Deployment"):
        if failure := true_condition(deployment, "ReplicaFailure"):
            return str(failure.get("message") or failure.get("reason") or "")
    return ""
