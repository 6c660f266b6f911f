"""Workflows: how the operator manages one kind of resource. The edge is the same for all of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from steelyard.operator import conditions, trouble
from steelyard.operator.children import Children, observe
from steelyard.operator.desired import DesiredState, Event, Patch
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import conditions as training_conditions
from steelyard.operator.training import dl_job, events
from steelyard.operator.training import trouble as training_trouble
from steelyard.operator.training.observed import ownership
from steelyard.operator.workflows import (
    analysis,
    audit,
    data_source,
    dataset,
    evaluation,
    inference_service,
    inference_session,
    model,
    report,
)
from steelyard_common.types import Json
from steelyard_kube.resource import (
    ANALYSES,
    AUDITS,
    DATA_SOURCES,
    DATASETS,
    EVALUATIONS,
    INFERENCE_SERVICES,
    INFERENCE_SESSIONS,
    MODELS,
    REPORTS,
    TRAINING,
    Resource,
)

Reconcile = Callable[[Json, Children, datetime, OperatorSettings], DesiredState]


@dataclass(frozen=True)
class ChildEvents:
    """Events that a resource gets when its children are created, deleted, or in trouble."""

    created: Callable[[Json], Event]
    not_created: Callable[[Json, str], Event]
    """Takes the child and the API's message."""
    deleted: Callable[[Json], Event]
    pod_trouble: Callable[[Json | None, Json], Iterable[Event]]
    """Takes a Pod before, if it was known, and after a change."""


@dataclass(frozen=True)
class Workflow:
    """Functions in which the reconciliation of one kind differs from that of another. All are pure."""

    reconcile: Reconcile
    observe: Callable[[Json, Iterable[Json], Iterable[Json]], Children]
    name_taken: Callable[[Json, str, datetime], Json]
    """Makes the status for a child whose name another owner's object has."""
    refused: Callable[[Json, str, datetime], Json]
    """Makes the status for a child that the API called invalid."""
    held_up: Callable[[Json, str, datetime], Json] | None
    """Makes the status, from the desired one, while the API does not accept a child; None where events say it."""
    errored: Callable[[Json, str, datetime], Json]
    """Makes the status after an unexpected error."""
    recovered: Callable[[Json], Json]
    """Makes the status from the desired one, without what an earlier error left in it."""
    status_events: Callable[[Json, Json, Json], Iterable[Event]]
    """Makes the events of a change of status, from the resource and the status before and after."""
    follows: Callable[[Json, Json], bool]
    """Says whether a change of status, from before to after, calls for more work that no watch will announce."""
    release: Callable[[Json, Json], Patch | None]
    """Makes the patch that releases a child which has lost the resource's labels; None for one that stays."""
    expired: Callable[[Json], Event]
    """Makes the event of the resource's own deletion, after its time to live."""
    child_events: ChildEvents | None
    """Events about children, for kinds that announce them."""


def _refuse(reason: str) -> Callable[[Json, str, datetime], Json]:
    def refuse(resource: Json, message: str, now: datetime) -> Json:
        phase = conditions.fail(reason, message)
        return conditions.make_status(resource, phase, conditions.read_history(resource), now)

    return refuse


def _status_events(resource: Json, before: Json, after: Json) -> Iterable[Event]:
    """An event for each change of a resource's status word or reason."""
    if (before.get("status"), before.get("reason")) == (after["status"], after["reason"]):
        return
    messages = (
        condition["message"]
        for condition in after["conditions"]
        if condition["status"] == "True" and condition["message"]
    )
    bad = after["status"] in {"Failed", "Error"} or after["reason"] in {trouble.ERROR, trouble.NOT_MADE}
    yield Event("Warning" if bad else "Normal", after["reason"], next(messages, ""))


def _expiry_event(resource: Json) -> Event:
    # A training job's reason, SuccessfulDeleteJob, is v1's; of another kind, readers would expect a Job.
    kind = resource["kind"]
    message = f"Deleted {kind} {resource['metadata']['name']} after its time to live"
    return Event("Normal", f"SuccessfulDelete{kind}", message)


def _dyff(reconcile: Reconcile, invalid: str) -> Workflow:
    """Return the workflow of an evaluation kind; `invalid` is the failure's reason when the API refuses a child."""
    return Workflow(
        reconcile=reconcile,
        observe=observe,
        name_taken=_refuse("NameConflict"),
        refused=_refuse(invalid),
        held_up=trouble.record_refusal,
        errored=trouble.record_error,
        recovered=lambda desired: desired,  # every reconciliation makes all conditions again
        status_events=_status_events,
        follows=lambda before, after: False,  # the watch announces every change
        release=lambda resource, child: None,
        expired=_expiry_event,
        child_events=None,
    )


TRAINING_WORKFLOW = Workflow(
    reconcile=dl_job.reconcile,
    observe=ownership.observe,
    name_taken=training_conditions.name_conflict,
    refused=training_conditions.invalid,
    held_up=training_trouble.record_refusal,
    errored=training_trouble.record_error,
    recovered=training_trouble.clear_trouble,
    status_events=events.status_events,
    follows=training_conditions.follows,
    release=ownership.release,
    expired=events.expiry_event,
    child_events=ChildEvents(
        created=events.creation_event,
        not_created=events.not_created,
        deleted=events.deletion_event,
        pod_trouble=events.pod_trouble,
    ),
)

WORKFLOWS: Mapping[Resource, Workflow] = {
    ANALYSES: _dyff(analysis.reconcile, "BadRequest"),
    AUDITS: _dyff(audit.reconcile, "BadRequest"),
    DATA_SOURCES: _dyff(data_source.reconcile, "FetchFailed"),
    DATASETS: _dyff(dataset.reconcile, "IngestFailed"),
    EVALUATIONS: _dyff(evaluation.reconcile, "BadRequest"),
    INFERENCE_SERVICES: _dyff(inference_service.reconcile, "BuildFailed"),
    INFERENCE_SESSIONS: _dyff(inference_session.reconcile, "RunnerFailed"),
    MODELS: _dyff(model.reconcile, "FetchFailed"),
    REPORTS: _dyff(report.reconcile, "BadRequest"),
    **dict.fromkeys(TRAINING, TRAINING_WORKFLOW),
}


def workflows(settings: OperatorSettings) -> Mapping[Resource, Workflow]:
    """Return the workflows of the kinds that this operator manages."""
    kinds = frozenset(settings.training.kinds)
    return {
        resource: workflow
        for resource, workflow in WORKFLOWS.items()
        if resource not in TRAINING or resource.kind in kinds
    }
