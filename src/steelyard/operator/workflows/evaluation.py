"""Evaluation: a session and a client Job; once the client has succeeded, the session is deleted and a Job verifies."""

from dataclasses import replace
from datetime import datetime

from steelyard.operator.attempts import (
    WAITING_FOR_INPUT,
    ReconcileContext,
    StepProgress,
    advance,
    all_unchanged,
    find_attempts,
)
from steelyard.operator.children import Children, job_outcome
from steelyard.operator.conditions import History, Phase, fail, make_status, read_history
from steelyard.operator.desired import DesiredState
from steelyard.operator.jobs import Step, child_metadata
from steelyard.operator.names import child_name
from steelyard.operator.runners import PORT, runner_fault
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import (
    awaits_input,
    choose_reason,
    common_decision,
    end,
    following,
    sessions,
)
from steelyard_common.types import Json, mapping
from steelyard_kube.objects import true_condition

CLIENT_SUCCEEDED = "ClientSucceeded"
REASONS = frozenset(
    {"ClientFailed", "OutputInvalid", "BadRequest", "BadImage", "Timeout", "SessionFailed", "SessionEnded",
     "NameConflict", "NotImplemented", "SpendCapReached", "ProviderRefused"}
)  # fmt: skip


def reconcile(
    evaluation: Json, children: Children, now: datetime, settings: OperatorSettings
) -> DesiredState:
    """Decide what should exist for an Evaluation; a milestone, once reached, is never taken back."""
    context = ReconcileContext(evaluation, children, now, settings)
    history = read_history(evaluation)
    if early := common_decision(context, "BadRequest"):
        return early
    refers = bool(evaluation["spec"].get("inferenceSessionReference"))
    service = evaluation["spec"]["inferenceSession"]["inferenceService"]
    match CLIENT_SUCCEEDED in history.milestones, refers, runner_fault(service):
        # A milestone on record comes first: whatever happens to session and Jobs, no row is asked again.
        case True, _, _:
            return _verifying(context, history)
        case _, True, _:
            return _asking_rows(context, history, ())
        case _, _, None:
            return _with_session(context, history)
        case _, _, fault:
            where = "spec.inferenceSession.inferenceService"
            return end(context, fail(fault.reason, f"{where}.{fault.message}"), history)


def _with_session(context: ReconcileContext, history: History) -> DesiredState:
    """Create the evaluation's own session first, and the client once a replica has been ready.

    The success of a client counts whatever happens to the session afterwards.
    """
    session = context.children.find("InferenceSession", session_name(context.resource))
    clients = find_attempts(client_step(context.resource), history, context)
    outcomes = [job_outcome(job, context.children, context.now, context.settings) for job in clients.values()]
    succeeded = any(outcome.state == "succeeded" for outcome in outcomes)
    own_session = (child_session(context.resource),)
    if (
        session
        and not succeeded
        and (ending := true_condition(session, "Failed") or true_condition(session, "Expired"))
    ):
        phase = fail("SessionFailed", f"the session ended: {ending['reason']}: {ending.get('message', '')}")
        return end(context, phase, history, all_unchanged(clients))
    # Also a client that is not on record yet: the process may have died right after it created the Job.
    begun = "client" in history.attempts or any(clients.values())
    if not begun and not (session and true_condition(session, "Ready")):
        progress = true_condition(session, "Progressing") if session else None
        message = (progress or {}).get("message", "") or "the session is being created"
        crashed = (progress or {}).get("reason") == "RunnerCrashed"
        reason = "Unschedulable" if message.startswith("Unschedulable") else "SessionStarting"
        reason = "RunnerCrashed" if crashed else reason
        phase = Phase("progressing", reason, message)
        return DesiredState(make_status(context.resource, phase, history, context.now), create=own_session)
    return _asking_rows(context, history, own_session)


def _asking_rows(context: ReconcileContext, history: History, session: tuple[Json, ...]) -> DesiredState:
    """Follow the client's attempts."""
    progress = advance(client_step(context.resource), history, context)
    match progress.state:
        case "succeeded":  # the milestone is on record before the session goes, which the client needed
            reached = replace(progress, history=progress.history.with_milestone(CLIENT_SUCCEEDED))
            return following(context, Phase("progressing", "Unverified", "every row has been asked"), reached)
        case "failed":
            return following(context, fail(*choose_reason(progress, "ClientFailed", REASONS)), progress)
        case _:
            desired = following(context, Phase("progressing", *_client_reason(progress)), progress)
            return replace(desired, create=(*session, *desired.create))


def _client_reason(progress: StepProgress) -> tuple[str, str]:
    attempts = progress.history.attempts["client"]
    if progress.outcome.code == "Unschedulable":
        return "Unschedulable", progress.outcome.message
    if awaits_input(progress):
        return WAITING_FOR_INPUT, progress.outcome.message
    if attempts.number == 1:
        return "ClientRunning", progress.outcome.message
    return "Restarted", f"attempt {attempts.number}: {progress.outcome.message}".rstrip(": ")


def _verifying(context: ReconcileContext, history: History) -> DesiredState:
    """Delete the session, and follow the verification of the outputs."""
    step = Step("verify", "verify_evaluation_output", context.settings.step_deadline_seconds)
    progress = advance(step, history, context)
    match progress.state:
        case "succeeded":
            return following(
                context, Phase("complete", "Verified", "every row is there exactly once"), progress
            )
        case "failed":
            return following(context, fail(*choose_reason(progress, "OutputInvalid", REASONS)), progress)
        case _:
            phase = Phase("progressing", "Unverified", progress.outcome.message)
            return following(context, phase, progress, delete=sessions(context))


def client_step(evaluation: Json) -> Step:
    client = mapping(evaluation["spec"], "client")
    namespace = evaluation["metadata"]["namespace"]
    replicas = f"dns:{service_name(evaluation)}.{namespace}.svc:{PORT}"
    return Step("client", "evaluation_client", client.get("totalTimeoutSeconds", 7200), replicas)


def service_name(evaluation: Json) -> str:
    """Name the Service of the evaluation's own session, or of the session that it refers to."""
    reference = evaluation["spec"].get("inferenceSessionReference")
    return child_name(f"inferencesession-{reference}" if reference else session_name(evaluation))


def session_name(evaluation: Json) -> str:
    return child_name(evaluation["metadata"]["name"], "-session")


def child_session(evaluation: Json) -> Json:
    """Make the evaluation's own session: it has the same id, and does not expire."""
    spec, template = evaluation["spec"], evaluation["spec"]["inferenceSession"]
    inputs = mapping(spec, "storage", "inputs")
    storage = {
        # The session serves a model and has no use for the dataset: it is given no access to it.
        "inputs": {key: value for key, value in inputs.items() if key != "dataset"},
        **{key: value for key, value in mapping(spec, "storage").items() if key == "secret"},
    }
    secrets = {"secrets": spec["secrets"]} if spec.get("secrets") else {}
    # The evaluation ends its session itself: one that expired under a slow client would fail it.
    session = {key: value for key, value in template.items() if key != "expires"}
    return {
        "apiVersion": evaluation["apiVersion"],
        "kind": "InferenceSession",
        "metadata": child_metadata(evaluation, session_name(evaluation), "session"),
        "spec": {**session, **secrets, "id": spec["id"], "account": spec["account"], "storage": storage},
    }
