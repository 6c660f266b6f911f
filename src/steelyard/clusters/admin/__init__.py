"""Queues for administrators: flavours, cluster queues, local queues, cohorts, priority classes."""

from collections.abc import Mapping, Sequence

from steelyard.clusters.admin.cohorts import CohortView, cohort_views
from steelyard.clusters.admin.config import (
    ClusterQueueConfig,
    CohortConfig,
    FlavorConfig,
    FlavorQuota,
    LocalQueueConfig,
    PriorityClassConfig,
    Quota,
    QuotaGroup,
)
from steelyard.clusters.admin.usage import ClusterQueueView, Usage, list_usage
from steelyard.clusters.blocking import Sync, blocking
from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import NotFound, Unsupported
from steelyard.clusters.kinds import (
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    Kind,
)
from steelyard.clusters.queues.view import QueueView
from steelyard_common.types import Json

__all__ = [
    "Admin",
    "AsyncAdmin",
    "ClusterQueueConfig",
    "ClusterQueueView",
    "CohortConfig",
    "CohortView",
    "FlavorConfig",
    "FlavorQuota",
    "LocalQueueConfig",
    "PriorityClassConfig",
    "Quota",
    "QuotaGroup",
    "Usage",
]
QueueConfig = FlavorConfig | ClusterQueueConfig | CohortConfig | LocalQueueConfig | PriorityClassConfig


class AsyncAdmin:
    """Administration of queues."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, config: QueueConfig) -> Json:
        """Make a flavour, a cluster queue, a cohort, a local queue or a priority class. Raises AlreadyExists."""
        kind, obj = await self._object(config)
        return await self._connection.create(kind, obj)

    async def apply(self, config: QueueConfig, *, force: bool = False) -> Json:
        """Make or change an object of a queue by server-side apply. Raises Conflict, unless `force`."""
        kind, obj = await self._object(config)
        return await self._connection.apply(kind, obj, force=force)

    async def flavors(self) -> Sequence[str]:
        """Return the names of the flavours."""
        return sorted(obj["metadata"]["name"] for obj in await self._connection.list(RESOURCE_FLAVOR))

    async def priority_classes(self) -> Mapping[str, int]:
        """Return the priorities by the name of their class."""
        classes = await self._connection.list(PRIORITY_CLASS)
        return {obj["metadata"]["name"]: int(obj.get("value") or 0) for obj in classes}

    async def cluster_queues(self) -> Sequence[ClusterQueueView]:
        """Return the cluster queues by name."""
        views = map(ClusterQueueView, await self._connection.list(CLUSTER_QUEUE))
        return sorted(views, key=lambda view: view.name)

    async def local_queues(self) -> Sequence[QueueView]:
        """Return the local queues of all namespaces."""
        views = map(QueueView, await self._connection.list(LOCAL_QUEUE, everywhere=True))
        return sorted(views, key=lambda view: (view.namespace, view.name))

    async def cohorts(self) -> Sequence[CohortView]:
        """Return the cohorts by name, also those that only cluster queues name: they lend each other quota."""
        queues = await self.cluster_queues()
        try:
            objects = await self._connection.list(COHORT)
        except Unsupported:  # older releases of Kueue have cohorts by name alone
            objects = []
        return cohort_views(objects, queues)

    async def cohort(self, name: str) -> CohortView:
        """Return a cohort. Raises NotFound."""
        view = next((view for view in await self.cohorts() if view.name == name), None)
        if view is None:
            raise NotFound(f"there is no Cohort {name}, and no cluster queue names it", 404, "NotFound")
        return view

    async def usage(self) -> Sequence[Usage]:
        """Return quota and usage of every cluster queue, flavour and resource. One request."""
        return [usage for view in await self.cluster_queues() for usage in list_usage(view)]

    async def drain(self, name: str, *, evict: bool = True) -> None:
        """Stop a cluster queue, and evict what runs; with `evict=False`, let it run to its end."""
        await self._stop(name, "HoldAndDrain" if evict else "Hold")

    async def resume(self, name: str) -> None:
        """Let a stopped cluster queue admit again."""
        await self._stop(name, "None")

    async def delete(self, config: QueueConfig) -> None:
        """Delete what a configuration describes. Raises NotFound."""
        kind, obj = await self._object(config)
        await self._connection.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"))

    async def _stop(self, name: str, policy: str) -> None:
        await self._connection.patch(CLUSTER_QUEUE, name, {"spec": {"stopPolicy": policy}})

    async def _object(self, config: QueueConfig) -> tuple[Kind, Json]:
        match config:
            case FlavorConfig():
                return RESOURCE_FLAVOR, config.manifest()
            case PriorityClassConfig():
                return PRIORITY_CLASS, config.manifest()
            case LocalQueueConfig():
                return LOCAL_QUEUE, config.manifest(self._connection.resolve_namespace(config.namespace))
            case ClusterQueueConfig():
                version = (await self._connection.resource(CLUSTER_QUEUE)).version
                return CLUSTER_QUEUE, config.manifest(version)
            case CohortConfig():
                return COHORT, config.manifest((await self._connection.resource(COHORT)).version)


class Admin(Sync):
    """Administration of queues."""

    create = blocking(AsyncAdmin.create)
    apply = blocking(AsyncAdmin.apply)
    flavors = blocking(AsyncAdmin.flavors)
    priority_classes = blocking(AsyncAdmin.priority_classes)
    cluster_queues = blocking(AsyncAdmin.cluster_queues)
    local_queues = blocking(AsyncAdmin.local_queues)
    cohorts = blocking(AsyncAdmin.cohorts)
    cohort = blocking(AsyncAdmin.cohort)
    usage = blocking(AsyncAdmin.usage)
    drain = blocking(AsyncAdmin.drain)
    resume = blocking(AsyncAdmin.resume)
    delete = blocking(AsyncAdmin.delete)
