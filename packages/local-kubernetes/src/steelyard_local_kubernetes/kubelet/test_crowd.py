"""Ended Pods cost nothing when another one changes: they are not looked through."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

from steelyard_common.types import Json
from steelyard_kube.events import EventRecorder
from steelyard_kube.memory import MemoryCluster
from steelyard_local_kubernetes.kubelet.guard import Guard
from steelyard_local_kubernetes.kubelet.taints import TaintEviction
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod
from steelyard_local_kubernetes.names.run import _AddressedPods

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_without_a_taint_no_pod_is_checked() -> None:
    cluster, asked = MemoryCluster(), list[int]()
    place = SimpleNamespace(cluster=cluster, events=EventRecorder(cluster, component="test", now=lambda: NOW))

    def pods() -> list[Json]:
        asked.append(1)
        return []

    node: Json = {"metadata": {"name": "node"}, "spec": {}}
    taints = TaintEviction(place, pods, lambda: node, time.monotonic)
    assert await taints.evict_some() is None
    assert not asked
    node["spec"]["taints"] = [{"key": "out", "effect": "NoExecute"}]
    assert await taints.evict_some() is None
    assert asked


async def test_the_guard_checks_pods_of_which_something_runs() -> None:
    ended = SimpleNamespace(containers=SimpleNamespace(shim_pids=dict))
    guard = Guard(0.0, lambda: [ended] * 3)  # type: ignore[list-item]
    assert not guard._check_all()
    await asyncio.sleep(0)


def pods_of(count: int, phase: str) -> Iterator[Json]:
    for number in range(count):
        pod = make_pod(make_container(), name=f"{phase}-{number}".lower())
        pod["metadata"] |= {"namespace": "default", "uid": f"{phase}-{number}"}
        yield pod | {"status": {"phase": phase, "podIP": "127.1.0.1"}}


def test_names_are_made_of_pods_that_have_an_address() -> None:
    addressed = _AddressedPods()
    addressed.begin([*pods_of(3, "Succeeded"), *pods_of(2, "Running")])
    assert len(addressed.pods()) == 2
    running = next(pods_of(1, "Running"))
    addressed.hear(running, running | {"status": {"phase": "Succeeded", "podIP": "127.1.0.1"}})
    assert len(addressed.pods()) == 1
    assert addressed.files() == {"default": ()}
    for pod in (*pods_of(3, "Succeeded"), *pods_of(2, "Running")):
        addressed.hear(pod, None)
    assert (addressed.pods(), addressed.files()) == ([], {})
