"""The result of a reconciliation: the children that should exist, those that should not, the status, the events."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from steelyard_common.types import Json


@dataclass(frozen=True)
class Precondition:
    """State of a child that a decision rests on: it has this resourceVersion or, without a version, does not exist."""

    api_version: str
    kind: str
    name: str
    version: str = ""


def require_unchanged(child: Json) -> Precondition:
    """Require that a child is still as the cache shows it."""
    metadata = child["metadata"]
    return Precondition(child["apiVersion"], child["kind"], metadata["name"], metadata["resourceVersion"])


@dataclass(frozen=True)
class Patch:
    """A merge patch of a child, guarded by its uid and resourceVersion (adoption, release, a hostfile that grows)."""

    child: Json
    patch: Json


@dataclass(frozen=True)
class Event:
    """A Kubernetes Event about the resource, recorded once its decision is carried out."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class DesiredState:
    """The answer of every `reconcile`. The edge patches, creates, deletes, then writes the status, in this order.

    `preconditions` are checked at the API itself before anything is done, because the cache may lag: they stand where a
    decision could not be taken back (a second attempt while the first is live, a failure in place of a success).
    """

    status: Json
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    requeue_at: datetime | None = None
    delete_resource: bool = False
    patch: tuple[Patch, ...] = ()
    force_delete: tuple[Json, ...] = ()
    """Children to delete without a grace period: they are being deleted, and their node is lost."""
    events: tuple[Event, ...] = ()
    without_pod: tuple[Json, ...] = ()
    """Jobs that have had no Pod for a while: events of theirs may say why."""
