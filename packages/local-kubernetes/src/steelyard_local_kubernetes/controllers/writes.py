"""Writes of a controller, and what it says of those that the API refuses.

A refusal is an event of the owner and, where the kind has one, a condition; then the work queue backs off. The
condition keeps the words of the first refusal, as on a cluster: messages name the child, a request or a time, and a
status that differs at each try would be a write without end.
"""

import logging
from datetime import datetime

from steelyard_common.types import Json, sequence
from steelyard_kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from steelyard_kube.objects import find_controller, read_annotations, read_status
from steelyard_kube.resource import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    RAY_CLUSTERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
    find_resource,
)
from steelyard_local_kubernetes.controllers.adoption import claim_children, may_adopt
from steelyard_local_kubernetes.controllers.decision import FAILURE, Decision, Event, with_condition
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import KINDS
from steelyard_local_kubernetes.controllers.pods import make_condition
from steelyard_local_kubernetes.controllers.ray import status as ray_status

_log = logging.getLogger(__name__)
TAKEN = 2  # names that turn out to be others' in one sync; one more is a refusal


class Refused(ApiError):
    """The API does not accept a write for an owner. It is never taken for an answer about the owner itself."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message, status=error.status, reason=error.reason, details=error.details)


async def write_owner(edge: Edge, resource: Resource, owner: Json, decision: Decision) -> Json:
    """Write the status, record the events; return the owner as it is then."""
    if decision.status is not None or decision.annotations:
        status = read_status(owner) if decision.status is None else decision.status
        updated = {**owner, "status": status}
        if decision.annotations:
            annotations = {**read_annotations(owner), **decision.annotations}
            updated["metadata"] = {**owner["metadata"], "annotations": annotations}
        owner = await edge.cluster.replace(resource, updated, subresource="status")
        edge.own.note(owner)
    record_events(edge, owner, decision)
    return owner


def record_events(edge: Edge, owner: Json, decision: Decision) -> None:
    for event in decision.events:
        edge.record(owner, event)


async def write_children(edge: Edge, owner: Json, decision: Decision, taken: set[str]) -> list[Json] | None:
    """The API's answers; None when some object is another than expected, or is deleted."""
    answers = [await _create(edge, owner, child, taken) for child in decision.create]
    answers += [await _patch(edge, owner, obj, patch) for obj, patch in decision.patch]
    answers += [
        await _patch(edge, owner, obj, {"status": status}, "status") for obj, status in decision.statuses
    ]
    for obj in decision.delete:
        await _delete(edge, owner, obj)
    written = [child for child in answers if child is not None]
    return None if decision.delete or len(written) < len(answers) else written


async def _create(edge: Edge, owner: Json, obj: Json, taken: set[str]) -> Json | None:
    resource, metadata = find_resource(obj), obj["metadata"]
    try:
        created = await edge.cluster.create(resource, obj)
    except AlreadyExists as error:
        try:
            there = await edge.cluster.get(resource, metadata["name"], metadata.get("namespace"))
        except NotFound:
            return None
        if await _is_anothers(edge, owner, there):
            # A name that was chosen gives way to another one. One that is fixed, or one after the other, does not.
            if metadata["name"] in taken or len(taken) >= TAKEN:
                raise await refusal(edge, owner, "create", error) from error
            taken.add(metadata["name"])
        return None
    except ApiError as error:
        raise await refusal(edge, owner, "create", error) from error
    if event := _success(owner, obj, "create"):
        edge.record(owner, event)
    return created


async def _is_anothers(edge: Edge, owner: Json, there: Json) -> bool:
    """Return whether an object with the name of a child belongs to another owner for good.

    An object without a controller, which the cache did not show yet, is adopted here if it may be. One whose owner is
    gone will be collected or released: it is waited for.
    """
    controller = find_controller(there)
    if controller is None:
        adoptions = (
            adoption for kind in KINDS if kind.resource == find_resource(owner) for adoption in kind.adoptions
        )
        candidates = [adoption for adoption in adoptions if may_adopt(owner, there, adoption)]
        await claim_children(edge.cluster, owner, [(adoption, [there]) for adoption in candidates], [])
        return not candidates
    if controller["uid"] == owner["metadata"]["uid"]:
        return False
    resource = find_resource(owner)
    if (controller["apiVersion"], controller["kind"]) != (resource.api_version, resource.kind):
        return True
    try:
        alive = await edge.cluster.get(resource, controller["name"], owner["metadata"].get("namespace"))
    except NotFound:
        return False
    return bool(alive["metadata"]["uid"] == controller["uid"])


async def _patch(edge: Edge, owner: Json, obj: Json, patch: Json, subresource: str = "") -> Json | None:
    resource, metadata = find_resource(obj), obj["metadata"]
    try:
        after = await edge.cluster.patch(
            resource, metadata["name"], patch, metadata.get("namespace"), subresource=subresource
        )
    except NotFound:
        return None
    except Conflict:
        raise
    except ApiError as error:
        raise await refusal(edge, owner, "update", error) from error
    if after["metadata"]["uid"] == owner["metadata"]["uid"]:
        edge.own.note(after)
    return after


async def _delete(edge: Edge, owner: Json, obj: Json) -> None:
    resource, metadata = find_resource(obj), obj["metadata"]
    try:
        await edge.cluster.delete(resource, metadata["name"], metadata["namespace"], uid=metadata["uid"])
    except (NotFound, Conflict):
        return  # gone, or already another's
    except ApiError as error:
        raise await refusal(edge, owner, "delete", error) from error
    if obj is not owner and (event := _success(owner, obj, "delete")):
        edge.record(owner, event)


# ---- events and conditions


def _success(owner: Json, obj: Json, verb: str) -> Event | None:
    """Return the event about a child that was created or deleted, as the owner's controller words it."""
    resource, name, reason = find_resource(obj), obj["metadata"]["name"], f"Successful{verb.title()}"
    word = f"{verb.title()}d {resource.kind.lower()}"
    match find_resource(owner):
        case r if r == CRON_JOBS:
            return Event(reason, f"{word} {name}")
        case r if r == STATEFUL_SETS:
            in_set = f"in StatefulSet {owner['metadata']['name']}"
            if resource == CONTROLLER_REVISIONS:
                return None
            if resource == PERSISTENT_VOLUME_CLAIMS:
                pod = f"{owner['metadata']['name']}-{name.rpartition('-')[2]}"
                return Event(reason, f"{verb} Claim {name} Pod {pod} {in_set} success")
            return Event(reason, f"{verb} Pod {name} {in_set} successful")
        case _:
            return Event(reason, f"{word}: {name}")


async def refusal(edge: Edge, owner: Json, verb: str, error: ApiError) -> Refused:
    """Say of the owner what the API has refused; return the error that lets it wait."""
    reason = f"Failed{verb.title()}"
    edge.record(owner, Event(reason, f"Error {verb[:-1]}ing: {error.message}", "Warning"))
    if verb == "create":
        await say_failure(edge, owner, reason, error.message)
    return Refused(error)


async def say_failure(edge: Edge, owner: Json, reason: str, message: str) -> None:
    """The condition that shows why an owner lacks children, of the kinds that have one."""
    resource, metadata = find_resource(owner), owner["metadata"]
    if resource not in (DEPLOYMENTS, REPLICA_SETS, RAY_CLUSTERS):
        return
    try:
        there = await edge.cluster.get(resource, metadata["name"], metadata.get("namespace"))
        failure = make_condition(there, ray_status.FAILURE if resource == RAY_CLUSTERS else FAILURE)
        if failure and (failure["status"], failure.get("reason")) == ("True", reason):
            return
        status = _failure_event(there, reason, message, edge.now())
        after = await edge.cluster.replace(resource, {**there, "status": status}, subresource="status")
    except ApiError as error:
        _log.warning("%s %s: %s", resource.kind, metadata["name"], error)
    else:
        edge.own.note(after)


def _failure_event(owner: Json, reason: str, message: str, now: datetime) -> Json:
    """Return the status with the failure in it."""
    if find_resource(owner) == RAY_CLUSTERS:
        return ray_status.failure_status(owner, reason, message, now)
    status = read_status(owner)
    failure = {"type": FAILURE, "status": "True", "reason": reason, "message": message}
    conditions = with_condition(
        list(sequence(status, "conditions")), failure, now, stamp="lastTransitionTime"
    )
    return {**status, "conditions": conditions}
