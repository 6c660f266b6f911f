"""The informers that the built-in controllers and the name service share: one list and watch per resource.

`service.run_kubernetes` makes one and runs it; `run.py` and `names/run.py` read it and listen to it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from steelyard.kube.cluster import Cluster
from steelyard.kube.informer import Informer
from steelyard.kube.resource import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from steelyard.local.controllers.sync import KINDS, Key, owner_key
from steelyard.local.faults import Faults
from steelyard.types import Json, mapping

_log = logging.getLogger(__name__)
Listener = Callable[[Resource, Json | None, Json | None], None]
FOLLOWED = (
    PODS,
    JOBS,
    REPLICA_SETS,
    DEPLOYMENTS,
    SERVICES,
    ENDPOINT_SLICES,
    STATEFUL_SETS,
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    CRON_JOBS,
)
OWNERS = (*(kind.resource for kind in KINDS), SERVICES)


class Caches:
    """A `sync.View` over informers. Listeners hear (resource, old, new) after the cache has changed."""

    def __init__(self, cluster: Cluster, faults: Faults | None = None) -> None:
        self._listeners: list[Listener] = []
        self._faults = faults or Faults()
        self._informers = {resource: self._informer(cluster, resource) for resource in FOLLOWED}
        self._settled = asyncio.Event()

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop`."""
        tasks = [asyncio.create_task(informer.run()) for informer in self._informers.values()]
        stopping, settling = asyncio.create_task(stop.wait()), asyncio.create_task(self._settle())
        try:
            done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, stopping, settling):
                task.cancel()
            await asyncio.gather(*tasks, stopping, settling, return_exceptions=True)
            self._settled.set()

    async def synced(self) -> None:
        """Wait until all caches are filled, or until `run` has ended, so that nobody waits for what will not
        come.
        """
        await self._settled.wait()

    async def _settle(self) -> None:
        for informer in self._informers.values():
            await informer.synced.wait()
        self._settled.set()

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._informers[resource].get(namespace, name)

    def children(self, resource: Resource, owner: Resource, key: Key) -> Iterable[Json]:
        return self._informers[resource].by_index("owner", _owner_text(owner, key))

    def in_namespace(self, resource: Resource, namespace: str) -> Iterable[Json]:
        return self._informers[resource].by_index("namespace", namespace)

    def all(self, resource: Resource) -> Iterable[Json]:
        return self._informers[resource].items()

    def _informer(self, cluster: Cluster, resource: Resource) -> Informer:
        def notify(old: Json | None, new: Json | None) -> None:
            for listener in self._listeners:
                try:
                    listener(resource, old, new)
                except Exception:  # noqa: BLE001 - the others' changes must go on to be heard
                    self._faults.count("caches", resource.kind)
                    metadata = mapping(old or new, "metadata")
                    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
                    _log.exception("a change of %s %s was not heard", resource.kind, name)

        indexes = {"owner": _owners, "namespace": _namespace}
        return Informer(cluster, resource, indexes=indexes, on_change=notify)


def _owners(obj: Json) -> list[str]:
    keys = ((owner, owner_key(obj, owner)) for owner in OWNERS)
    return [_owner_text(owner, key) for owner, key in keys if key]


def _owner_text(owner: Resource, key: Key) -> str:
    return f"{owner.kind}/{key[0]}/{key[1]}"


def _namespace(obj: Json) -> list[str]:
    return [obj["metadata"].get("namespace", "")]
