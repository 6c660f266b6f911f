"""Tests of StatefulSets: order, updates, claims, revisions, and crashes between any two calls."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from steelyard_local_kubernetes.controllers.kinds import STATEFUL_SET
from steelyard_local_kubernetes.controllers.objects import TEMPLATE, edge
from steelyard_local_kubernetes.controllers.stateful_set import POD_INDEX, REVISION
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "web")
CLAIM: Json = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def make_set(image: str = "one", **spec: Any) -> Json:
    container = {"name": "main", "image": image}
    template = {**TEMPLATE, "spec": {"restartPolicy": "Always", "containers": [container]}}
    defaults: Json = {"replicas": 3, "serviceName": "web", "selector": {"matchLabels": {"app": "demo"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {**defaults, "template": template, "updateStrategy": {"type": "RollingUpdate"}, **spec},
    }


class Simulation:
    """A StatefulSet on the in-memory cluster; `settle` syncs until nothing changes."""

    def __init__(self, **spec: Any) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = MemoryCluster(now=lambda: self.time)
        self.cluster.store.put(make_set(**spec))
        self.edge = edge(self.cluster)

    async def settle(self) -> None:
        for _ in range(20):
            before = self.cluster.store.version
            await sync(self.edge, STATEFUL_SET, KEY)
            if self.cluster.store.version == before:
                return
        raise AssertionError("the StatefulSet does not come to rest")

    async def run(self, *, ready: bool = True) -> None:
        """Settle, let new Pods run, and so on until nothing is new."""
        for _ in range(40):
            await self.settle()
            waiting = [pod for pod in self.pods if pod.get("status", {}).get("phase") != "Running"]
            if not waiting:
                return
            for pod in waiting:
                self.set_ready(pod["metadata"]["name"], ready)

    def set_ready(self, name: str, ready: bool = True) -> None:
        since = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
        self.cluster.store.set_status(PODS, name, "default", {"phase": "Running", "conditions": [said]})

    def change(self, **spec: Any) -> None:
        self.cluster.store.put({**self.sset, "spec": {**self.sset["spec"], **spec}})

    def update(self, image: str) -> None:
        self.change(template=make_set(image)["spec"]["template"])

    @property
    def sset(self) -> Json:
        stored = self.cluster.store.find(STATEFUL_SETS, "web", "default")
        assert stored is not None
        return stored

    @property
    def status(self) -> Json:
        status: Json = self.sset["status"]
        return status

    @property
    def pods(self) -> list[Json]:
        return self.cluster.store.objects(PODS)

    def names(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.pods)

    def images(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in self.pods}

    def claims(self) -> dict[str, Json]:
        return {
            claim["metadata"]["name"]: claim for claim in self.cluster.store.objects(PERSISTENT_VOLUME_CLAIMS)
        }

    def owners(self, claim: str) -> list[str]:
        return [owner["kind"] for owner in self.claims()[claim]["metadata"].get("ownerReferences", ())]


async def test_pods_come_one_after_the_other_each_when_the_last_is_ready() -> None:
    simulation = Simulation()
    await simulation.settle()
    assert simulation.names() == ["web-0"]
    simulation.set_ready("web-0", ready=False)
    await simulation.settle()
    assert simulation.names() == ["web-0"]
    simulation.set_ready("web-0")
    await simulation.settle()
    assert simulation.names() == ["web-0", "web-1"]
    await simulation.run()
    assert simulation.names() == ["web-0", "web-1", "web-2"]
    pod = simulation.pods[1]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "web")
    assert pod["metadata"]["labels"][POD_INDEX] == "1"
    revision = simulation.cluster.store.objects(CONTROLLER_REVISIONS)[0]["metadata"]["name"]
    assert pod["metadata"]["labels"][REVISION] == revision
    counts = {
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
    }
    names = {"currentRevision": revision, "updateRevision": revision}
    assert simulation.status == {**counts, **names, "observedGeneration": 1, "collisionCount": 0}


async def test_a_parallel_set_does_not_wait() -> None:
    simulation = Simulation(podManagementPolicy="Parallel", ordinals={"start": 5})
    await simulation.settle()
    assert simulation.names() == ["web-5", "web-6", "web-7"]
    simulation.change(replicas=0)
    await simulation.settle()
    assert simulation.names() == []


async def test_the_highest_number_goes_first_and_one_at_a_time() -> None:
    simulation = Simulation()
    await simulation.run()
    simulation.cluster.store.put(_bound(simulation.pods[2]))
    simulation.change(replicas=1)
    await simulation.settle()
    assert [
        pod["metadata"]["name"] for pod in simulation.pods if pod["metadata"].get("deletionTimestamp")
    ] == ["web-2"]
    assert "web-1" in simulation.names()
    simulation.cluster.store.remove(PODS, "web-2", "default")
    await simulation.settle()
    assert simulation.names() == ["web-0"]


def _bound(pod: Json) -> Json:
    """Return the Pod with a node, so that its deletion takes a while."""
    return {**pod, "spec": {**pod["spec"], "nodeName": "n"}}


async def test_a_failed_pod_is_replaced_under_its_name() -> None:
    simulation = Simulation(replicas=1)
    await simulation.run()
    uid = simulation.pods[0]["metadata"]["uid"]
    simulation.cluster.store.set_status(PODS, "web-0", "default", {"phase": "Failed"})
    await simulation.settle()
    assert (simulation.names(), simulation.pods[0]["metadata"]["uid"] != uid) == (["web-0"], True)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_an_update_goes_from_the_highest_number_down_each_ready_before_the_next(policy: str) -> None:
    simulation = Simulation(podManagementPolicy=policy)
    await simulation.run()
    simulation.update("two")
    await simulation.settle()
    assert simulation.images() == {"web-0": "one", "web-1": "one", "web-2": "two"}
    assert (simulation.status["updatedReplicas"], simulation.status["currentReplicas"]) == (1, 2)
    await simulation.run()
    assert set(simulation.images().values()) == {"two"}
    assert simulation.status["currentRevision"] == simulation.status["updateRevision"]
    assert simulation.status["currentReplicas"] == 3


async def test_below_the_partition_pods_stay_and_come_back_as_they_were() -> None:
    simulation = Simulation(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    await simulation.run()
    simulation.update("two")
    await simulation.run()
    simulation.cluster.store.remove(PODS, "web-0", "default")
    await simulation.run()
    assert simulation.images() == {"web-0": "one", "web-1": "one", "web-2": "two"}
    assert simulation.status["currentRevision"] != simulation.status["updateRevision"]


async def test_on_delete_leaves_pods_alone() -> None:
    simulation = Simulation(updateStrategy={"type": "OnDelete"})
    await simulation.run()
    simulation.update("two")
    await simulation.run()
    assert set(simulation.images().values()) == {"one"}
    simulation.cluster.store.remove(PODS, "web-1", "default")
    await simulation.run()
    assert simulation.images() == {"web-0": "one", "web-1": "two", "web-2": "one"}


async def test_going_back_uses_the_old_revision_again_and_history_is_bounded() -> None:
    simulation = Simulation(replicas=1, revisionHistoryLimit=1)
    await simulation.run()
    first = simulation.status["updateRevision"]
    for image in ("two", "three", "one"):
        simulation.update(image)
        await simulation.run()
        if image == "two":
            assert len(simulation.cluster.store.objects(CONTROLLER_REVISIONS)) == 2
    assert len(simulation.cluster.store.objects(CONTROLLER_REVISIONS)) == 2
    simulation.update("three")
    await simulation.run()
    simulation.update("one")
    await simulation.run()
    assert simulation.status["updateRevision"] == first
    newest = max(
        simulation.cluster.store.objects(CONTROLLER_REVISIONS), key=lambda revision: int(revision["revision"])
    )
    assert newest["metadata"]["name"] == first


async def test_a_negative_limit_keeps_the_whole_history() -> None:
    simulation = Simulation(replicas=1, revisionHistoryLimit=-1)
    images = [f"image-{number}" for number in range(12)]
    for image in images:
        simulation.update(image)
        await simulation.run()
    assert len(simulation.cluster.store.objects(CONTROLLER_REVISIONS)) == len(images)


async def test_min_ready_seconds_put_off_the_next_pod() -> None:
    simulation = Simulation(replicas=2, minReadySeconds=10)
    await simulation.settle()
    simulation.set_ready("web-0")
    assert await sync(simulation.edge, STATEFUL_SET, KEY) == 10.0
    assert (simulation.names(), simulation.status["availableReplicas"]) == (["web-0"], 0)
    simulation.time += timedelta(seconds=11)
    await simulation.settle()
    assert simulation.names() == ["web-0", "web-1"]


# ---- claims


async def test_each_pod_has_its_own_claims_which_outlive_it() -> None:
    simulation = Simulation(replicas=2, volumeClaimTemplates=[CLAIM])
    await simulation.run()
    assert sorted(simulation.claims()) == ["data-web-0", "data-web-1"]
    (volume,) = simulation.pods[1]["spec"]["volumes"]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}
    assert simulation.claims()["data-web-0"]["metadata"]["labels"] == {"app": "demo"}
    simulation.change(replicas=0)
    await simulation.run()
    assert (simulation.names(), sorted(simulation.claims())) == ([], ["data-web-0", "data-web-1"])
    assert simulation.owners("data-web-0") == []


async def test_a_claim_that_was_there_before_is_used() -> None:
    simulation = Simulation(replicas=1, volumeClaimTemplates=[CLAIM])
    metadata = {"name": "data-web-0", "namespace": "default", "labels": {"made": "by hand"}}
    simulation.cluster.store.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})
    await simulation.run()
    assert simulation.claims()["data-web-0"]["metadata"]["labels"] == {"made": "by hand"}
    assert simulation.names() == ["web-0"]


@pytest.mark.parametrize(
    ("deleted", "scaled", "kept", "gone"),
    [
        pytest.param("Retain", "Retain", [], [], id="kept"),
        pytest.param("Delete", "Retain", ["StatefulSet"], ["StatefulSet"], id="with the set"),
        pytest.param("Retain", "Delete", [], ["Pod"], id="with a Pod that is scaled away"),
        pytest.param("Delete", "Delete", ["StatefulSet"], ["Pod"], id="with either"),
    ],
)
async def test_claims_go_with_whom_the_policy_says(
    deleted: str, scaled: str, kept: list[str], gone: list[str]
) -> None:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    simulation = Simulation(
        replicas=2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy,
        podManagementPolicy="Parallel",
    )  # fmt: skip
    await simulation.run()
    await simulation.settle()
    assert (simulation.owners("data-web-0"), simulation.owners("data-web-1")) == (kept, kept)
    simulation.cluster.store.put(
        _bound(next(pod for pod in simulation.pods if pod["metadata"]["name"] == "web-1"))
    )
    simulation.change(replicas=1)
    await simulation.settle()
    assert (simulation.owners("data-web-0"), simulation.owners("data-web-1")) == (kept, gone)


async def test_no_pod_begins_on_a_claim_that_goes_with_an_earlier_one() -> None:
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    simulation = Simulation(
        replicas=0, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy
    )
    gone = {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "old", "controller": True}
    metadata = {"name": "data-web-0", "namespace": "default", "ownerReferences": [gone]}
    simulation.cluster.store.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})
    simulation.change(replicas=1)
    await simulation.settle()
    assert simulation.names() == []
    simulation.cluster.store.remove(PERSISTENT_VOLUME_CLAIMS, "data-web-0", "default")
    await simulation.run()
    assert (simulation.names(), simulation.owners("data-web-0")) == (["web-0"], [])


async def test_a_pod_of_anothers_stands_in_the_way_and_is_not_touched() -> None:
    simulation = Simulation(replicas=1)
    metadata = {"name": "web-0", "namespace": "default", "uid": "theirs"}
    simulation.cluster.store.put(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}
    )
    await simulation.settle()
    assert [pod["metadata"]["uid"] for pod in simulation.pods] == ["theirs"]
    assert await sync(simulation.edge, STATEFUL_SET, KEY) == 10.0


# ---- crashes


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_between_any_two_calls_breaks_no_order(after: bool) -> None:
    """The controller dies at call n on its way from a new set through an update, for every n."""
    for call in range(1, 80):
        simulation = Simulation(replicas=2, volumeClaimTemplates=[CLAIM])
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        await _until(simulation, lambda simulation: len(simulation.pods) == 2 and _all_run(simulation))
        simulation.update("two")
        await _until(
            simulation,
            lambda simulation: set(simulation.images().values()) == {"two"} and _all_run(simulation),
        )
        assert sorted(simulation.claims()) == ["data-web-0", "data-web-1"], f"crash at call {call}"
        assert len(simulation.cluster.store.objects(CONTROLLER_REVISIONS)) == 2
        assert simulation.status["currentRevision"] == simulation.status["updateRevision"]
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")


def _all_run(simulation: Simulation) -> bool:
    done = simulation.status.get("updatedReplicas") == simulation.status.get("readyReplicas") == 2
    return done and simulation.status["currentRevision"] == simulation.status["updateRevision"]


async def _until(simulation: Simulation, done: Callable[[Simulation], bool]) -> None:
    for _ in range(40):
        try:
            await sync(simulation.edge, STATEFUL_SET, KEY)
        except Crash:
            continue
        # Never is a second Pod away, or a higher one there before a lower one runs.
        running = [
            pod["metadata"]["name"]
            for pod in simulation.pods
            if pod.get("status", {}).get("phase") == "Running"
        ]
        if "web-1" in simulation.names() and len(simulation.cluster.store.objects(CONTROLLER_REVISIONS)) == 1:
            assert "web-0" in running
        if "status" in simulation.sset and done(simulation):
            return
        for pod in simulation.pods:
            if pod.get("status", {}).get("phase") != "Running":
                simulation.set_ready(pod["metadata"]["name"])
    raise AssertionError("the set does not come to rest")
