"""Dependencies of the built-in controllers: the API, a cache of it, the time, and who hears of events."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from steelyard_common.awake import SleptSince, never_slept
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.objects import is_later
from steelyard_kube.resource import Resource
from steelyard_local_kubernetes.controllers.decision import Event
from steelyard_local_kubernetes.controllers.kinds import Key


class View(Protocol):
    """A cache of the API's objects, which may lag."""

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def children(self, resource: Resource, owner: Resource, key: Key) -> Iterable[Json]:
        """The objects that name the owner as their controller, by its kind and name."""
        ...

    def in_namespace(self, resource: Resource, namespace: str) -> Iterable[Json]: ...

    def orphans(self, resource: Resource, owner: Json) -> Iterable[Json]:
        """The objects without a controller that the owner's selector may select; it need not select all of them."""
        ...


class OwnWrites:
    """Versions of owners that their own controller has written.

    A controller decides on until nothing more is to be done, so its own write is no reason to begin again. If it
    were one, a controller that is refused and writes why would be woken by that, whatever its back-off.
    """

    def __init__(self) -> None:
        self._versions: dict[str, set[str]] = {}  # by uid

    def note(self, owner: Json) -> None:
        metadata = owner["metadata"]
        self._versions.setdefault(metadata["uid"], set()).add(metadata["resourceVersion"])

    def take(self, obj: Json) -> bool:
        """Return whether the version of an object that a watch shows is an own write; it is shown once."""
        uid, version = obj["metadata"].get("uid", ""), obj["metadata"]["resourceVersion"]
        if (known := self._versions.get(uid)) is None:
            return False
        own = version in known
        if newer := {noted for noted in known if is_later(noted, version)}:
            self._versions[uid] = newer
        else:
            del self._versions[uid]
        return own

    def forget(self, obj: Json) -> None:
        """Drop the notes on an object that is gone."""
        self._versions.pop(obj["metadata"].get("uid", ""), None)


@dataclass(frozen=True)
class Edge:
    """Dependencies of a sync."""

    cluster: Cluster
    view: View
    now: Callable[[], datetime]
    record: Callable[[Json, Event], None] = lambda obj, event: None
    slept: SleptSince = never_slept
    own: OwnWrites = field(default_factory=OwnWrites)
