"""Writes of the decisions about queues. One that the API refuses is said of its job and tried again after a pause,
and all others are made: what one account may not have must stop nobody's admission.
"""

import asyncio
from collections.abc import Awaitable, Callable

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from steelyard_kube.objects import find_controller
from steelyard_kube.refusals import BUSY, Pauses
from steelyard_kube.resource import WORKLOADS, find_resource
from steelyard_local_kubernetes.controllers.decision import Event
from steelyard_local_kubernetes.queues.plan import Plan

Record = Callable[[Json, Event], None]


class Refusals:
    """The objects whose writes the API has refused, until they are tried again."""

    def __init__(self, record: Record = lambda obj, event: None) -> None:
        self._record = record
        # By the uid of the object, or of the job whose Workload is to be made.
        self._pauses: Pauses[str] = Pauses(lambda: asyncio.get_running_loop().time())

    def waits(self, obj: Json) -> bool:
        return self._pauses.holds(_uid(obj))

    def note(self, obj: Json, verb: str, error: ApiError) -> None:
        """Say of a job, or of a queue, which write was refused, and let it wait longer each time."""
        self._pauses.begin(_uid(obj))
        message = f"Error {verb[:-1]}ing {obj['kind']}: {error.message}"
        self._record(_event_object(obj), Event(f"Failed{verb.title()}", message, "Warning"))

    def forget(self, obj: Json) -> None:
        self._pauses.forget(_uid(obj))

    def next_in(self) -> float | None:
        """Return the seconds until something is to be tried again."""
        return self._pauses.next_in()


def _uid(obj: Json) -> str:
    uid = obj["metadata"].get("uid") or (find_controller(obj) or {}).get("uid")
    return str(uid)


def _event_object(obj: Json) -> Json:
    """Return whom an event is about: of a Workload, the job that it is made for."""
    owner = find_controller(obj)
    if owner is None:
        return obj
    metadata = {"name": owner["name"], "namespace": obj["metadata"]["namespace"], "uid": owner["uid"]}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": metadata}


def drop_refused(changes: Plan, refusals: Refusals) -> Plan:
    """Return the writes of objects that do not wait after a refusal."""
    return Plan(
        statuses=[(obj, status) for obj, status in changes.statuses if not refusals.waits(obj)],
        creates=[obj for obj in changes.creates if not refusals.waits(obj)],
        deletes=[obj for obj in changes.deletes if not refusals.waits(obj)],
        patches=[(obj, patch) for obj, patch in changes.patches if not refusals.waits(obj)],
    )


async def write(cluster: Cluster, changes: Plan, refusals: Refusals) -> None:
    """Write. The next round decides again about objects that have changed meanwhile."""
    for obj, status in changes.statuses:
        updated = {**obj, "status": status}
        call = cluster.replace(find_resource(obj), updated, subresource="status")
        if not await _is_made(call, obj, "update", refusals):
            return
    for obj, patch in changes.patches:
        metadata = obj["metadata"]
        guarded = {**patch, "metadata": {"resourceVersion": metadata["resourceVersion"]}}
        call = cluster.patch(find_resource(obj), metadata["name"], guarded, metadata["namespace"])
        if not await _is_made(call, obj, "update", refusals):
            return
    for obj in changes.deletes:
        metadata = obj["metadata"]
        gone = cluster.delete(WORKLOADS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        if not await _is_made(gone, obj, "delete", refusals):
            return
    for obj in changes.creates:
        if not await _is_made(cluster.create(WORKLOADS, obj), obj, "create", refusals):
            return


async def _is_made(call: Awaitable[object], obj: Json, verb: str, refusals: Refusals) -> bool:
    """Make a write; return whether the others of the same decision still hold after it."""
    try:
        await call
    except AlreadyExists as error:
        refusals.note(obj, verb, error)
    except Conflict:
        return False
    except NotFound as error:
        if verb != "create":
            return False
        refusals.note(obj, verb, error)
    except BUSY:
        raise
    except ApiError as error:
        refusals.note(obj, verb, error)
    else:
        refusals.forget(obj)
    return True
