"""The group `client.queues`: LocalQueues, workloads, and why something waits."""

from collections.abc import Sequence
from datetime import UTC, datetime

from steelyard.clusters.blocking import Sync, blocking
from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import NotFound
from steelyard.clusters.kinds import LOCAL_QUEUE, WORKLOAD
from steelyard.clusters.queues.view import QueuePosition, QueueView, WorkloadView, find_position
from steelyard_common.types import Json


class AsyncQueues:
    """Queues of Kueue, as a user of a namespace sees them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, namespace: str | None = None, *, everywhere: bool = False) -> Sequence[QueueView]:
        """Return the LocalQueues by name. Raises Unsupported where there is no Kueue."""
        queues = map(QueueView, await self._connection.list(LOCAL_QUEUE, namespace, everywhere=everywhere))
        return sorted(queues, key=lambda queue: (queue.namespace, queue.name))

    async def get(self, name: str, namespace: str | None = None) -> QueueView:
        """Return a LocalQueue. Raises NotFound."""
        return QueueView(await self._connection.get(LOCAL_QUEUE, name, namespace))

    async def workloads(
        self, namespace: str | None = None, *, queue: str | None = None, everywhere: bool = False
    ) -> Sequence[WorkloadView]:
        """Return the workloads, the oldest first; of one queue if it is named."""
        objects = await self._connection.list(WORKLOAD, namespace, everywhere=everywhere)
        views = [WorkloadView(obj) for obj in objects]
        views.sort(key=lambda view: (str(view.resource["metadata"].get("creationTimestamp")), view.name))
        return [view for view in views if queue in (None, view.queue)]

    async def place(
        self, name: str, namespace: str | None = None, *, kind: str = "RayCluster"
    ) -> QueuePosition:
        """Return the place of an object in its queue, and why it waits. Raises NotFound if it has no workload."""
        views = await self.workloads(namespace)
        view = next((view for view in views if f"{kind}/{name}" == view.owner or view.name == name), None)
        if view is None:
            raise NotFound(f"{kind} {name} has no workload: it is in no queue", 404, "NotFound")
        place = find_position(_uid(view.resource), views, datetime.now(UTC))
        assert place is not None
        return place


class Queues(Sync):
    """Queues of Kueue, as a user of a namespace sees them."""

    list = blocking(AsyncQueues.list)
    get = blocking(AsyncQueues.get)
    workloads = blocking(AsyncQueues.workloads)
    place = blocking(AsyncQueues.place)


def _uid(workload: Json) -> str:
    owners = workload["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))
