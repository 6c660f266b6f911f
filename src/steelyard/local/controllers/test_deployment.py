from datetime import UTC, datetime, timedelta
from typing import Any

from steelyard.kube.memory import MemoryCluster
from steelyard.kube.pods import is_ready, phase_of
from steelyard.kube.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from steelyard.local.controllers import pods as of
from steelyard.local.controllers.deployment import REVISION, template_hash
from steelyard.local.controllers.kinds import DEPLOYMENT, REPLICA_SET
from steelyard.local.controllers.objects import TEMPLATE, edge, make_deployment
from steelyard.local.controllers.sync import sync
from steelyard.types import Json

KEY = ("default", "demo")


class World:
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
        return str((of.condition(self.deployment, kind) or {}).get("reason"))


async def test_a_deployment_makes_one_replica_set_and_its_pods() -> None:
    world = World(replicas=3)
    await world.roll()
    (replica_set,) = world.replica_sets
    mark = template_hash(world.deployment)
    assert replica_set["metadata"]["name"] == f"demo-{mark}"
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in world.pods} == {mark}
    assert len(world.pods) == 3
    status = world.deployment["status"]
    assert (status["readyReplicas"], status["updatedReplicas"], status["availableReplicas"]) == (3, 3, 3)
    assert (world.reason("Available"), world.reason("Progressing")) == (
        "MinimumReplicasAvailable",
        "NewReplicaSetAvailable",
    )
    assert world.deployment["metadata"]["annotations"][REVISION] == "1"


async def test_scaling_keeps_the_ready_pods() -> None:
    world = World(replicas=3)
    await world.settle()
    keep = world.pods[1]
    world.make_ready(keep)
    world.edit(replicas=1)
    await world.settle()
    assert [pod["metadata"]["uid"] for pod in world.pods] == [keep["metadata"]["uid"]]


async def test_a_pod_deleted_by_hand_is_made_again() -> None:
    world = World(replicas=2)
    await world.settle()
    gone = world.pods[0]["metadata"]
    world.cluster.store.remove(PODS, gone["name"], "default")
    await world.settle()
    assert len(world.pods) == 2
    assert gone["uid"] not in {pod["metadata"]["uid"] for pod in world.pods}


async def test_a_pod_does_not_get_the_name_of_one_that_is_gone() -> None:
    world, names = World(replicas=1), list[str]()
    for _ in range(4):
        await world.settle()
        (pod,) = world.pods
        names.append(pod["metadata"]["name"])
        world.cluster.store.remove(PODS, names[-1], "default")
    assert len(set(names)) == 4


async def test_a_failed_pod_is_replaced() -> None:
    world = World(replicas=1)
    await world.settle()
    world.cluster.store.set_status(PODS, world.pods[0]["metadata"]["name"], "default", {"phase": "Failed"})
    await world.settle()
    assert sorted(phase_of(pod) for pod in world.pods) == ["Failed", "Pending"]


async def test_a_rolling_update_stays_within_its_bounds() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    world = World(replicas=4, strategy=rolling)
    await world.roll()
    world.change("y")
    await world.roll()
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods} == {"y"}
    assert (len(world.pods), world.fewest_ready >= 3, world.most_pods <= 5) == (4, True, True)
    assert sorted(replica_set["spec"]["replicas"] for replica_set in world.replica_sets) == [0, 4]
    assert world.deployment["metadata"]["annotations"][REVISION] == "2"


async def test_a_template_taken_up_again_is_the_newest_revision() -> None:
    world = World(replicas=1)
    await world.roll()
    for image in ("y", "z", "y"):
        world.change(image)
        await world.roll()
    name = "deployment.kubernetes.io/revision"
    notes = {
        replica_set["metadata"]["annotations"][name]: replica_set["spec"]["replicas"]
        for replica_set in world.replica_sets
    }
    assert notes == {"1": 0, "3": 0, "4": 1}
    assert world.deployment["metadata"]["annotations"][name] == "4"
    histories = [
        replica_set["metadata"]["annotations"].get(f"{name}-history") for replica_set in world.replica_sets
    ]
    assert sorted(map(str, histories)) == ["2", "None", "None"]


async def test_new_pods_beyond_the_wanted_number_count_as_unavailable() -> None:
    world = World(replicas=2)
    await world.roll()
    world.change("y")
    await world.settle()
    status = world.deployment["status"]
    assert (status["replicas"], status["availableReplicas"], status["unavailableReplicas"]) == (3, 2, 1)


async def test_recreate_ends_the_old_pods_first() -> None:
    world = World(replicas=2, strategy={"type": "Recreate"})
    await world.roll()
    world.change("y")
    images = []
    for _ in range(12):
        await world.sync_all()
        images.append({pod["spec"]["containers"][0]["image"] for pod in world.pods})
    assert {"x", "y"} not in images
    assert images[-1] == {"y"}


async def test_old_replica_sets_are_kept_up_to_the_limit() -> None:
    world = World(replicas=1, revisionHistoryLimit=1)
    for image in ("a", "b", "c"):
        world.change(image)
        await world.roll()
    assert len(world.replica_sets) == 2


async def test_a_roll_out_that_stalls_says_so_after_its_deadline() -> None:
    world = World(progressDeadlineSeconds=60)
    await world.settle()
    assert world.reason("Progressing") == "ReplicaSetUpdated"
    assert 59 <= (await sync(world.edge, DEPLOYMENT, KEY) or 0) <= 60
    world.time += timedelta(seconds=61)
    await world.settle()
    assert world.reason("Progressing") == "ProgressDeadlineExceeded"
    for pod in world.pods:
        world.make_ready(pod)
    await world.settle()
    assert world.reason("Progressing") == "NewReplicaSetAvailable"


async def test_min_ready_seconds_delays_availability() -> None:
    world = World(replicas=1, minReadySeconds=10)
    await world.settle()
    world.make_ready(world.pods[0])
    await world.settle()
    name = world.replica_sets[0]["metadata"]["name"]
    assert world.deployment["status"].get("availableReplicas") is None
    assert await sync(world.edge, REPLICA_SET, ("default", name)) == 10.0
    world.time += timedelta(seconds=11)
    await world.settle()
    assert world.deployment["status"]["availableReplicas"] == 1


async def test_a_paused_deployment_begins_nothing_and_goes_on_when_it_is_resumed() -> None:
    world = World(paused=True)
    await world.settle()
    progressing = of.condition(world.deployment, "Progressing") or {}
    assert (progressing["status"], progressing["reason"]) == ("Unknown", "DeploymentPaused")
    assert world.replica_sets == []
    spec = {**world.deployment["spec"], "paused": False}
    world.cluster.store.put({**world.deployment, "spec": spec})
    await world.settle()
    assert len(world.replica_sets) == 1
