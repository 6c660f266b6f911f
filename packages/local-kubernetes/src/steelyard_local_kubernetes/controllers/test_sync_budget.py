"""The status of a disruption budget follows its Pods."""

from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import POD_DISRUPTION_BUDGETS, PODS
from steelyard_local_kubernetes.controllers.caches import FOLLOWED
from steelyard_local_kubernetes.controllers.objects import edge, make_pod
from steelyard_local_kubernetes.controllers.run import COUNTED
from steelyard_local_kubernetes.controllers.sync_budget import sync_budget
from steelyard_local_kubernetes.controllers.test_disruption import make_budget


async def test_the_status_of_a_budget_follows_its_pods() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_budget(minAvailable=1))
    for name in ("a", "b"):
        cluster.store.put(make_pod(name, ready=True))
    assert await _allowed(cluster) == 1
    await cluster.delete(PODS, "a", "default")
    assert await _allowed(cluster) == 0
    version = cluster.store.version
    await sync_budget(edge(cluster), ("default", "b"))
    assert cluster.store.version == version
    assert {POD_DISRUPTION_BUDGETS, *COUNTED} <= set(FOLLOWED)


async def _allowed(cluster: MemoryCluster) -> int:
    await sync_budget(edge(cluster), ("default", "b"))
    return int((await cluster.get(POD_DISRUPTION_BUDGETS, "b", "default"))["status"]["disruptionsAllowed"])
