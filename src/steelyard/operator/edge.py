"""The edge's environment (caches, a recorder), and the errors that may interrupt it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from steelyard.operator.desired import Event
from steelyard.operator.settings import OperatorSettings
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError
from steelyard_kube.resource import Resource


class Stale(Exception):
    """The cache was behind the API. Nothing is lost: reconcile again later, from newer objects."""


class NameTaken(Exception):
    """The name of a child belongs to an object of another owner."""


class Refused(Exception):
    """The API will never accept a child as it is."""


class HeldUp(Exception):
    """The API does not accept a child for now, by its own rules and not because it is busy: a quota, a webhook, a right
    that the operator lacks. `error` is its answer.
    """

    def __init__(self, child: Json, error: ApiError) -> None:
        self.child = f"{child['kind']} {child['metadata']['name']}"
        super().__init__(f"{self.child}: {error.message}")
        self.error = error


class Defect(Exception):
    """An unexpected error. The resource's status names it by now; the resource is reconciled again later."""


@dataclass(frozen=True)
class Key:
    """Name of one resource to reconcile."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True)
class SyncResult:
    """Result of a sync: when to reconcile again, and whether at once, because its own writes call for more."""

    requeue_at: datetime | None = None
    more: bool = False


class Caches(Protocol):
    """Objects that the edge reads. They may lag behind the API."""

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        """Return the objects and the Pods that belong to a resource, or that it may adopt."""
        ...

    def settings(self) -> OperatorSettings:
        """Return the settings with the frameworks that the cluster has now."""
        ...

    def apply_write(self, obj: Json) -> bool:
        """Take over an object that the API returned for a write, before the watch shows it.

        Returns whether the cache shows the object now.
        """
        ...


class Recorder(Protocol):
    """Receiver of what the edge did: writes for the metrics, events for people."""

    def record_write(self, verb: str, owner: Json, obj: Json) -> None: ...

    def record_event(self, resource: Json, event: Event) -> None: ...


class NullRecorder:
    """Recorder that keeps nothing."""

    def record_write(self, verb: str, owner: Json, obj: Json) -> None:
        pass

    def record_event(self, resource: Json, event: Event) -> None:
        pass
