"""The metadata of every object of a server, by uid and by owner. `run.py` fills it and reads it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer
from steelyard_kube.objects import owner_references
from steelyard_kube.resource import Resource
from steelyard_kube.served import KindVersion

IGNORED = frozenset({"events"})  # many, short-lived, and without owners
KEPT = (
    *("name", "namespace", "uid", "resourceVersion"),
    *("deletionTimestamp", "finalizers", "ownerReferences"),
)
OnChange = Callable[[Resource, Json | None, Json | None], None]
"""Gets the kind of an object, and the object before and after a change."""


class Graph:
    """Objects are their metadata alone, with apiVersion and kind. They may lag behind the server."""

    def __init__(self, cluster: Cluster, on_change: OnChange) -> None:
        self._cluster, self._on_change = cluster, on_change
        self._informers: dict[Resource, Informer] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}

    def follow(self, kinds: Iterable[KindVersion]) -> None:
        """Follow what can be deleted of these kinds, each in one version, and nothing else any more."""
        kinds = list(kinds)
        self._kinds = {
            (served.resource.api_version, served.resource.kind): served.resource for served in kinds
        }
        current = {
            served.resource
            for served in kinds
            if served.preferred
            and {"delete", "list", "watch"} <= served.verbs
            and served.resource.plural not in IGNORED
        }
        for resource in self._informers.keys() - current:
            self._tasks.pop(resource).cancel()
            # Their kind may have gone with them, before the watch told of it.
            for obj in self._informers.pop(resource).items():
                self._on_change(resource, obj, None)
        for resource in current - self._informers.keys():
            informer = self._informers[resource] = self._informer(resource)
            self._tasks[resource] = asyncio.create_task(informer.run())

    async def wait_for_sync(self) -> None:
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for task in self._tasks.values():
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def resource(self, reference: Json) -> Resource | None:
        """The resource that an owner reference names, in the version that it names."""
        return self._kinds.get((reference["apiVersion"], reference["kind"]))

    def dependents(self, uid: str) -> Iterator[tuple[Resource, Json]]:
        for resource, informer in self._informers.items():
            for obj in informer.by_index("owner", uid):
                yield resource, obj

    def find(self, uid: str) -> tuple[Resource, Json] | None:
        for resource, informer in self._informers.items():
            for obj in informer.by_index("uid", uid):
                return resource, obj
        return None

    def _informer(self, resource: Resource) -> Informer:
        def on_change(old: Json | None, new: Json | None) -> None:
            self._on_change(resource, old, new)

        return Informer(
            self._cluster,
            resource,
            indexes={"uid": _uid, "owner": _owner_uids},
            transform=metadata_alone,
            on_change=on_change,
            optional=True,
            packed=True,
        )


def metadata_alone(obj: Json) -> Json:
    """The part of an object that the decisions read."""
    metadata = obj["metadata"]
    kept = {name: metadata[name] for name in KEPT if name in metadata}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": kept}


def _uid(obj: Json) -> list[str]:
    return [obj["metadata"]["uid"]]


def _owner_uids(obj: Json) -> list[str]:
    return [owner["uid"] for owner in owner_references(obj)]
