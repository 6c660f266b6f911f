"""The Node's Lease: made once, then renewed."""

from datetime import UTC, datetime

from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import LEASES, NODES
from steelyard_local_kubernetes.kubelet.heartbeat import NAMESPACE, renew


async def test_the_lease_of_a_node_is_made_and_renewed() -> None:
    cluster = MemoryCluster()
    node = await cluster.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    await renew(cluster, "n", datetime(2026, 1, 1, tzinfo=UTC))
    made = await cluster.get(LEASES, "n", NAMESPACE)
    assert made["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert made["spec"]["holderIdentity"] == "n"
    assert made["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    await renew(cluster, "n", datetime(2026, 1, 2, tzinfo=UTC))
    renewed = await cluster.get(LEASES, "n", NAMESPACE)
    assert renewed["spec"]["renewTime"] == "2026-01-02T00:00:00.000000Z"
    assert renewed["metadata"]["uid"] == made["metadata"]["uid"]
