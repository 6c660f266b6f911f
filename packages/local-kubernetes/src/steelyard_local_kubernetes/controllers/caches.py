"""The informers that the built-in controllers and the name service share: one list and watch per resource.

`run.py` of the package makes one and runs it; `run.py` and `names/run.py` read it and listen to it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from steelyard_common.types import Json, mapping
from steelyard_kube.cached_objects import Index
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer
from steelyard_kube.pods import active_index, is_terminal
from steelyard_kube.resource import (
    APP_WRAPPERS,
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    KUEUE,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RAY_CLUSTERS,
    RAY_JOBS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    TRAINING,
    Resource,
)
from steelyard_local_kubernetes.controllers import job
from steelyard_local_kubernetes.controllers.adoption import orphan_keys, selector_key, selects
from steelyard_local_kubernetes.controllers.kinds import KINDS, Key, find_owner
from steelyard_local_kubernetes.faults import Faults

_log = logging.getLogger(__name__)
Listener = Callable[[Resource, Json | None, Json | None], None]
BUILT_IN = (
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
    POD_DISRUPTION_BUDGETS,
)
FOLLOWED = (
    *BUILT_IN,
    RAY_CLUSTERS,
    RAY_JOBS,
    APP_WRAPPERS,
    *TRAINING,  # these and the following for queues
    *KUEUE,
)
CUSTOM = frozenset((RAY_CLUSTERS, RAY_JOBS, APP_WRAPPERS, *TRAINING, *KUEUE))
OWNER_KINDS = frozenset((*(kind.resource.kind for kind in KINDS), SERVICES.kind))
ENDED = {PODS: is_terminal, JOBS: job.is_finished}
ADOPTERS = frozenset(kind.resource for kind in KINDS if kind.adoptions)
ADOPTED = frozenset(adoption.children for kind in KINDS for adoption in kind.adoptions)


class Caches:
    """A `sync.View` over informers. Listeners hear (resource, old, new) after the cache has changed."""

    def __init__(
        self, cluster: Cluster, faults: Faults | None = None, resources: Iterable[Resource] = FOLLOWED
    ) -> None:
        """Follow `resources`; each must be served, or the caches are never filled."""
        self._listeners: list[Listener] = []
        self._faults = faults or Faults()
        self._informers = {resource: self._informer(cluster, resource) for resource in resources}
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

    async def wait_for_sync(self) -> None:
        """Wait until all caches are filled, or until `run` has ended, so that no caller waits in vain."""
        await self._settled.wait()

    async def _settle(self) -> None:
        for informer in self._informers.values():
            await informer.synced.wait()
        self._settled.set()

    def informer(self, resource: Resource) -> Informer:
        """Return the informer of a resource, for readers of other indexes than the controllers'."""
        return self._informers[resource]

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._informers[resource].get(namespace, name)

    def children(self, resource: Resource, owner: Resource, key: Key) -> Iterable[Json]:
        return self._informers[resource].by_index("owner", _owner_text(owner.kind, key))

    def in_namespace(self, resource: Resource, namespace: str) -> Iterable[Json]:
        return self._informers[resource].by_index("namespace", namespace)

    def orphans(self, resource: Resource, owner: Json) -> Iterable[Json]:
        return (
            obj for key in selector_key(owner) for obj in self._informers[resource].by_index("orphan", key)
        )

    def adopters(self, resource: Resource, obj: Json) -> Iterable[Json]:
        """The owners of a kind whose selector selects an object; none for an object that has a controller."""
        for key in orphan_keys(obj):
            for owner in self._informers[resource].by_index("selector", key):
                if selects(owner, obj):
                    yield owner

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

        indexes: dict[str, Index] = {"owner": _owners, "namespace": _namespace}
        if resource == PODS:
            indexes["unended"] = active_index
        if resource in ADOPTED:
            indexes["orphan"] = orphan_keys
        if resource in ADOPTERS:
            indexes["selector"] = selector_key
        # A server may lack the custom kinds: the controllers of the others do their work all the same.
        optional = resource in CUSTOM
        # Thousands may have ended, and they are not read again until they are deleted.
        packed = ENDED.get(resource, False)
        return Informer(
            cluster, resource, indexes=indexes, on_change=notify, optional=optional, packed=packed
        )


def _owners(obj: Json) -> list[str]:
    owner = find_owner(obj)
    return [_owner_text(*owner)] if owner and owner[0] in OWNER_KINDS else []


def _owner_text(kind: str, key: Key) -> str:
    return f"{kind}/{key[0]}/{key[1]}"


def _namespace(obj: Json) -> list[str]:
    return [obj["metadata"].get("namespace", "")]
