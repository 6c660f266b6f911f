"""The protocol between our code and a Kubernetes API: raw objects in, raw objects out.

`client.RestCluster` speaks it to a server, `memory.MemoryCluster` is the double; `simulation/contract.py` holds both to
the same rules. Refusals are the exceptions of `errors.py`.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from steelyard_common.types import Json
from steelyard_kube.resource import Resource

__all__ = [
    "Cluster",
    "Json",
    "LogLine",
    "ObjectList",
    "Patch",
    "PodLogs",
    "Resource",
    "WatchEvent",
    "WatchType",
]

Patch = Json | list[Json]  # merge patch, JSON patch
WatchType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(frozen=True)
class ObjectList:
    """Result of a list, and the resourceVersion from which a watch goes on without a gap."""

    items: list[Json]
    resource_version: str


@dataclass(frozen=True)
class WatchEvent:
    """One change; a BOOKMARK's object holds a resourceVersion only, an ERROR's object is a Status."""

    type: WatchType
    object: Json


@dataclass(frozen=True)
class LogLine:
    """One line that a container wrote, without its end, and when (RFC 3339, as the API says it)."""

    time: str
    text: str


class Cluster(Protocol):
    """A Kubernetes API. Objects belong to the caller; those of an informer's cache must not be changed."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json: ...

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        """All objects, of one namespace or of all; every item carries apiVersion and kind."""
        ...

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[ObjectList]:
        """The same in parts of one state, for who need not have all of it at once; Gone when that state is lost."""
        ...

    async def create(self, resource: Resource, obj: Json) -> Json:
        """POST into the namespace of `obj.metadata.namespace`."""
        ...

    async def replace(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        """PUT; with a resourceVersion in `obj` only if that is still the object's."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Json:
        """A dict is a merge patch, a list a JSON patch."""
        ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """NotFound when there is none, Conflict when it has another `uid` or another `resource_version`."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`; ends when the server closes; Gone when its history is lost."""
        ...

    async def close(self) -> None: ...


class PodLogs(Protocol):
    """Access to the logs of containers. It is apart from `Cluster`, because few programs read logs."""

    def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        since: str = "",
        tail: int | None = None,
    ) -> AsyncIterator[LogLine]:
        """Lines in order. `follow` goes on until the container ends; `since` is a time, whose whole second may come
        again; `previous` is the container before its last restart. ApiError 400 where it has not started."""
        ...
