"""A workflow: how the operator looks after one kind of resource. The edge is the same for all of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from steelyard.kube.resource import (
    AUDITS,
    EVALUATIONS,
    INFERENCE_SERVICES,
    INFERENCE_SESSIONS,
    MODELS,
    REPORTS,
    TRAINING,
    Resource,
)
from steelyard.operator import conditions, trouble
from steelyard.operator.children import Children, observe
from steelyard.operator.desired import Desired, Patch, Told
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import dl_job, events, status
from steelyard.operator.training import trouble as training_trouble
from steelyard.operator.training.observed import ownership
from steelyard.operator.workflows import (
    audit,
    evaluation,
    inference_service,
    inference_session,
    model,
    report,
)
from steelyard.types import Json

Reconcile = Callable[[Json, Children, datetime, OperatorSettings], Desired]


@dataclass(frozen=True)
class Workflow:
    """What differs from kind to kind. All of it is pure."""

    reconcile: Reconcile
    observe: Callable[[Json, Iterable[Json], Iterable[Json]], Children]
    name_taken: Callable[[Json, str, datetime], Json]
    """The status when a child's name is another's."""
    refused: Callable[[Json, str, datetime], Json]
    """The status when the API found a child invalid."""
    held_up: Callable[[Json, str, datetime], Json] | None
    """The status, from the one that was decided on, while the API does not take a child; None: events say it."""
    errored: Callable[[Json, str, datetime], Json]
    """The status after an unexpected error."""
    recovered: Callable[[Json], Json]
    """The status that was decided on, without what an earlier error left in it."""
    told: Callable[[Json, Json, Json], Iterable[Told]]
    """The events of a change of status, from the resource, the status before and after."""
    follows: Callable[[Json, Json], bool]
    """Whether, after this change of status, there may be more to do, of which no watch will tell."""
    release: Callable[[Json, Json], Patch | None]
    """How a child is let go that the resource controls, and that is not its own any more; None: it is."""
    tells_children: bool
    """Whether each child that is made or deleted is an event."""


def _name_taken(resource: Json, message: str, now: datetime) -> Json:
    phase = conditions.failed("NameConflict", message)
    return conditions.status_of(resource, phase, conditions.memory_of(resource), now)


def _refused(reason: str) -> Callable[[Json, str, datetime], Json]:
    def refused(resource: Json, message: str, now: datetime) -> Json:
        phase = conditions.failed(reason, message)
        return conditions.status_of(resource, phase, conditions.memory_of(resource), now)

    return refused


def _unchanged(status: Json) -> Json:
    """Every decision writes all conditions anew."""
    return status


def _told(resource: Json, before: Json, after: Json) -> Iterable[Told]:
    """An event for each change of where a resource stands."""
    if (before.get("status"), before.get("reason")) == (after["status"], after["reason"]):
        return
    messages = (
        each["message"] for each in after["conditions"] if each["status"] == "True" and each["message"]
    )
    bad = after["status"] in {"Failed", "Error"} or after["reason"] in {trouble.ERROR, trouble.NOT_MADE}
    yield Told("Warning" if bad else "Normal", after["reason"], next(messages, ""))


def _told_by_watch(before: Json, after: Json) -> bool:
    return False


def _kept(resource: Json, child: Json) -> None:
    return None


def _dyff(reconcile: Reconcile, invalid: str) -> Workflow:
    """`invalid` is the reason of a failure for a child that the API found invalid."""
    return Workflow(
        reconcile=reconcile,
        observe=observe,
        name_taken=_name_taken,
        refused=_refused(invalid),
        held_up=trouble.held_up,
        errored=trouble.errored,
        recovered=_unchanged,
        told=_told,
        follows=_told_by_watch,
        release=_kept,
        tells_children=False,
    )


TRAINING_WORKFLOW = Workflow(
    reconcile=dl_job.reconcile,
    observe=ownership.observe,
    name_taken=status.name_conflict,
    refused=status.invalid,
    held_up=None,
    errored=training_trouble.errored,
    recovered=training_trouble.recovered,
    told=events.told,
    follows=status.follows,
    release=ownership.release,
    tells_children=True,
)

WORKFLOWS: Mapping[Resource, Workflow] = {
    AUDITS: _dyff(audit.reconcile, "BadRequest"),
    EVALUATIONS: _dyff(evaluation.reconcile, "BadRequest"),
    INFERENCE_SERVICES: _dyff(inference_service.reconcile, "BuildFailed"),
    INFERENCE_SESSIONS: _dyff(inference_session.reconcile, "RunnerFailed"),
    MODELS: _dyff(model.reconcile, "FetchFailed"),
    REPORTS: _dyff(report.reconcile, "BadRequest"),
    **dict.fromkeys(TRAINING, TRAINING_WORKFLOW),
}


def workflows(settings: OperatorSettings) -> Mapping[Resource, Workflow]:
    """Those of the kinds that this operator looks after."""
    kinds = frozenset(settings.training.kinds)
    return {each: how for each, how in WORKFLOWS.items() if each not in TRAINING or each.kind in kinds}
