"""Makes a status command about an entity from the conditions of its resource. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime

from steelyard.broker.log import Message
from steelyard.services.orchestrator.manifest import ENTITY, KIND, KUBE
from steelyard.services.status_commands import NAMESPACE, Status, command_id, status_command
from steelyard.telemetry.tracing import valid
from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations, read_labels
from steelyard_schema.names import TRACE, resource_kind, resource_name
from steelyard_schema.status import failure_status

_PROGRESS: dict[str, dict[str, str]] = {
    "Evaluation": {
        "SessionStarting": "Incomplete",
        "ClientRunning": "Incomplete",
        "Unschedulable": "Incomplete",
        "RunnerCrashed": "RunnerCrashed",
        "Unverified": "Unverified",
        "Restarted": "Restarted",
    },
    "InferenceSession": {"Starting": "Starting", "RunnerCrashed": "RunnerCrashed"},
}
"""Reasons of the condition Progressing that become the entity's reason; others are for readers of the resource."""


@dataclass(frozen=True)
class Observation:
    """The status that a resource shows, and the time since which it does."""

    status: Status
    time: datetime


def read_status(resource: Json) -> Observation | None:
    """Return what the resource's conditions mean for its entity; None while they mean nothing yet."""
    holding = {
        condition["type"]: condition
        for condition in _conditions(resource)
        if condition.get("status") == "True"
    }
    for kind in ("Failed", "Expired", "Complete", "Ready", "Progressing"):
        if kind in holding:
            status = _entity_status(entity_kind(resource), kind, holding[kind])
            return Observation(status, datetime.fromisoformat(holding[kind]["lastTransitionTime"]))
    return None


def _conditions(resource: Json) -> list[Json]:
    # A resource that is older than its schema may hold what the schema would refuse.
    status = resource.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(conditions, list):
        return []
    return [condition for condition in conditions if isinstance(condition, dict)]


def _entity_status(kind: str, condition: str, content: Json) -> Status:
    reason, message = content.get("reason") or None, content.get("message") or None
    match condition:
        case "Failed":
            return Status(failure_status(kind), reason, message)
        case "Expired":
            return Status("Terminated", "SessionExpired", message)
        case "Complete":
            return Status("Complete")
        case "Ready":
            return Status("Admitted" if kind == "InferenceSession" else "Ready")
        case _:
            return Status("Admitted", _PROGRESS.get(kind, {}).get(reason or ""), message)


def entity_kind(resource: Json) -> str:
    """Return the kind of the resource's entity; its label says it, for a kind of resource that serves several."""
    kind: str | None = read_labels(resource).get(KIND)
    return kind if kind and resource_kind(kind) == resource["kind"] else resource["kind"]


def entity_id(resource: Json) -> str | None:
    """Return the id of the resource's entity; None unless the labels and the resource's name agree on it."""
    metadata, kind = resource["metadata"], entity_kind(resource)
    id: str | None = read_labels(resource).get(ENTITY)
    return id if id and kind in KUBE and metadata["name"] == resource_name(kind, id) else None


def slim(resource: Json) -> Json:
    """Return the parts that `make_command` reads; tens of thousands of resources are kept in memory."""
    metadata = resource["metadata"]
    kept = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    kept["labels"] = {key: value for key, value in read_labels(resource).items() if key in (ENTITY, KIND)}
    if trace := read_annotations(resource).get(TRACE):
        kept["annotations"] = {TRACE: trace}
    conditions = [condition for condition in _conditions(resource) if condition.get("status") == "True"]
    return {"kind": resource["kind"], "metadata": kept, "status": {"conditions": conditions}}


def make_command(resource: Json, observed: Observation, command: str | None = None) -> Message:
    """Return the command for what a resource shows; `command` is its id.

    Without one, the id follows from the resource's version: what two informers send counts once.
    """
    id, metadata = entity_id(resource), resource["metadata"]
    assert id
    command = command or command_id("informer", metadata["uid"], metadata["resourceVersion"])
    message = status_command(
        id,
        entity_kind(resource),
        observed.status,
        source="informer",
        time=observed.time,
        command=command,
        traceparent=valid(read_annotations(resource).get(TRACE)),
    )
    # Who may write in any namespace can claim any entity by label and name. The aggregator knows the entity's account.
    return replace(message, headers={**message.headers, NAMESPACE: metadata["namespace"]})
