"""Admission by quotas: order, priorities, flavors and reasons to wait."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from steelyard_local_kubernetes.controllers.objects import make_job
from steelyard_local_kubernetes.controllers.queued_kinds import job_kind
from steelyard_local_kubernetes.controllers.ray.test_cluster import make_ray_cluster
from steelyard_local_kubernetes.queues.quota import demand
from steelyard_local_kubernetes.queues.run import settle

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


def template(cpu: str) -> Json:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return {"spec": {"containers": [{"name": "main", "image": "x", "resources": resources}]}}


def resources(cpu: str = "4", memory: str = "16Gi", **more: str) -> list[Json]:
    return [{"name": "cpu", "nominalQuota": cpu, **more}, {"name": "memory", "nominalQuota": memory}]


class Simulation:
    """Queues on the in-memory cluster: one ClusterQueue of 4 CPUs and its LocalQueue `team`."""

    def __init__(self, **spec: Any) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = MemoryCluster(now=lambda: self.time)
        self.make(NAMESPACES, "default", metadata={"labels": {"kubernetes.io/metadata.name": "default"}})
        self.make(RESOURCE_FLAVORS, "cheap", spec={})
        flavors = [{"name": "cheap", "resources": resources()}]
        groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
        self.make(CLUSTER_QUEUES, "all", spec={"namespaceSelector": {}, "resourceGroups": groups, **spec})
        self.make(LOCAL_QUEUES, "team", spec={"clusterQueue": "all"})

    def make(self, resource: Resource, name: str, metadata: Json | None = None, **fields: Any) -> None:
        place = {"namespace": "default"} if resource.namespaced else {}
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        obj = {**head, "metadata": {"name": name, **place, **(metadata or {})}, **fields}
        self.cluster.store.create(resource, obj)

    def job(self, name: str, cpu: str = "2", **labels: str) -> None:
        job = make_job(name, template=template(cpu), suspend=True)
        job["metadata"]["labels"] = {
            **QUEUE,
            **{key.replace("_", "-"): value for key, value in labels.items()},
        }
        self.cluster.store.create(JOBS, job)
        self.time += timedelta(seconds=1)

    async def settle_once(self) -> None:
        await settle(self.cluster, lambda: self.time)

    async def settle(self) -> None:
        await self.settle_once()
        before = self.cluster.store.version
        await self.settle_once()
        assert self.cluster.store.version == before, "a second look at the same state must change nothing"

    def finish(self, name: str) -> None:
        done = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
        self.cluster.store.set_status(JOBS, name, "default", done)

    def put(self, resource: Resource, name: str, **spec: Any) -> None:
        obj = self.cluster.store.find(resource, name, "default" if resource.namespaced else None)
        assert obj is not None
        self.cluster.store.put({**obj, "spec": {**obj["spec"], **spec}})

    @property
    def running(self) -> list[str]:
        jobs = self.cluster.store.objects(JOBS)
        return [job["metadata"]["name"] for job in jobs if not job["spec"]["suspend"]]

    def workload(self, owner: str) -> Json:
        return next(
            obj
            for obj in self.cluster.store.objects(WORKLOADS)
            if obj["metadata"]["ownerReferences"][0]["name"] == owner
        )

    def condition(self, owner: str, kind: str) -> tuple[str, str, str]:
        for condition in self.workload(owner).get("status", {}).get("conditions", ()):
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def queue(self, resource: Resource = CLUSTER_QUEUES, name: str = "all") -> Json:
        obj = self.cluster.store.find(resource, name, "default" if resource.namespaced else None)
        assert obj is not None
        status: Json = obj["status"]
        return status


def test_a_pod_is_one_for_a_quota_whatever_its_containers() -> None:
    container = {"name": "c", "image": "x"}
    spec = {"containers": [container] * 8, "initContainers": [{**container, "restartPolicy": "Always"}] * 8}
    assert demand({"template": {"spec": spec}, "count": 3}) == {"pods": 3}


async def test_a_local_queue_shows_the_flavors_of_its_cluster_queue() -> None:
    simulation = Simulation()
    simulation.make(LOCAL_QUEUES, "lost", spec={"clusterQueue": "gone"})
    await simulation.settle()
    flavor = {"name": "cheap", "resources": ["cpu", "memory"]}
    assert simulation.queue(LOCAL_QUEUES, "team")["flavors"] == [flavor]
    assert simulation.queue(LOCAL_QUEUES, "lost")["flavors"] == []
    simulation.put(RESOURCE_FLAVORS, "cheap", nodeLabels={"disk": "slow"})
    await simulation.settle()
    assert simulation.queue(LOCAL_QUEUES, "team")["flavors"] == [{**flavor, "nodeLabels": {"disk": "slow"}}]


async def test_jobs_are_admitted_in_their_order_while_there_is_quota() -> None:
    simulation = Simulation()
    for name in ("a", "b", "c"):
        simulation.job(name)
    await simulation.settle()
    assert simulation.running == ["a", "b"]
    message = "couldn't assign flavors to pod set main: "
    message += "insufficient unused quota for cpu in flavor cheap, 2 more needed"
    assert simulation.condition("c", "QuotaReserved") == ("False", "Pending", message)
    assert simulation.condition("a", "Admitted") == ("True", "Admitted", "The workload is admitted")
    status = simulation.queue()
    assert (status["pendingWorkloads"], status["admittedWorkloads"]) == (1, 2)
    used = {"name": "cheap", "resources": [
        {"name": "cpu", "total": "4", "borrowed": "0"}, {"name": "memory", "total": "2Gi", "borrowed": "0"},
    ]}  # fmt: skip
    assert status["flavorsUsage"] == [used]
    local = simulation.queue(LOCAL_QUEUES, "team")
    assert (local["pendingWorkloads"], local["admittedWorkloads"]) == (1, 2)
    assert local["flavorUsage"] == local["flavorsUsage"]
    simulation.finish("a")
    await simulation.settle()
    assert simulation.condition("a", "Finished") == ("True", "Succeeded", "done")
    assert simulation.running == ["a", "b", "c"]


async def test_a_higher_priority_goes_first_and_a_small_job_passes_one_that_does_not_fit() -> None:
    simulation = Simulation()
    simulation.make(WORKLOAD_PRIORITY_CLASSES, "urgent", value=10)
    simulation.job("large", "4")
    await simulation.settle()
    simulation.job("late", "4")
    simulation.job("urgent", "4", **{"kueue.x-k8s.io/priority-class": "urgent"})
    await simulation.settle()
    simulation.finish("large")
    await simulation.settle()
    assert simulation.running == ["large", "urgent"]
    assert simulation.workload("urgent")["spec"]["priority"] == 10


@pytest.mark.parametrize(("strategy", "running"), [("BestEffortFIFO", ["a", "c"]), ("StrictFIFO", ["a"])])
async def test_whether_a_later_job_may_pass_is_the_queues_strategy(strategy: str, running: list[str]) -> None:
    simulation = Simulation(queueingStrategy=strategy)
    simulation.job("a", "2")
    simulation.job("b", "4")
    simulation.job("c", "2")
    await simulation.settle()
    assert simulation.running == running


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("no local queue", "LocalQueue team doesn't exist"),
        ("no cluster queue", "ClusterQueue all doesn't exist"),
        ("no flavor", "ClusterQueue all is inactive"),
        ("held", "LocalQueue team is inactive"),
        ("another namespace", "Workload namespace doesn't match ClusterQueue selector"),
    ],
)
async def test_a_job_that_no_queue_takes_says_why(case: str, message: str) -> None:
    simulation = Simulation()
    store = simulation.cluster.store
    match case:
        case "no local queue":
            store.remove(LOCAL_QUEUES, "team", "default")
        case "no cluster queue":
            store.remove(CLUSTER_QUEUES, "all")
        case "no flavor":
            store.remove(RESOURCE_FLAVORS, "cheap")
        case "held":
            simulation.put(LOCAL_QUEUES, "team", stopPolicy="Hold")
        case _:
            simulation.put(CLUSTER_QUEUES, "all", namespaceSelector={"matchLabels": {"team": "other"}})
    simulation.job("a")
    await simulation.settle()
    assert simulation.running == []
    assert simulation.condition("a", "QuotaReserved") == ("False", "Inadmissible", message)


async def test_what_never_fits_says_so() -> None:
    simulation = Simulation()
    simulation.job("a", "8")
    await simulation.settle()
    message = "couldn't assign flavors to pod set main: "
    message += "insufficient quota for cpu in flavor cheap, request > maximum capacity (8 > 4)"
    assert simulation.condition("a", "QuotaReserved")[2] == message


async def test_fractions_add_up() -> None:
    simulation = Simulation()
    for name in ("a", "b", "c"):
        simulation.job(name, "200m")
    job = make_job("d", template=template("1133m"), completions=3, parallelism=3, suspend=True)
    job["metadata"]["labels"] = QUEUE
    simulation.cluster.store.create(JOBS, job)
    await simulation.settle()
    assert simulation.running == ["a", "b", "c", "d"]
    assert simulation.queue()["flavorsUsage"][0]["resources"][0]["total"] == "3999m"


async def test_the_second_flavor_is_taken_where_the_first_is_full() -> None:
    flavors = [{"name": name, "resources": resources(cpu)} for name, cpu in (("cheap", "2"), ("dear", "2"))]
    simulation = Simulation(resourceGroups=[{"coveredResources": ["cpu", "memory"], "flavors": flavors}])
    simulation.make(RESOURCE_FLAVORS, "dear", spec={})
    simulation.job("a")
    simulation.job("b")
    await simulation.settle()
    assigned = [
        simulation.workload(name)["status"]["admission"]["podSetAssignments"][0] for name in ("a", "b")
    ]
    assert [entry["flavors"]["cpu"] for entry in assigned] == ["cheap", "dear"]


async def test_a_queue_borrows_what_its_cohort_does_not_use() -> None:
    simulation = Simulation(cohort="team")
    flavors = [{"name": "cheap", "resources": resources("2")}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
    spec = {"namespaceSelector": {}, "cohort": "team", "resourceGroups": groups}
    simulation.make(CLUSTER_QUEUES, "other", spec=spec)
    simulation.job("a", "6")
    await simulation.settle()
    assert simulation.running == ["a"]
    used = simulation.queue()["flavorsUsage"][0]["resources"]
    assert [(entry["total"], entry["borrowed"]) for entry in used] == [("6", "2"), ("1Gi", "0")]


async def test_a_queue_borrows_the_quota_of_a_cohort_and_of_the_one_above_it() -> None:
    simulation = Simulation(cohortName="team")
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": "cheap", "resources": resources("1")}],
    }
    simulation.make(COHORTS, "team", spec={"parentName": "all", "resourceGroups": [group]})
    simulation.make(COHORTS, "all", spec={"resourceGroups": [group]})
    simulation.job("a", "7")
    simulation.job("b", "6")
    await simulation.settle()
    assert simulation.running == ["b"]
    assert "request > maximum capacity (7 > 6)" in simulation.condition("a", "QuotaReserved")[2]


async def test_a_cohort_that_is_its_own_parent_admits_nothing_until_that_is_mended() -> None:
    simulation = Simulation(cohortName="team")
    simulation.make(COHORTS, "team", spec={"parentName": "all"})
    simulation.make(COHORTS, "all", spec={"parentName": "team"})
    simulation.job("a")
    await simulation.settle()
    assert simulation.running == []
    assert simulation.queue()["conditions"][0]["reason"] == "CohortCycle"
    simulation.put(COHORTS, "all", parentName="")
    await simulation.settle()
    assert simulation.running == ["a"]


async def test_a_cluster_that_scales_itself_counts_with_the_most_that_it_may_have() -> None:
    simulation = Simulation()
    cluster = make_ray_cluster(enableInTreeAutoscaling=True)
    cluster["metadata"]["labels"] = QUEUE
    cluster["spec"]["suspend"] = True
    group = cluster["spec"]["workerGroupSpecs"][0]
    group |= {"replicas": 1, "minReplicas": 0, "maxReplicas": 4}
    simulation.cluster.store.create(RAY_CLUSTERS, cluster)
    await simulation.settle()
    counts = {item["name"]: item["count"] for item in simulation.workload("demo")["spec"]["podSets"]}
    assert counts == {"head": 1, "small": 4}
    simulation.put(RAY_CLUSTERS, "demo", workerGroupSpecs=[{**group, "replicas": 3}])
    await simulation.settle()
    assert simulation.condition("demo", "Admitted")[0] == "True"


async def test_a_drained_queue_evicts_and_a_job_comes_back() -> None:
    simulation = Simulation()
    simulation.job("a")
    await simulation.settle()
    simulation.cluster.store.set_status(JOBS, "a", "default", {"active": 1})
    simulation.put(CLUSTER_QUEUES, "all", stopPolicy="HoldAndDrain")
    await simulation.settle()
    assert simulation.running == []
    assert simulation.condition("a", "Evicted") == (
        "True",
        "ClusterQueueStopped",
        "The ClusterQueue is stopped",
    )
    assert simulation.condition("a", "QuotaReserved")[0] == "True"  # its Pod still runs
    simulation.cluster.store.set_status(JOBS, "a", "default", {"active": 0})
    await simulation.settle()
    assert simulation.condition("a", "QuotaReserved") == (
        "False",
        "Inadmissible",
        "ClusterQueue all is inactive",
    )
    simulation.put(CLUSTER_QUEUES, "all", stopPolicy="None")
    await simulation.settle()
    assert simulation.running == ["a"]
    assert simulation.condition("a", "Evicted")[0] == "False"


async def test_a_higher_priority_takes_the_place_of_a_lower_one() -> None:
    simulation = Simulation(preemption={"withinClusterQueue": "LowerPriority"})
    simulation.make(WORKLOAD_PRIORITY_CLASSES, "urgent", value=10)
    simulation.job("old")
    await simulation.settle()
    simulation.job("young")
    await simulation.settle()
    simulation.job("urgent", **{"kueue.x-k8s.io/priority-class": "urgent"})
    await simulation.settle()
    assert simulation.running == ["old", "urgent"]
    assert simulation.condition("young", "Evicted")[:2] == ("True", "Preempted")


async def test_a_job_that_is_resumed_by_hand_is_suspended_again() -> None:
    simulation = Simulation()
    simulation.job("a", "8")
    await simulation.settle()
    simulation.put(JOBS, "a", suspend=False)
    await simulation.settle()
    assert simulation.running == []


async def test_ray_clusters_and_training_jobs_are_admitted_with_all_their_pods() -> None:
    simulation = Simulation()
    cluster = make_ray_cluster(suspend=True)
    cluster["metadata"]["labels"] = QUEUE
    simulation.cluster.store.create(RAY_CLUSTERS, cluster)
    await simulation.settle()
    simulation.time += timedelta(seconds=1)
    roles = {
        "Master": {"replicas": 1, "template": template("1")},
        "Worker": {"replicas": 2, "template": template("1")},
    }
    spec = {"pytorchReplicaSpecs": roles, "runPolicy": {"suspend": True}}
    simulation.make(PYTORCH_JOBS, "train", {"labels": QUEUE}, spec=spec)
    await simulation.settle()
    admission = simulation.workload("demo")["status"]["admission"]["podSetAssignments"]
    assert [(entry["name"], entry["count"]) for entry in admission] == [("head", 1), ("small", 2)]
    assert simulation.condition("train", "QuotaReserved")[0] == "False"
    simulation.cluster.store.set_status(RAY_CLUSTERS, "demo", "default", {"state": "ready"})
    await simulation.settle()
    assert simulation.condition("demo", "PodsReady")[:2] == ("True", "Started")
    simulation.cluster.store.remove(RAY_CLUSTERS, "demo", "default")
    simulation.cluster.store.remove(WORKLOADS, simulation.workload("demo")["metadata"]["name"], "default")
    await simulation.settle()
    job = simulation.cluster.store.find(PYTORCH_JOBS, "train", "default")
    assert job is not None
    assert job["spec"]["runPolicy"]["suspend"] is False


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, [("head", "500m"), ("submitter", "100m")]),
        ({"submissionMode": "HTTPMode"}, [("head", "500m")]),
        ({"submitterPodTemplate": template("2")}, [("head", "500m"), ("submitter", "2")]),
    ],
)
def test_a_ray_job_has_a_submitter_and_a_cluster(spec: Json, wanted: list[tuple[str, str]]) -> None:
    cluster = {"headGroupSpec": {"template": template("500m")}}
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {},
        "spec": {"rayClusterSpec": cluster, **spec},
    }
    sets = job_kind(job).pod_sets(job)
    requests = [entry["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for entry in sets]
    assert [(entry["name"], cpu) for entry, cpu in zip(sets, requests, strict=True)] == wanted


async def test_a_cluster_that_grows_stands_in_line_again() -> None:
    simulation = Simulation()
    cluster = make_ray_cluster(suspend=True)
    cluster["metadata"]["labels"] = QUEUE
    simulation.cluster.store.create(RAY_CLUSTERS, cluster)
    await simulation.settle()
    groups = [{**cluster["spec"]["workerGroupSpecs"][0], "replicas": 5, "maxReplicas": 9}]
    simulation.put(RAY_CLUSTERS, "demo", workerGroupSpecs=groups)
    await simulation.settle()
    stored = simulation.cluster.store.find(RAY_CLUSTERS, "demo", "default")
    assert stored is not None
    assert stored["spec"]["suspend"] is False  # 6 Pods of half a CPU
    groups[0]["replicas"] = 9
    simulation.put(RAY_CLUSTERS, "demo", workerGroupSpecs=groups)
    await simulation.settle()
    assert "1 more needed" in simulation.condition("demo", "QuotaReserved")[2] or "5 > 4" in str(
        simulation.condition("demo", "QuotaReserved")[2]
    )


@pytest.mark.parametrize("after", [False, True], ids=["before a call", "after a call"])
async def test_a_crash_between_any_two_writes_admits_no_more_than_the_quota(after: bool) -> None:
    for call in range(1, 200):
        simulation = Simulation()
        for name in ("a", "b", "c"):
            simulation.job(name)
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        try:
            await simulation.settle_once()
        except Crash:
            assert len(simulation.running) <= 2
        simulation.cluster.before_call = simulation.cluster.after_call = None
        await simulation.settle_once()
        assert simulation.running == ["a", "b"]
        assert len(simulation.cluster.store.objects(WORKLOADS)) == 3
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")
