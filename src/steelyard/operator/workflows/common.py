"""Decisions that workflows share: a spec that does not parse, a finished resource, a workflow of one step."""

from collections.abc import Collection

from pydantic import ValidationError

from steelyard.operator.attempts import (
    INPUT_MISSING,
    WAITING_FOR_INPUT,
    ReconcileContext,
    StepProgress,
    advance,
)
from steelyard.operator.children import live
from steelyard.operator.conditions import History, Phase, fail, make_status, read_finish_time, read_history
from steelyard.operator.desired import DesiredState, Precondition
from steelyard.operator.jobs import Step, complete_spec
from steelyard.operator.times import later
from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting, read_status
from steelyard_schema.faults import faults_text
from steelyard_schema.resources import RESOURCES


def common_decision(context: ReconcileContext, bad_spec: str) -> DesiredState | None:
    """Decide what all workflows decide alike: about a finished resource, and about a spec that does not parse.

    `bad_spec` is the reason of the failure for the latter. None means that the workflow itself decides.
    """
    if read_finish_time(context.resource):
        return after_end(context)
    observed = read_status(context.resource).get("observedGeneration")
    if observed == context.resource["metadata"].get("generation", 1):
        return None  # this spec was checked by an earlier reconciliation
    if fault := spec_fault(context):
        return end(context, fail(bad_spec, fault), read_history(context.resource))
    return None


def spec_fault(context: ReconcileContext) -> str:
    """Say what is wrong with the spec, with the field's name; empty if it parses."""
    spec = RESOURCES[context.resource["kind"]].spec
    try:
        spec.parse(context.resource["spec"])
        complete_spec(context.resource["spec"], context.settings.storage)
    except ValidationError as error:
        return faults_text(error, "spec.", spec)
    except ValueError as error:
        return f"spec.storage: {error}"
    return ""


def after_end(context: ReconcileContext) -> DesiredState:
    """Delete what still runs of a finished resource, and the resource itself when its time to live is over.

    Nothing is deleted before the end is in the status: a process that died in between would take the missing Jobs for a
    disruption.
    """
    since, ttl = read_finish_time(context.resource), context.resource["spec"].get("ttlSecondsAfterFinished")
    status, running = dict(context.resource["status"]), still_running(context)
    if since is None or ttl is None:
        return DesiredState(status, delete=running)
    over = later(since, ttl)
    return DesiredState(status, delete=running, delete_resource=context.now >= over, requeue_at=over)


def still_running(context: ReconcileContext) -> tuple[Json, ...]:
    """Sessions and their objects, and Jobs that have not ended; ended Jobs stay for inspection."""
    if context.resource["kind"] == "InferenceSession":
        return tuple(child for child in context.children.objects if not is_deleting(child))
    jobs = (alive for job in context.children.list_kind("Job") for alive in live(job))
    return (*sessions(context), *jobs)


def sessions(context: ReconcileContext) -> tuple[Json, ...]:
    """The resource's own sessions that are not being deleted."""
    own = context.children.list_kind("InferenceSession")
    return tuple(session for session in own if not is_deleting(session))


def end(
    context: ReconcileContext, phase: Phase, history: History, preconditions: tuple[Precondition, ...] = ()
) -> DesiredState:
    return DesiredState(
        make_status(context.resource, phase, history, context.now), preconditions=preconditions
    )


def following(
    context: ReconcileContext, phase: Phase, progress: StepProgress, delete: tuple[Json, ...] = ()
) -> DesiredState:
    """Combine a status in `phase` with the writes that the step's progress calls for."""
    status = make_status(context.resource, phase, progress.history, context.now)
    delete = (*delete, *progress.delete)
    return DesiredState(
        status,
        progress.create,
        delete,
        progress.preconditions,
        progress.requeue_at,
        without_pod=progress.without_pod,
    )


REASONS = frozenset({"DigestMismatch"})
"""Reasons that the step of any kind may fail for."""


def choose_reason(progress: StepProgress, default: str, known: Collection[str]) -> tuple[str, str]:
    """Choose reason and message for a failed step: the step's own code, if the kind knows it as a reason."""
    outcome = progress.outcome
    if outcome.code in known or outcome.code in REASONS or not outcome.code:
        return outcome.code or default, outcome.message
    return default, f"{outcome.code}: {outcome.message}"


def single_step(
    context: ReconcileContext, step: Step, *, running: str, done: Phase, default: str, known: Collection[str]
) -> DesiredState:
    """Decide for a workflow that has one step: Model, Report, Analysis, Audit."""
    progress = advance(step, read_history(context.resource), context)
    match progress.state:
        case "succeeded":
            return following(context, done, progress)
        case "failed":
            return following(context, fail(*choose_reason(progress, default, known)), progress)
        case _:
            reason = WAITING_FOR_INPUT if awaits_input(progress) else running
            return following(context, Phase("progressing", reason, progress.outcome.message), progress)


def awaits_input(progress: StepProgress) -> bool:
    """Return whether the last attempt has met no input, and the next one does not run yet."""
    outcome = progress.outcome
    return outcome.state == "failed" and outcome.code == INPUT_MISSING and not outcome.counted
