"""Requirements of training jobs, each by a letter, A to L, on a cluster in memory where a test plays the
Pods.

E, an operator that dies, is in `test_training_deaths.py`; what needs a machine (two namespaces, clients, definitions of
others) is in `test_training_up.py`.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard.operator.main import Operator
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training.simulation.job_simulation import SETTINGS, JobSimulation, make_job
from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS, PYTORCH_JOBS, SERVICES, Resource
from steelyard_kube.times import format_time

LIMIT = 63
TRIO = ["job-master-0", "job-worker-0", "job-worker-1"]


def started(**fields: Any) -> JobSimulation:
    """A job all of whose Pods run."""
    return JobSimulation(make_job(**fields)).settle().run()


def uids(simulation: JobSimulation) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in simulation.pods().items()}


def variables(pod: Json, container: int = 0) -> dict[str, str]:
    return {
        variable["name"]: variable.get("value", "")
        for variable in pod["spec"]["containers"][container]["env"]
    }


@pytest.mark.parametrize("restart", ["Never", "ExitCode", "OnFailure", "Always"])
@pytest.mark.parametrize("grace", [0, 30])
def test_A_a_pod_deleted_by_hand_is_replaced_and_not_counted(restart: str, grace: int) -> None:
    simulation = started(restart=restart)
    before = uids(simulation)
    simulation.remove("job-worker-1", grace).settle()
    for name in TRIO:  # those that still end, as the kubelet would end them
        if simulation.pods().get(name, {"metadata": {}})["metadata"].get("deletionTimestamp"):
            simulation.store.remove(PODS, name, "default")
    simulation.settle().run()
    assert sorted(simulation.pods()) == TRIO
    assert uids(simulation)["job-worker-1"] != before["job-worker-1"]
    assert (simulation.state, simulation.status["restarts"]) == ("Running", 0)
    assert simulation.status["disruptions"] == 1


def test_B_a_limit_of_three_allows_three_restarts_and_says_so() -> None:
    simulation = started(restart="ExitCode", policy={"backoffLimit": 3})
    for _ in range(6):
        if simulation.state == "Failed":
            break
        simulation.end("job-worker-0", 137).settle()
        simulation.wait(3600).run()
    assert simulation.state == "Failed"
    assert simulation.status["restarts"] == 3
    assert simulation.condition("Failed")["message"] == (  # type: ignore[index]
        "Job job has failed because it has reached the specified backoff limit"
    )
    assert [failure["exitCode"] for failure in simulation.status["failures"]][-1] == 137


def test_C_a_gang_starts_again_as_one_and_counts_once() -> None:
    scope = {"steelyard/restart-scope": "Job"}
    simulation = started(kind="JAXJob", replicas={"Worker": 3}, restart="OnFailure", annotations=scope)
    before = uids(simulation)
    simulation.end("job-worker-1", 1).settle().run()
    after = uids(simulation)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert simulation.status["restarts"] == 1


def test_D_a_pod_that_cannot_end_on_a_lost_node_is_ended_by_force_and_replaced() -> None:
    simulation = started(restart="Never")
    before = uids(simulation)["job-worker-0"]
    lost = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    pod = simulation.pods()["job-worker-0"]
    condition = {**lost, "lastTransitionTime": format_time(simulation.now)}
    simulation.set_status("job-worker-0", {**pod["status"], "conditions": [condition]})
    simulation.remove("job-worker-0", grace=30).settle()
    assert "job-worker-0" in simulation.pods(), "not before its time is over"
    simulation.wait(30 + SETTINGS.training.termination_seconds + 1)
    for name in TRIO:  # the others are where they can end
        if simulation.pods().get(name, {"metadata": {}})["metadata"].get("deletionTimestamp"):
            assert name != "job-worker-0"
            simulation.store.remove(PODS, name, "default")
    simulation.settle().run()
    assert uids(simulation)["job-worker-0"] != before
    assert (simulation.state, simulation.status["restarts"]) == ("Running", 0)


def test_F_a_failure_is_reported_with_pod_exit_code_reason_and_last_words() -> None:
    simulation = started(kind="XGBoostJob", replicas={"Master": 1, "Worker": 1}, restart="Never")
    simulation.end("job-worker-0", 1, "Traceback\nValueError: no data").settle()
    assert simulation.state == "Failed"
    (failure,) = simulation.status["failures"]
    facts = {key: failure[key] for key in ("pod", "type", "index", "exitCode", "reason")}
    assert facts == {"pod": "job-worker-0", "type": "Worker", "index": 0, "exitCode": 1, "reason": "Error"}
    assert "ValueError: no data" in failure["message"]
    assert failure["time"] == format_time(simulation.now)


def test_G_a_name_that_leaves_no_room_for_its_pods_is_refused() -> None:
    simulation = JobSimulation(make_job(name="j" * LIMIT)).settle()
    failed = simulation.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "PyTorchJobFailedValidation"
    assert failed["message"].startswith("metadata.name: ")
    assert "63" in failed["message"]
    assert simulation.pods() == {}


def test_G_the_longest_name_that_fits_is_served() -> None:
    name = "j" * (LIMIT - len("-worker-0"))
    simulation = JobSimulation(make_job(name=name, replicas={"Master": 1, "Worker": 1})).settle()
    assert max(map(len, simulation.pods())) == LIMIT
    assert simulation.state == "Created"


def test_I_jobs_of_one_name_in_two_namespaces_do_not_meet() -> None:
    one, two = (
        JobSimulation(in_namespace(make_job(replicas={"Master": 1}), namespace))
        for namespace in ("one", "two")
    )
    two.store = one.store
    two.controller = one.controller
    fields = {"name": "job", "namespace": "two"}
    one.store.create(PYTORCH_JOBS, {**make_job(replicas={"Master": 1}), "metadata": fields})
    for simulation in (one, two):
        simulation.settle()
    owners = {
        pod["metadata"]["namespace"]: pod["metadata"]["ownerReferences"][0]["uid"]
        for pod in one.store.objects(PODS)
    }
    assert owners == {
        simulation.key.namespace: simulation.job["metadata"]["uid"] for simulation in (one, two)
    }
    one.store.set_status(PODS, "job-master-0", "one", {"phase": "Failed", "reason": "Evicted"})
    for simulation in (one, two):
        simulation.settle()
    assert (one.status["disruptions"], two.status["disruptions"]) == (1, 0)


def in_namespace(job: Json, namespace: str) -> Json:
    return {**job, "metadata": {**job["metadata"], "namespace": namespace}}


def test_J_what_the_user_sets_is_not_overridden() -> None:
    job = make_job()
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RANK", "value": "7"}, {"name": "MASTER_ADDR", "value": "elsewhere"}]
    pod = JobSimulation(job).settle().pods()["job-worker-0"]
    names = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
    assert (names.count("RANK"), names.count("MASTER_ADDR")) == (1, 1)
    given = variables(pod)
    assert (given["RANK"], given["MASTER_ADDR"], given["WORLD_SIZE"]) == ("7", "elsewhere", "3")


def test_K_the_scheduler_of_mxnet_binds_all_addresses_and_is_found_by_its_service() -> None:
    replicas = {"Scheduler": 1, "Server": 1, "Worker": 2}
    simulation = JobSimulation(make_job("MXJob", replicas, jobMode="MXTrain")).settle()
    for name, pod in simulation.pods().items():
        given = variables(pod)
        assert given["DMLC_USE_KUBERNETES"] == "1", name
        assert given["DMLC_PS_ROOT_URI"] == "job-scheduler-0", name
    assert variables(simulation.pods()["job-scheduler-0"])["DMLC_ROLE"] == "scheduler"
    assert "job-scheduler-0" in simulation.services()


async def test_L_what_is_anothers_is_untouched_from_start_to_stop() -> None:
    """Pods and Services of others, of an older job of the same name, and without an owner but with other labels."""
    cluster = MemoryCluster(lambda: datetime.now(UTC))
    theirs = [put_foreign(cluster, number, kind) for number, kind in enumerate((PODS, PODS, SERVICES))]
    job = make_job()
    metadata = {"name": job["metadata"]["name"], "namespace": "default"}
    await cluster.create(PYTORCH_JOBS, {**job, "metadata": metadata})
    task = asyncio.ensure_future(Operator(cluster, OperatorSettings(), lambda: datetime.now(UTC)).work())
    async with asyncio.timeout(60):
        while len(cluster.store.objects(PODS)) < len(TRIO) + 2:  # noqa: ASYNC110 - the store has no event to wait for
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for resource, child in zip((PODS, PODS, SERVICES), theirs, strict=True):
        assert cluster.store.find(resource, child["metadata"]["name"], "default") == child


def put_foreign(cluster: MemoryCluster, number: int, resource: Resource) -> Json:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "job", "uid": "an-older-one"}
    labels = {
        "training.kubeflow.org/job-name": "job",
        "training.kubeflow.org/operator-name": "tfjob-controller",
    }
    metadata: Json = {"name": f"theirs-{number}", "namespace": "default", "labels": labels}
    if number:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
        metadata["labels"] = {**labels, "training.kubeflow.org/operator-name": "pytorchjob-controller"}
    return cluster.store.put({"apiVersion": "v1", "kind": resource.kind, "metadata": metadata})


@pytest.mark.parametrize("clash", [PODS, SERVICES], ids=["a Pod", "a Service"])
def test_a_name_that_is_anothers_fails_the_job_and_leaves_the_other_alone(clash: Resource) -> None:
    simulation = JobSimulation(make_job())
    theirs = simulation.store.put(
        {"apiVersion": "v1", "kind": clash.kind, "metadata": {"name": "job-worker-1", "namespace": "default"}}
    )
    simulation.settle()
    failed = simulation.condition("Failed")
    assert failed is not None
    assert failed["message"] == f"{clash.kind} job-worker-1 exists and belongs to nobody that controls it"
    assert simulation.store.find(clash, "job-worker-1", "default") == theirs


Hand = Callable[[JobSimulation], object]


@pytest.mark.parametrize(
    "hand",
    [
        pytest.param(lambda simulation: simulation.remove("job-master-0"), id="a Pod deleted"),
        pytest.param(lambda simulation: simulation.evict("job-worker-0"), id="a Pod evicted"),
        pytest.param(lambda simulation: simulation.end("job-worker-0", 1), id="a Pod that fails late"),
        pytest.param(lambda simulation: simulation.patch_spec(runPolicy={"suspend": True}), id="suspended"),
        pytest.param(
            lambda simulation: simulation.patch_spec(runPolicy={"backoffLimit": 0}), id="another limit"
        ),
    ],
)
def test_a_job_that_has_ended_stays_as_it_ended(hand: Hand) -> None:
    simulation = started()
    simulation.end("job-master-0").settle()
    before = simulation.status
    assert simulation.state == "Succeeded"
    hand(simulation)
    simulation.wait(3600)
    assert simulation.status == before
