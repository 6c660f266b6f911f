"""The Deployment controller: replica sets, rolling updates, revisions and deadlines."""

from datetime import UTC, datetime, timedelta
from typing import Any

from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.pods import is_ready, read_phase
from steelyard_kube.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from steelyard_local_kubernetes.controllers.deployment import REVISION, template_hash
from steelyard_local_kubernetes.controllers.kinds import DEPLOYMENT, REPLICA_SET
from steelyard_local_kubernetes.controllers.objects import TEMPLATE, edge, make_deployment
from steelyard_local_kubernetes.controllers.pods import make_condition
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "demo")


class Simulation:
    """A Deployment on the in-memory cluster; `settle` syncs everything until nothing changes, each time twice."""

    def __init__(self, **spec: Any) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = MemoryCluster(now=lambda: self.time)
        self.cluster.store.create(DEPLOYMENTS, make_deployment(**spec))
        self.edge = edge(self.cluster)
        self.fewest_ready = self.most_pods = -1

    async def sync_all(self) -> None:
        await sync(self.edge, DEPLOYMENT, KEY)
        for replica_set in self.replica_sets:
            await sync(self.edge, REPLICA_SET, ("default", replica_set["metadata"]["name"]))

    async def settle(self) -> None:
        for _ in range(30):
            before = self.cluster.store.version
            await self.sync_all()
            if self.cluster.store.version == before:
                await self.sync_all()
                assert self.cluster.store.version == before
                return
        raise AssertionError("the Deployment does not come to rest")

    async def roll(self) -> None:
        """Settle, with every new Pod getting ready one by one, and watch the bounds."""
        self.fewest_ready, self.most_pods = (
            len([pod for pod in self.pods if is_ready(pod)]),
            len(self.pods),
        )
        for _ in range(50):
            await self.settle()
            unready = [pod for pod in self.pods if not is_ready(pod)]
            self.most_pods = max(self.most_pods, len(self.pods))
            self.fewest_ready = min(self.fewest_ready, len(self.pods) - len(unready))
            if not unready:
                return
            self.make_ready(unready[0])
        raise AssertionError("the roll-out does not end")

    def make_ready(self, pod: Json) -> None:
        stamp = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp}
        status = {"phase": "Running", "conditions": [ready]}
        self.cluster.store.set_status(PODS, pod["metadata"]["name"], "default", status)

    def change(self, image: str) -> None:
        template = {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": image}]}}
        self.edit(template=template)

    def edit(self, **spec: Any) -> None:
        old = self.deployment
        self.cluster.store.put({**old, "spec": {**old["spec"], **spec}})

    @property
    def deployment(self) -> Json:
        stored = self.cluster.store.find(DEPLOYMENTS, "demo", "default")
        assert stored is not None
        return stored

    @property
    def replica_sets(self) -> list[Json]:
        return self.cluster.store.objects(REPLICA_SETS)

    @property
    def pods(self) -> list[Json]:
        return self.cluster.store.objects(PODS)

    def reason(self, kind: str) -> str:
        return str((make_condition(self.deployment, kind) or {}).get("reason"))


async def test_a_deployment_makes_one_replica_set_and_its_pods() -> None:
    simulation = Simulation(replicas=3)
    await simulation.roll()
    (replica_set,) = simulation.replica_sets
    mark = template_hash(simulation.deployment)
    assert replica_set["metadata"]["name"] == f"demo-{mark}"
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in simulation.pods} == {mark}
    assert len(simulation.pods) == 3
    status = simulation.deployment["status"]
    assert (status["readyReplicas"], status["updatedReplicas"], status["availableReplicas"]) == (3, 3, 3)
    assert (simulation.reason("Available"), simulation.reason("Progressing")) == (
        "MinimumReplicasAvailable",
        "NewReplicaSetAvailable",
    )
    assert simulation.deployment["metadata"]["annotations"][REVISION] == "1"


async def test_scaling_keeps_the_ready_pods() -> None:
    simulation = Simulation(replicas=3)
    await simulation.settle()
    keep = simulation.pods[1]
    simulation.make_ready(keep)
    simulation.edit(replicas=1)
    await simulation.settle()
    assert [pod["metadata"]["uid"] for pod in simulation.pods] == [keep["metadata"]["uid"]]


async def test_a_pod_deleted_by_hand_is_made_again() -> None:
    simulation = Simulation(replicas=2)
    await simulation.settle()
    gone = simulation.pods[0]["metadata"]
    simulation.cluster.store.remove(PODS, gone["name"], "default")
    await simulation.settle()
    assert len(simulation.pods) == 2
    assert gone["uid"] not in {pod["metadata"]["uid"] for pod in simulation.pods}


async def test_a_pod_does_not_get_the_name_of_one_that_is_gone() -> None:
    simulation, names = Simulation(replicas=1), list[str]()
    for _ in range(4):
        await simulation.settle()
        (pod,) = simulation.pods
        names.append(pod["metadata"]["name"])
        simulation.cluster.store.remove(PODS, names[-1], "default")
    assert len(set(names)) == 4


async def test_a_failed_pod_is_replaced() -> None:
    simulation = Simulation(replicas=1)
    await simulation.settle()
    simulation.cluster.store.set_status(
        PODS, simulation.pods[0]["metadata"]["name"], "default", {"phase": "Failed"}
    )
    await simulation.settle()
    assert sorted(read_phase(pod) for pod in simulation.pods) == ["Failed", "Pending"]


async def test_a_rolling_update_stays_within_its_bounds() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    simulation = Simulation(replicas=4, strategy=rolling)
    await simulation.roll()
    simulation.change("y")
    await simulation.roll()
    assert {pod["spec"]["containers"][0]["image"] for pod in simulation.pods} == {"y"}
    assert (len(simulation.pods), simulation.fewest_ready >= 3, simulation.most_pods <= 5) == (4, True, True)
    assert sorted(replica_set["spec"]["replicas"] for replica_set in simulation.replica_sets) == [0, 4]
    assert simulation.deployment["metadata"]["annotations"][REVISION] == "2"


async def test_a_template_taken_up_again_is_the_newest_revision() -> None:
    simulation = Simulation(replicas=1)
    await simulation.roll()
    for image in ("y", "z", "y"):
        simulation.change(image)
        await simulation.roll()
    name = "deployment.kubernetes.io/revision"
    notes = {
        replica_set["metadata"]["annotations"][name]: replica_set["spec"]["replicas"]
        for replica_set in simulation.replica_sets
    }
    assert notes == {"1": 0, "3": 0, "4": 1}
    assert simulation.deployment["metadata"]["annotations"][name] == "4"
    histories = [
        replica_set["metadata"]["annotations"].get(f"{name}-history")
        for replica_set in simulation.replica_sets
    ]
    assert sorted(map(str, histories)) == ["2", "None", "None"]


async def test_new_pods_beyond_the_desired_number_count_as_unavailable() -> None:
    simulation = Simulation(replicas=2)
    await simulation.roll()
    simulation.change("y")
    await simulation.settle()
    status = simulation.deployment["status"]
    assert (status["replicas"], status["availableReplicas"], status["unavailableReplicas"]) == (3, 2, 1)


async def test_recreate_ends_the_old_pods_first() -> None:
    simulation = Simulation(replicas=2, strategy={"type": "Recreate"})
    await simulation.roll()
    simulation.change("y")
    images = []
    for _ in range(12):
        await simulation.sync_all()
        images.append({pod["spec"]["containers"][0]["image"] for pod in simulation.pods})
    assert {"x", "y"} not in images
    assert images[-1] == {"y"}


async def test_old_replica_sets_are_kept_up_to_the_limit() -> None:
    simulation = Simulation(replicas=1, revisionHistoryLimit=1)
    for image in ("a", "b", "c"):
        simulation.change(image)
        await simulation.roll()
    assert len(simulation.replica_sets) == 2


async def test_a_roll_out_that_stalls_says_so_after_its_deadline() -> None:
    simulation = Simulation(progressDeadlineSeconds=60)
    await simulation.settle()
    assert simulation.reason("Progressing") == "ReplicaSetUpdated"
    assert 59 <= (await sync(simulation.edge, DEPLOYMENT, KEY) or 0) <= 60
    simulation.time += timedelta(seconds=61)
    await simulation.settle()
    assert simulation.reason("Progressing") == "ProgressDeadlineExceeded"
    for pod in simulation.pods:
        simulation.make_ready(pod)
    await simulation.settle()
    assert simulation.reason("Progressing") == "NewReplicaSetAvailable"


async def test_min_ready_seconds_delays_availability() -> None:
    simulation = Simulation(replicas=1, minReadySeconds=10)
    await simulation.settle()
    simulation.make_ready(simulation.pods[0])
    await simulation.settle()
    name = simulation.replica_sets[0]["metadata"]["name"]
    assert simulation.deployment["status"].get("availableReplicas") is None
    assert await sync(simulation.edge, REPLICA_SET, ("default", name)) == 10.0
    simulation.time += timedelta(seconds=11)
    await simulation.settle()
    assert simulation.deployment["status"]["availableReplicas"] == 1


async def test_a_paused_deployment_begins_nothing_and_goes_on_when_it_is_resumed() -> None:
    simulation = Simulation(paused=True)
    await simulation.settle()
    progressing = make_condition(simulation.deployment, "Progressing") or {}
    assert (progressing["status"], progressing["reason"]) == ("Unknown", "DeploymentPaused")
    assert simulation.replica_sets == []
    spec = {**simulation.deployment["spec"], "paused": False}
    simulation.cluster.store.put({**simulation.deployment, "spec": spec})
    await simulation.settle()
    assert len(simulation.replica_sets) == 1
