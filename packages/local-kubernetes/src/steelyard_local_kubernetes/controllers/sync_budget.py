"""The edge of the disruption controller, which `sync.py` does not cover: a budget has no children, only a status that
counts Pods."""

from contextlib import suppress

from steelyard_common.types import Json
from steelyard_kube.errors import Conflict, NotFound
from steelyard_kube.resource import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from steelyard_local_kubernetes.controllers import disruption
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import Key

_SCALED = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "Deployment": DEPLOYMENTS}


async def sync_budget(edge: Edge, key: Key) -> float | None:
    """Bring one PodDisruptionBudget's status to what it should be; the seconds until the next reconciliation, if any.

    The cache may lag. An eviction that it has not seen has changed the budget's version, so this write is refused.
    """
    cached = edge.view.get(POD_DISRUPTION_BUDGETS, *key)
    if cached is None:
        return None

    def owner(kind: str, name: str) -> Json | None:
        resource = _SCALED.get(kind)
        return edge.view.get(resource, key[0], name) if resource else None

    status, again = disruption.decide(cached, edge.view.in_namespace(PODS, key[0]), owner, edge.now())
    if status is not None:
        with suppress(NotFound, Conflict):  # the cache hears of it, and so does this controller
            updated = {**cached, "status": status}
            await edge.cluster.replace(POD_DISRUPTION_BUDGETS, updated, subresource="status")
    return again
