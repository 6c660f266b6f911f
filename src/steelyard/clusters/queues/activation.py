"""The stop and the resumption of what stands in a queue: by its Workload, because Kueue overwrites its `suspend`."""

from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import Unsupported
from steelyard.clusters.kinds import WORKLOAD
from steelyard.clusters.queues.view import WorkloadView
from steelyard.clusters.ray import names
from steelyard.clusters.reading import text
from steelyard_common.types import Json
from steelyard_kube.objects import read_labels


async def set_active(connection: Connection, job: Json, active: bool) -> bool:
    """Stop or resume the job by its Workload, and return True; False if it is in no queue or has no Workload.

    Raises Forbidden where the Workloads may not be read, because Kueue would undo a change of the job itself.
    """
    if not read_labels(job).get(names.QUEUE):
        return False
    namespace, uid = text(job, "metadata", "namespace"), text(job, "metadata", "uid")
    try:
        views = [WorkloadView(obj) for obj in await connection.list(WORKLOAD, namespace)]
    except Unsupported:
        return False
    own = next((view for view in views if view.stands_for(uid)), None)
    if own is None:
        return False
    patch: Json = {"spec": {"active": active}}
    await connection.patch(WORKLOAD, own.name, patch, own.namespace)
    return True
