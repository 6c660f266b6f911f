"""A Pod's object: in which order the watch and the answers to writes may show its states."""

from steelyard_kube.memory import MemoryCluster
from steelyard_kube.objects import is_deleting
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet.pod_object import PodObject
from steelyard_local_kubernetes.kubelet.testing import make_pod


async def test_a_state_that_an_answer_has_overtaken_is_not_taken_back() -> None:
    cluster = MemoryCluster()
    created = await cluster.create(PODS, make_pod(nodeName="node"))
    pod = PodObject(cluster, created, wake=lambda: None, metadata_changed=lambda pod: None)
    labelled = await cluster.patch(PODS, "pod", {"metadata": {"labels": {"app": "two"}}}, "default")
    await cluster.delete(PODS, "pod", "default")
    await pod.write_status({"phase": "Running"})
    assert is_deleting(pod.newest), "the answer to the status is newer than what the watch has reported"
    pod.take_state(labelled)
    assert is_deleting(pod.newest)
    pod.take_state(pod.newest)  # now the watch has reported it, too
    # A server that was restored does not know of the deletion any more.
    pod.take_state(labelled)
    assert not is_deleting(pod.newest)
