"""What people are told of a job: v1's events, by its reasons and words."""

from collections.abc import Iterable
from typing import Literal

from steelyard.operator.desired import Told
from steelyard.types import Json

_TOLD: dict[str, Literal["Normal", "Warning"]] = {
    "Succeeded": "Normal",
    "Failed": "Normal",
    "Restarting": "Warning",
    "Suspended": "Normal",
}
"""The conditions whose coming is an event; Created and Running are not."""
_OVERWRITTEN = "Restart policy in pod template will be overwritten by restart policy in replica spec"
_WAITING = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that are the usual course."""


def told(resource: Json, before: Json, after: Json) -> Iterable[Told]:
    """The events of a change of status."""
    known = {_identity(each) for each in before.get("conditions") or ()}
    for each in after.get("conditions") or ():
        if _identity(each) not in known:
            yield from _condition(each)
            if each["type"] == "Created" and _asks_for_restarts(resource.get("spec") or {}):
                yield Told("Warning", "SetPodTemplateRestartPolicy", _OVERWRITTEN)
    yield from _exits(resource, before, after)


def _asks_for_restarts(spec: Json) -> bool:
    """Whether a template has a restart policy, which the replica type's takes the place of."""
    types = [each for field in spec.values() if isinstance(field, dict) for each in field.values()]
    templates = [each.get("template") or {} for each in types if isinstance(each, dict)]
    return any((each.get("spec") or {}).get("restartPolicy") for each in templates)


def _identity(condition: Json) -> tuple[str, str, str]:
    return condition["type"], condition["status"], condition["reason"]


def _condition(condition: Json) -> Iterable[Told]:
    type, holds = condition["type"], condition["status"] == "True"
    if type == "Suspended" and not holds:
        yield Told("Normal", condition["reason"], condition["message"])
    elif holds and type in _TOLD:
        yield Told(_TOLD[type], condition["reason"], condition["message"])
    elif holds and type == "Running" and condition["reason"].startswith("MPIJob"):
        yield Told("Normal", condition["reason"], condition["message"])


def _exits(resource: Json, before: Json, after: Json) -> Iterable[Told]:
    """A replica whose container has ended, and one that failed and starts again."""
    known = {(each.get("uid"), each.get("exitCode")) for each in before.get("replicas") or ()}
    known |= {(each.get("uid"), each.get("exitCode")) for each in before.get("failures") or ()}
    for each in (*(after.get("failures") or ()), *(after.get("replicas") or ())):
        identity = (each.get("uid"), each.get("exitCode"))
        if each.get("uid") and each.get("exitCode") is not None and identity not in known:
            known.add(identity)
            name = f"{resource['metadata']['namespace']}.{each.get('pod', '')}"
            yield Told("Normal", "ExitedWithCode", f"Pod: {name} exited with code {each['exitCode']}")


def made(child: Json) -> Told:
    return Told("Normal", f"SuccessfulCreate{child['kind']}", f"Created {_called(child)}")


def not_made(child: Json, why: str) -> Told:
    return Told("Warning", f"FailedCreate{child['kind']}", f"Error creating: {why}")


def deleted(child: Json) -> Told:
    return Told("Normal", f"SuccessfulDelete{child['kind']}", f"Deleted {_called(child)}")


def _called(child: Json) -> str:
    """v1 writes pod and service, but PodGroup."""
    kind = child["kind"]
    return f"{kind.lower() if kind in {'Pod', 'Service'} else kind}: {child['metadata']['name']}"


def ended(resource: Json) -> Told:
    """Its time to live is over."""
    return Told("Normal", "SuccessfulDeleteJob", f"Deleted job: {resource['metadata']['name']}")


def abnormal(before: Json | None, pod: Json) -> Iterable[Told]:
    """What newly keeps a Pod's container from running, said by the container's own reason."""
    known = set(_troubles(before)) if before else set()
    for name, reason, message in _troubles(pod):
        if (name, reason, message) not in known:
            text = f"Error pod {pod['metadata']['name']} container {name} waiting message: {message}"
            yield Told("Warning", reason, text)


def _troubles(pod: Json) -> Iterable[tuple[str, str, str]]:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _WAITING:
            yield each["name"], waiting["reason"], waiting.get("message") or ""
