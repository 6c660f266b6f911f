"""The Node's Lease in `kube-node-lease`, by which clients such as `kubectl describe node` know that a kubelet runs."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.resource import LEASES, NODES

NAMESPACE = "kube-node-lease"
RENEW_SECONDS = 300.0
"""Seconds between two renewals. Nothing here evicts Pods by the Lease, and each renewal is a write to the disk."""
_DURATION = 4 * int(RENEW_SECONDS)  # seconds; four renewals, as a real kubelet has it

_log = logging.getLogger(__name__)


async def renew_for_ever(cluster: Cluster, node: str, now: Callable[[], datetime]) -> None:
    """Renew the Lease of a node that is registered."""
    while True:
        try:
            await renew(cluster, node, now())
        except ApiError as error:
            _log.warning("the Lease of node %s cannot be renewed: %s", node, error)
        await asyncio.sleep(RENEW_SECONDS)


async def renew(cluster: Cluster, node: str, moment: datetime) -> None:
    spec: Json = {
        "holderIdentity": node,
        "leaseDurationSeconds": _DURATION,
        "renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    try:
        await cluster.patch(LEASES, node, {"spec": spec}, NAMESPACE)
    except NotFound:
        uid = (await cluster.get(NODES, node))["metadata"]["uid"]
        # It goes with the Node.
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        metadata = {"name": node, "namespace": NAMESPACE, "ownerReferences": [owner]}
        await cluster.create(
            LEASES,
            {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec},
        )
