"""Evaluation: a session and a client Job; when the client has succeeded the session goes and a verify Job runs."""

from dataclasses import replace
from datetime import datetime

from steelyard.operator.attempts import Progress, Situation, advance, as_seen, attempted
from steelyard.operator.children import Children, job_outcome
from steelyard.operator.conditions import Memory, Phase, condition, failed, memory_of, status_of
from steelyard.operator.desired import Desired
from steelyard.operator.jobs import Step, child_metadata
from steelyard.operator.names import child_name
from steelyard.operator.runners import PORT, runner_fault
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import before_all, ended, following, reason_of, sessions
from steelyard.types import Json

CLIENT_SUCCEEDED = "ClientSucceeded"
REASONS = frozenset(
    {"ClientFailed", "OutputInvalid", "BadRequest", "BadImage", "Timeout", "SessionFailed", "SessionEnded",
     "NameConflict", "NotImplemented"}
)  # fmt: skip


def reconcile(evaluation: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """What should exist for an Evaluation; a milestone once reached is never taken back."""
    at = Situation(evaluation, children, now, settings)
    memory = memory_of(evaluation)
    if early := before_all(at, "BadRequest"):
        return early
    refers = bool(evaluation["spec"].get("inferenceSessionReference"))
    match CLIENT_SUCCEEDED in memory.milestones, refers, runner_fault(_service(evaluation)):
        case True, _, _:
            return _verifying(at, memory)
        case _, True, _:
            return _asking(at, memory, ())
        case _, _, None:
            return _with_session(at, memory)
        case _, _, fault:
            where = "spec.inferenceSession.inferenceService"
            return ended(at, failed(fault.reason, f"{where}.{fault.message}"), memory)


def _with_session(at: Situation, memory: Memory) -> Desired:
    """The evaluation's own session first; the client once a replica has been ready.

    A client that has succeeded has, whatever became of the session.
    """
    session = at.children.named("InferenceSession", session_name(at.resource))
    clients = attempted(client_step(at.resource), memory, at)
    outcomes = [job_outcome(job, at.children, at.now, at.settings) for job in clients.values()]
    succeeded = any(outcome.state == "succeeded" for outcome in outcomes)
    wanted = (child_session(at.resource),)
    if session and not succeeded and (end := condition(session, "Failed") or condition(session, "Expired")):
        phase = failed("SessionFailed", f"the session ended: {end['reason']}: {end.get('message', '')}")
        return ended(at, phase, memory, as_seen(clients))
    begun = "client" in memory.attempts or any(clients.values())
    if not begun and not (session and condition(session, "Ready")):
        progress = condition(session, "Progressing") if session else None
        message = (progress or {}).get("message", "") or "the session is being made"
        reason = "Unschedulable" if message.startswith("Unschedulable") else "SessionStarting"
        phase = Phase("progressing", reason, message)
        return Desired(status_of(at.resource, phase, memory, at.now), create=wanted)
    return _asking(at, memory, wanted)


def _asking(at: Situation, memory: Memory, session: tuple[Json, ...]) -> Desired:
    """The client's attempts."""
    progress = advance(client_step(at.resource), memory, at)
    match progress.state:
        case "succeeded":  # the milestone is written before the next step begins
            reached = replace(progress, memory=progress.memory.reached(CLIENT_SUCCEEDED))
            return following(at, Phase("progressing", "Unverified", "every row has been asked"), reached)
        case "failed":
            return following(at, failed(*reason_of(progress, "ClientFailed", REASONS)), progress)
        case _:
            wanted = following(at, Phase("progressing", *_asking_reason(progress)), progress)
            return replace(wanted, create=(*session, *wanted.create))


def _asking_reason(progress: Progress) -> tuple[str, str]:
    attempts = progress.memory.attempts["client"]
    if progress.outcome.code == "Unschedulable":
        return "Unschedulable", progress.outcome.message
    if attempts.number == 1:
        return "ClientRunning", progress.outcome.message
    return "Restarted", f"attempt {attempts.number}: {progress.outcome.message}".rstrip(": ")


def _verifying(at: Situation, memory: Memory) -> Desired:
    """The session goes, and the outputs are verified."""
    step = Step("verify", "verify_evaluation_output", at.settings.step_deadline_seconds)
    progress = advance(step, memory, at)
    match progress.state:
        case "succeeded":
            return following(at, Phase("complete", "Verified", "every row is there exactly once"), progress)
        case "failed":
            return following(at, failed(*reason_of(progress, "OutputInvalid", REASONS)), progress)
        case _:
            phase = Phase("progressing", "Unverified", progress.outcome.message)
            return following(at, phase, progress, delete=sessions(at))


def client_step(evaluation: Json) -> Step:
    client = evaluation["spec"].get("client") or {}
    namespace = evaluation["metadata"]["namespace"]
    replicas = f"dns:{service_name(evaluation)}.{namespace}.svc:{PORT}"
    return Step("client", "evaluation_client", client.get("totalTimeoutSeconds", 7200), replicas)


def service_name(evaluation: Json) -> str:
    """The Service of the evaluation's own session, or of the one referred to, which the platform names."""
    reference = evaluation["spec"].get("inferenceSessionReference")
    return child_name(f"inferencesession-{reference}" if reference else session_name(evaluation))


def session_name(evaluation: Json) -> str:
    return child_name(evaluation["metadata"]["name"], "-session")


def child_session(evaluation: Json) -> Json:
    """The evaluation's own session: same id, no expiry of its own."""
    spec, asked = evaluation["spec"], evaluation["spec"]["inferenceSession"]
    inputs = (spec.get("storage") or {}).get("inputs") or {}
    storage = {
        "inputs": {key: value for key, value in inputs.items() if key != "dataset"},
        **{key: value for key, value in (spec.get("storage") or {}).items() if key == "secret"},
    }
    session = {key: value for key, value in asked.items() if key != "expires"}
    return {
        "apiVersion": evaluation["apiVersion"],
        "kind": "InferenceSession",
        "metadata": child_metadata(evaluation, session_name(evaluation), "session"),
        "spec": {**session, "id": spec["id"], "account": spec["account"], "storage": storage},
    }


def _service(evaluation: Json) -> Json:
    return dict(evaluation["spec"]["inferenceSession"]["inferenceService"])
