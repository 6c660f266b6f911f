"""The order in which Pods are given room, and Pods that cannot be given any."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import ServerTimeout
from steelyard_kube.events import EventRecorder
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS, Resource
from steelyard_local_kubernetes.controllers.pods import make_condition
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.scheduler import BATCH, START_SECONDS, STARTING, Scheduler, in_turn
from steelyard_local_kubernetes.kubelet.testing import make_config, make_container, make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class NodeContext:
    cluster: MemoryCluster
    config: KubeletConfig
    events: EventRecorder


class Simulation:
    """A scheduler whose passes the test asks for."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.cluster = MemoryCluster(now=lambda: NOW)
        self.faults = Faults()
        events = EventRecorder(self.cluster, component="test", now=lambda: NOW)
        place = NodeContext(self.cluster, make_config(folder, **config), events)
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
        return make_condition(pod, "PodScheduled") or {}


@pytest.fixture
def simulation(tmp_path: Path) -> Simulation:
    return Simulation(tmp_path, cpu=64.0, memory=2**34)


async def test_a_namespace_with_thousands_of_pods_does_not_keep_another_waiting(
    simulation: Simulation,
) -> None:
    for number in range(10 * BATCH):
        simulation.put(f"many-{number}", "crowd", at=number)
    await simulation.scheduler.bind_some()
    simulation.run_all("crowd")
    simulation.put("one", "quiet", at=50_000)
    assert await simulation.scheduler.bind_some(), "there is more to do"
    assert simulation.bound("quiet") == ["one"]
    assert len(simulation.bound("crowd")) == 2 * BATCH - 1


async def test_pods_that_start_do_not_keep_another_namespaces_waiting(simulation: Simulation) -> None:
    """All share one kubelet: a thousand starts at once would come before another's one."""
    for number in range(3 * STARTING):
        simulation.put(f"many-{number}", "crowd", at=number)
    for _ in range(3):
        await simulation.scheduler.bind_some()
    assert len(simulation.bound("crowd")) == STARTING
    simulation.put("one", "quiet", at=50_000)
    await simulation.scheduler.bind_some()
    assert simulation.bound("quiet") == ["one"]
    simulation.run_all("crowd")
    await simulation.scheduler.bind_some()
    assert len(simulation.bound("crowd")) == 2 * STARTING
    simulation.clock += START_SECONDS + 1  # those of the second batch wait for something that does not come
    await simulation.scheduler.bind_some()
    assert len(simulation.bound("crowd")) == 3 * STARTING


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
async def test_a_pod_that_cannot_be_read_stops_no_other(simulation: Simulation, spec: dict[str, Any]) -> None:
    """Stored in spite of every check, by an older version for one."""
    simulation.put("bad", **spec)
    simulation.put("bound", **spec, nodeName="this-machine")
    simulation.put("good")
    assert not await simulation.scheduler.bind_some()
    assert simulation.bound() == ["bound", "good"]
    assert simulation.scheduled("bad")["reason"] == "SchedulerError"
    assert simulation.faults.number("scheduler", "Pod") == 2
    version = simulation.cluster.store.version
    await simulation.scheduler.bind_some()
    assert simulation.cluster.store.version == version, "said once"


async def test_what_a_pod_lacks_is_reported_again_only_when_it_is_something_else(
    simulation: Simulation,
) -> None:
    simulation.put("big", containers=[make_container(resources={"requests": {"memory": "1e999"}})])
    await simulation.scheduler.bind_some()
    assert "Insufficient memory" in simulation.scheduled("big")["message"]
    simulation.put("small", containers=[make_container(resources={"requests": {"memory": "1Gi"}})])
    await simulation.scheduler.bind_some()
    version = simulation.cluster.store.version
    await simulation.scheduler.bind_some()
    assert simulation.cluster.store.version == version
    assert simulation.bound() == ["small"]


async def test_an_owner_of_many_pods_leaves_room_to_other_namespaces(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, cpu=4.0, memory=2**34)
    for number in range(40):
        simulation.put(f"many-{number:02}", "default", at=number, owner="a-replica-set", cpu="200m")
    simulation.put("quiet", "quiet", at=1000, cpu="500m")
    await simulation.scheduler.bind_some()
    assert len(simulation.bound()) == 12, "a quarter of 4 CPUs is kept, of which the other takes a half"
    assert simulation.bound("quiet") == ["quiet"]
    refusal = simulation.scheduled("many-39")
    assert "1 keeps 1 of 4 cpu for other namespaces" in refusal["message"]


async def test_who_is_alone_may_have_the_whole_node(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, cpu=4.0, memory=2**34)
    for number in range(40):
        simulation.put(f"many-{number:02}", at=number, owner="a-replica-set", cpu="200m")
    await simulation.scheduler.bind_some()
    assert len(simulation.bound()) == 20


async def test_a_gated_pod_is_not_scheduled_until_its_gates_are_gone(simulation: Simulation) -> None:
    simulation.put("gated", schedulingGates=[{"name": "example.com/quota"}])
    await simulation.scheduler.bind_some()
    said = simulation.scheduled("gated")
    assert (simulation.bound(), said["status"], said["reason"]) == ([], "False", "SchedulingGated")
    assert said["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    pod = simulation.cluster.store.find(PODS, "gated", "default")
    assert pod is not None
    simulation.cluster.store.put({**pod, "spec": {**pod["spec"], "schedulingGates": []}})
    await simulation.scheduler.bind_some()
    assert simulation.bound() == ["gated"]


async def test_a_cordoned_node_takes_no_new_pod_and_says_so(simulation: Simulation) -> None:
    node = {"metadata": {"name": "this-machine"}, "spec": {"unschedulable": True}}
    simulation.scheduler.node_object = lambda: node
    simulation.put("late")
    await simulation.scheduler.bind_some()
    assert simulation.scheduled("late")["message"] == "0/1 nodes are available: 1 node(s) were unschedulable."
    node["spec"] = {}
    await simulation.scheduler.bind_some()
    assert simulation.bound() == ["late"]


async def test_two_pods_with_one_port_of_the_host_do_not_meet_in_one_pass(simulation: Simulation) -> None:
    container = make_container(ports=[{"containerPort": 80, "hostPort": 8080}])
    for name in ("one", "two"):
        simulation.put(name, containers=[container])
    await simulation.scheduler.bind_some()
    assert simulation.bound() == ["one"]
    assert "free ports" in simulation.scheduled("two")["message"]


async def test_a_pod_whose_rules_cannot_be_read_stops_no_other(simulation: Simulation) -> None:
    simulation.put(
        "bad", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
    )
    simulation.put("good")
    await simulation.scheduler.bind_some()
    assert (simulation.bound(), simulation.scheduled("bad")["reason"]) == (["good"], "SchedulerError")


async def test_a_binding_that_fails_keeps_no_other_of_its_pass_waiting(simulation: Simulation) -> None:
    for name in ("a", "b", "c"):
        simulation.put(name)

    def lose(verb: str, resource: Resource, name: str) -> None:
        if name == "b":
            raise ServerTimeout("no answer")

    simulation.cluster.before_call = lose
    with pytest.raises(ServerTimeout):
        await simulation.scheduler.bind_some()
    assert simulation.bound() == ["a", "c"]
    simulation.cluster.before_call = None
    await simulation.scheduler.bind_some()
    assert simulation.bound() == ["a", "b", "c"]
