"""What a decision is: the children that should exist, those that should not, the status, the next look."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from steelyard.types import Json


@dataclass(frozen=True)
class Premise:
    """Something that a decision rests on: the child is as the cache shows it; without a version, it is gone."""

    api_version: str
    kind: str
    name: str
    version: str = ""


def unchanged(child: Json) -> Premise:
    metadata = child["metadata"]
    return Premise(child["apiVersion"], child["kind"], metadata["name"], metadata["resourceVersion"])


@dataclass(frozen=True)
class Patch:
    """A merge patch of a child, guarded by its uid and resourceVersion (adoption, release, a hostfile that grows)."""

    child: Json
    patch: Json


@dataclass(frozen=True)
class Told:
    """An event about the resource, recorded once its decision is carried out."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class Desired:
    """The answer of every `reconcile`. The edge patches, creates, deletes, then writes the status, in this order.

    `premises` are checked at the API itself before anything is done, because the cache may lag: they stand where
    a decision could not be taken back (another attempt beside a live one, a failure in place of a success).
    """

    status: Json
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    premises: tuple[Premise, ...] = ()
    next_look: datetime | None = None
    delete_resource: bool = False
    patch: tuple[Patch, ...] = ()
    force_delete: tuple[Json, ...] = ()
    """Children that are being deleted and will not end by themselves: their node is lost. Without a grace period."""
    tell: tuple[Told, ...] = ()
