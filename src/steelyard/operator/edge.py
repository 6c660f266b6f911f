"""What the edge needs of its surroundings: caches to read, somebody to tell; and what may come between."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from steelyard.kube.errors import ApiError
from steelyard.kube.resource import Resource
from steelyard.operator.desired import Told
from steelyard.operator.settings import OperatorSettings
from steelyard.types import Json


class Stale(Exception):
    """The cache was behind the API: look again later. Nothing was lost, the decision is made anew."""


class NameTaken(Exception):
    """A child's name belongs to something that is not the resource's."""


class Refused(Exception):
    """The API will never take a child as it is."""


class HeldUp(Exception):
    """The API does not take a child now, by its own rules and not because it is busy: a quota, a webhook, a right that
    the operator has not. `error` is its answer.
    """

    def __init__(self, child: Json, error: ApiError) -> None:
        super().__init__(f"{child['kind']} {child['metadata']['name']}: {error.message}")
        self.error = error


class Defect(Exception):
    """An unexpected error: the resource says so by now, and is reconciled again later."""


@dataclass(frozen=True)
class Key:
    """One resource to look at."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True)
class Synced:
    """What a sync did: when to look again, and whether at once, because what it wrote calls for more."""

    next_look: datetime | None = None
    more: bool = False


class Caches(Protocol):
    """What the edge reads. It may lag behind the API."""

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        """The objects and the Pods that are a resource's own, or may become so."""
        ...

    def settings(self) -> OperatorSettings:
        """With the frameworks that the cluster has."""
        ...

    def wrote(self, obj: Json) -> bool:
        """An object as the API answered a write of it, which the watch will show: whether the cache shows it now."""
        ...


class Log(Protocol):
    """Whom the edge tells what it did."""

    def wrote(self, verb: str, owner: Json, obj: Json) -> None: ...

    def told(self, resource: Json, told: Told) -> None: ...


class Silent:
    """Nobody."""

    def wrote(self, verb: str, owner: Json, obj: Json) -> None:
        pass

    def told(self, resource: Json, told: Told) -> None:
        pass
