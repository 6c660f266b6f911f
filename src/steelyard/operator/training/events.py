"""Kubernetes Events about a training job, with v1's reasons and words."""

from collections.abc import Iterable
from typing import Literal

from steelyard.operator.desired import Event
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_spec
from steelyard_kube.pods import container_statuses, waiting_state

_EVENT_TYPES: dict[str, Literal["Normal", "Warning"]] = {
    "Succeeded": "Normal",
    "Failed": "Normal",
    "Restarting": "Warning",
    "Suspended": "Normal",
}
"""Types of the events that new conditions make; Created and Running make none."""
_OVERWRITTEN = "Restart policy in pod template will be overwritten by restart policy in replica spec"
_USUAL_REASONS = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that every Pod goes through."""


def status_events(resource: Json, before: Json, after: Json) -> Iterable[Event]:
    """The events of a change of status."""
    known = {_identity(condition) for condition in sequence(before, "conditions")}
    for condition in sequence(after, "conditions"):
        if _identity(condition) not in known:
            yield from _condition_events(condition)
            if condition["type"] == "Created" and _has_template_policy(read_spec(resource)):
                yield Event("Warning", "SetPodTemplateRestartPolicy", _OVERWRITTEN)
    yield from _exit_events(resource, before, after)


def _has_template_policy(spec: Json) -> bool:
    """Return whether a Pod template has a restart policy, which the replica type's policy overrides."""
    fields = [field for field in spec.values() if isinstance(field, dict)]
    types = [type for field in fields for type in field.values() if isinstance(type, dict)]
    templates = [mapping(type, "template") for type in types]
    return any(read_spec(template).get("restartPolicy") for template in templates)


def _identity(condition: Json) -> tuple[str, str, str]:
    return condition["type"], condition["status"], condition["reason"]


def _condition_events(condition: Json) -> Iterable[Event]:
    type, holds = condition["type"], condition["status"] == "True"
    if type == "Suspended" and not holds:
        yield Event("Normal", condition["reason"], condition["message"])
    elif holds and type in _EVENT_TYPES:
        yield Event(_EVENT_TYPES[type], condition["reason"], condition["message"])
    elif holds and type == "Running" and condition["reason"].startswith("MPIJob"):
        yield Event("Normal", condition["reason"], condition["message"])


def _exit_events(resource: Json, before: Json, after: Json) -> Iterable[Event]:
    """An event for each replica whose container has ended, also if it failed and starts again."""
    known = {_read_exit(entry) for entry in _replicas_and_failures(before)}
    for entry in _replicas_and_failures(after):
        if entry.get("uid") and entry.get("exitCode") is not None and _read_exit(entry) not in known:
            known.add(_read_exit(entry))
            name = f"{resource['metadata']['namespace']}.{entry.get('pod', '')}"
            yield Event("Normal", "ExitedWithCode", f"Pod: {name} exited with code {entry['exitCode']}")


def _replicas_and_failures(status: Json) -> Iterable[Json]:
    return (*sequence(status, "failures"), *sequence(status, "replicas"))


def _read_exit(entry: Json) -> tuple[str | None, int | None]:
    return entry.get("uid"), entry.get("exitCode")


def creation_event(child: Json) -> Event:
    return Event("Normal", f"SuccessfulCreate{child['kind']}", f"Created {_describe(child)}")


def not_created(child: Json, message: str) -> Event:
    return Event("Warning", f"FailedCreate{child['kind']}", f"Error creating: {message}")


def deletion_event(child: Json) -> Event:
    return Event("Normal", f"SuccessfulDelete{child['kind']}", f"Deleted {_describe(child)}")


def _describe(child: Json) -> str:
    """Kind and name, with v1's capitals: pod and service, but PodGroup."""
    kind = child["kind"]
    return f"{kind.lower() if kind in {'Pod', 'Service'} else kind}: {child['metadata']['name']}"


def expiry_event(resource: Json) -> Event:
    """The event of a job that is deleted because its time to live is over, in v1's words."""
    return Event("Normal", "SuccessfulDeleteJob", f"Deleted job: {resource['metadata']['name']}")


def pod_trouble(before: Json | None, pod: Json) -> Iterable[Event]:
    """Events of what newly keeps a Pod's containers from running, with the containers' own reasons."""
    known = set(_troubles(before)) if before else set()
    for name, reason, message in _troubles(pod):
        if (name, reason, message) not in known:
            text = f"Error pod {pod['metadata']['name']} container {name} waiting message: {message}"
            yield Event("Warning", reason, text)


def _troubles(pod: Json) -> Iterable[tuple[str, str, str]]:
    for container in container_statuses(pod):
        waiting = waiting_state(container)
        if waiting.get("reason") and waiting["reason"] not in _USUAL_REASONS:
            yield container["name"], waiting["reason"], waiting.get("message") or ""
