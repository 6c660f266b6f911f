"""The order in which Pods are given room, and Pods that cannot be given any."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steelyard.kube.errors import ServerTimeout
from steelyard.kube.events import EventRecorder
from steelyard.kube.memory import MemoryCluster
from steelyard.kube.resource import PODS, Resource
from steelyard.local.controllers.pods import condition
from steelyard.local.faults import Faults
from steelyard.local.kubelet.config import KubeletConfig
from steelyard.local.kubelet.scheduler import BATCH, START_SECONDS, STARTING, Scheduler, in_turn
from steelyard.local.kubelet.testing import make_config, make_container, make_pod
from steelyard.types import Json

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Place:
    cluster: MemoryCluster
    config: KubeletConfig
    events: EventRecorder


class World:
    """A scheduler whose passes the test asks for."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.cluster = MemoryCluster(now=lambda: NOW)
        self.faults = Faults()
        events = EventRecorder(self.cluster, component="test", now=lambda: NOW)
        place = Place(self.cluster, make_config(folder, **config), events)
        self.clock = 0.0
        self.scheduler = Scheduler(
            place, lambda: self.cluster.store.objects(PODS), self.faults, lambda: NOW, lambda: self.clock
        )

    def put(
        self,
        name: str,
        namespace: str = "default",
        *,
        at: int = 0,
        owner: str = "",
        cpu: str = "",
        **spec: Any,
    ) -> None:
        container = make_container(resources={"requests": {"cpu": cpu}}) if cpu else make_container()
        pod = make_pod(container, name=name, **spec)
        if owner:
            pod["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
        stamp = f"2026-01-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z"
        pod["metadata"] |= {"namespace": namespace, "creationTimestamp": stamp, "uid": f"{namespace}/{name}"}
        self.cluster.store.put(pod)

    def bound(self, namespace: str = "default") -> list[str]:
        pods = self.cluster.store.objects(PODS, namespace)
        return sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))

    def run_all(self, namespace: str) -> None:
        for name in self.bound(namespace):
            self.cluster.store.set_status(PODS, name, namespace, {"phase": "Running"})

    def scheduled(self, name: str) -> Json:
        pod = self.cluster.store.find(PODS, name, "default")
        assert pod is not None
        return condition(pod, "PodScheduled") or {}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, cpu=64.0, memory=2**34)


async def test_a_namespace_with_thousands_of_pods_does_not_keep_another_waiting(world: World) -> None:
    for number in range(10 * BATCH):
        world.put(f"many-{number}", "crowd", at=number)
    await world.scheduler.bind_some()
    world.run_all("crowd")
    world.put("one", "quiet", at=50_000)
    assert await world.scheduler.bind_some(), "there is more to do"
    assert world.bound("quiet") == ["one"]
    assert len(world.bound("crowd")) == 2 * BATCH - 1


async def test_pods_that_start_do_not_keep_another_namespaces_waiting(world: World) -> None:
    """All share one kubelet: a thousand starts at once would come before another's one."""
    for number in range(3 * STARTING):
        world.put(f"many-{number}", "crowd", at=number)
    for _ in range(3):
        await world.scheduler.bind_some()
    assert len(world.bound("crowd")) == STARTING
    world.put("one", "quiet", at=50_000)
    await world.scheduler.bind_some()
    assert world.bound("quiet") == ["one"]
    world.run_all("crowd")
    await world.scheduler.bind_some()
    assert len(world.bound("crowd")) == 2 * STARTING
    world.clock += START_SECONDS + 1  # those of the second batch wait for something that does not come
    await world.scheduler.bind_some()
    assert len(world.bound("crowd")) == 3 * STARTING


def test_pods_take_turns_by_what_their_namespace_holds() -> None:
    def pod(name: str, namespace: str, at: str, priority: int = 0) -> Json:
        metadata = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": at}
        return {"metadata": metadata, "spec": {"priority": priority}}

    waiting = [
        *(pod(f"a{number}", "a", f"2026-01-01T00:00:0{number}Z") for number in range(4)),
        *(pod(f"b{number}", "b", f"2026-01-01T00:00:1{number}Z") for number in range(2)),
        pod("urgent", "a", "2026-01-01T00:00:30Z", priority=10),
    ]
    order = [pod["metadata"]["name"] for pod in in_turn(waiting, Counter(b=1))]
    assert order == ["urgent", "a0", "b0", "a1", "b1", "a2", "a3"]
    alone = [pod["metadata"]["name"] for pod in in_turn(waiting[:4], Counter(a=9))]
    assert alone == ["a0", "a1", "a2", "a3"]


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [make_container(resources={"requests": {"memory": "many"}})]},
        {"containers": [make_container(resources={"requests": {"memory": []}})]},
        {"containers": [make_container(resources={"requests": "all"})]},
        {"containers": None},
    ],
)
async def test_a_pod_that_cannot_be_read_stops_no_other(world: World, spec: dict[str, Any]) -> None:
    """Stored in spite of every check, by an older version for one."""
    world.put("bad", **spec)
    world.put("bound", **spec, nodeName="this-machine")
    world.put("good")
    assert not await world.scheduler.bind_some()
    assert world.bound() == ["bound", "good"]
    assert world.scheduled("bad")["reason"] == "SchedulerError"
    assert world.faults.of("scheduler", "Pod") == 2
    version = world.cluster.store.version
    await world.scheduler.bind_some()
    assert world.cluster.store.version == version, "said once"


async def test_what_a_pod_lacks_is_told_again_only_when_it_is_something_else(world: World) -> None:
    world.put("big", containers=[make_container(resources={"requests": {"memory": "1e999"}})])
    await world.scheduler.bind_some()
    assert "Insufficient memory" in world.scheduled("big")["message"]
    world.put("small", containers=[make_container(resources={"requests": {"memory": "1Gi"}})])
    await world.scheduler.bind_some()
    version = world.cluster.store.version
    await world.scheduler.bind_some()
    assert world.cluster.store.version == version
    assert world.bound() == ["small"]


async def test_an_owner_of_many_pods_leaves_room_to_other_namespaces(tmp_path: Path) -> None:
    world = World(tmp_path, cpu=4.0, memory=2**34)
    for number in range(40):
        world.put(f"many-{number:02}", "default", at=number, owner="a-replica-set", cpu="200m")
    world.put("quiet", "quiet", at=1000, cpu="500m")
    await world.scheduler.bind_some()
    assert len(world.bound()) == 12, "a quarter of 4 CPUs is kept, of which the other takes a half"
    assert world.bound("quiet") == ["quiet"]
    refusal = world.scheduled("many-39")
    assert "1 keeps 1 of 4 cpu for other namespaces" in refusal["message"]


async def test_who_is_alone_may_have_the_whole_node(tmp_path: Path) -> None:
    world = World(tmp_path, cpu=4.0, memory=2**34)
    for number in range(40):
        world.put(f"many-{number:02}", at=number, owner="a-replica-set", cpu="200m")
    await world.scheduler.bind_some()
    assert len(world.bound()) == 20


async def test_a_gated_pod_is_not_looked_at_until_its_gates_are_gone(world: World) -> None:
    world.put("gated", schedulingGates=[{"name": "example.com/quota"}])
    await world.scheduler.bind_some()
    said = world.scheduled("gated")
    assert (world.bound(), said["status"], said["reason"]) == ([], "False", "SchedulingGated")
    assert said["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    pod = world.cluster.store.find(PODS, "gated", "default")
    assert pod is not None
    world.cluster.store.put({**pod, "spec": {**pod["spec"], "schedulingGates": []}})
    await world.scheduler.bind_some()
    assert world.bound() == ["gated"]


async def test_a_cordoned_node_takes_no_new_pod_and_says_so(world: World) -> None:
    node = {"metadata": {"name": "this-machine"}, "spec": {"unschedulable": True}}
    world.scheduler.node_object = lambda: node
    world.put("late")
    await world.scheduler.bind_some()
    assert world.scheduled("late")["message"] == "0/1 nodes are available: 1 node(s) were unschedulable."
    node["spec"] = {}
    await world.scheduler.bind_some()
    assert world.bound() == ["late"]


async def test_two_pods_with_one_port_of_the_host_do_not_meet_in_one_pass(world: World) -> None:
    container = make_container(ports=[{"containerPort": 80, "hostPort": 8080}])
    for name in ("one", "two"):
        world.put(name, containers=[container])
    await world.scheduler.bind_some()
    assert world.bound() == ["one"]
    assert "free ports" in world.scheduled("two")["message"]


async def test_a_pod_whose_rules_cannot_be_read_stops_no_other(world: World) -> None:
    world.put("bad", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}})
    world.put("good")
    await world.scheduler.bind_some()
    assert (world.bound(), world.scheduled("bad")["reason"]) == (["good"], "SchedulerError")


async def test_a_binding_that_fails_keeps_no_other_of_its_pass_waiting(world: World) -> None:
    for name in ("a", "b", "c"):
        world.put(name)

    def lose(verb: str, resource: Resource, name: str) -> None:
        if name == "b":
            raise ServerTimeout("no answer")

    world.cluster.before_call = lose
    with pytest.raises(ServerTimeout):
        await world.scheduler.bind_some()
    assert world.bound() == ["a", "c"]
    world.cluster.before_call = None
    await world.scheduler.bind_some()
    assert world.bound() == ["a", "b", "c"]
