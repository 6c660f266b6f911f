# ruff: noqa: E501 - tables are read by their rows
"""The published clients, unmodified (`kubernetes`, `kubeflow-training`): every kind of training job, all its life.

One machine for all of them: the jobs are apart by their names.
"""

import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Machine, processes_of

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Json = dict[str, Any]
IMAGE = "localhost/steelyard/steps"
GROUP, VERSION, NAMESPACE = "kubeflow.org", "v1", "default"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("STEELYARD_"):
                patch.delenv(name)
        machine = Machine(tmp_path_factory.mktemp("training") / "state")
        machine.up("platform")
        with machine.state.images.open("a") as images:  # what brings kubectl to launchers of MPI
            images.write(
                f'["mpioperator/kubectl-delivery"]\npython = "{sys.executable}"\ncommand = ["true"]\n'
            )
        yield machine
        machine.down()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # the clients leave their sockets open
    assert processes_of(machine.state.path) == []


@pytest.fixture(scope="module")
def training(up: Machine) -> Any:
    from kubeflow.training import TrainingClient

    return TrainingClient(config_file=str(up.state.kubeconfig))


@pytest.fixture(scope="module")
def core(up: Machine) -> Any:
    from kubernetes import client, config

    return client.CoreV1Api(config.new_client_from_config(str(up.state.kubeconfig)))


def template(container: str, script: str) -> Json:
    main = {"name": container, "image": IMAGE, "command": ["sh", "-c", script]}
    return {"spec": {"containers": [main]}}


# Of each kind: its replicas' field, its container, its replicas, who says when it is done, and what that one prints.
SAY = {
    "TFJob": "echo task $TF_CONFIG",
    "PyTorchJob": "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR",
    "XGBoostJob": "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR",
    "PaddleJob": "echo nodes $PADDLE_NNODES at $PADDLE_MASTER",
    "JAXJob": "echo process $PROCESS_ID of $NUM_PROCESSES at $COORDINATOR_ADDRESS",
    "MPIJob": "echo hosts $OMPI_MCA_orte_default_hostfile",
    "MXJob": "echo role $DMLC_ROLE at $DMLC_PS_ROOT_URI kubernetes $DMLC_USE_KUBERNETES",
}
KINDS: dict[str, tuple[str, str, dict[str, int], str, str]] = {
    "TFJob": ("tfReplicaSpecs", "tensorflow", {"Chief": 1, "Worker": 2}, "chief-0", '"task":{"type":"chief","index":0}'),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch", {"Master": 1, "Worker": 2}, "master-0", "rank 0 of 3 at "),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 1}, "master-0", "rank 0 of 2 at "),
    "PaddleJob": ("paddleReplicaSpecs", "paddle", {"Master": 1, "Worker": 1}, "master-0", "nodes 2 at "),
    "JAXJob": ("jaxReplicaSpecs", "jax", {"Worker": 2}, "worker-0", "process 0 of 2 at "),
    "MPIJob": ("mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 1}, "launcher", "hosts /etc/mpi/hostfile"),
    "MXJob": ("mxReplicaSpecs", "mxnet", {"Scheduler": 1, "Server": 1, "Worker": 1}, "scheduler-0", "role scheduler at "),
}  # fmt: skip


def manifest(kind: str, name: str, script: str = "", **policy: Any) -> Json:
    """A small job of a kind whose replicas say what they were told."""
    field, container, replicas, _, _ = KINDS[kind]
    script = script or SAY[kind]
    roles = {role: {"replicas": n, "template": template(container, script)} for role, n in replicas.items()}
    spec: Json = {"runPolicy": policy, field: roles} | ({"jobMode": "MXTrain"} if kind == "MXJob" else {})
    if kind == "MPIJob":  # its workers wait to be asked
        roles["Worker"]["template"] = template(container, "sleep 60")
        spec["runPolicy"] = {"cleanPodPolicy": "Running", **policy}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def modelled(training: Any, job: Json) -> Any:
    """The client's own model of a manifest."""
    from kubeflow.training.utils import utils

    return training.api_client.deserialize(utils.FakeResponse(job), f"KubeflowOrgV1{job['kind']}")


def finished(training: Any, kind: str, name: str, *conditions: str) -> Any:
    expected = set(conditions or ("Succeeded",))
    return training.wait_for_job_conditions(
        name, job_kind=kind, expected_conditions=expected, wait_timeout=60, polling_interval=0.25
    )


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"])
def test_a_job_of_each_kind(training: Any, core: Any, kind: str) -> None:
    name = f"a-{kind.lower()}"
    _, _, replicas, leader, said = KINDS[kind]
    training.create_job(modelled(training, manifest(kind, name)))
    job = finished(training, kind, name)
    assert [each.type for each in job.status.conditions if each.status == "True"] == ["Created", "Succeeded"]
    assert training.is_job_succeeded(name, job_kind=kind)
    assert job.status.replica_statuses.keys() == replicas.keys()
    assert job.status.completion_time >= job.status.start_time
    assert name in {each.metadata.name for each in training.list_jobs(job_kind=kind)}
    logs, _ = training.get_job_logs(name, job_kind=kind)
    assert list(logs) == [f"{name}-{leader}"]
    assert said in logs[f"{name}-{leader}"]
    everyone = training.get_job_pod_names(name)
    assert len(everyone) == sum(replicas.values()) - (kind == "MPIJob")
    training.delete_job(name, job_kind=kind)
    gone(training, core, kind, name)


def gone(training: Any, core: Any, kind: str, name: str) -> None:
    """The job, and with it its Pods and Services."""
    selector = f"training.kubeflow.org/job-name={name}"
    for listed in (core.list_namespaced_pod, core.list_namespaced_service):

        def none_left(listed: Any = listed) -> bool:
            return not listed(NAMESPACE, label_selector=selector).items

        eventually(none_left, f"{name} gone")
    with pytest.raises(RuntimeError):
        training.get_job(name, job_kind=kind)


def succeeded(api: Any, where: tuple[str, ...], made: Json) -> list[str]:
    """The conditions of an object at its end, by the client's own watch."""
    from kubernetes import watch

    seen: list[str] = []
    stream = watch.Watch().stream(
        api.list_namespaced_custom_object,
        *where,
        field_selector=f"metadata.name={made['metadata']['name']}",
        resource_version=made["metadata"]["resourceVersion"],
        timeout_seconds=60,
    )
    for event in stream:
        conditions = (event["object"].get("status") or {}).get("conditions") or []
        seen = [each["type"] for each in conditions if each["status"] == "True"]
        if "Succeeded" in seen or "Failed" in seen:
            break
    return seen


def test_kinds_that_the_training_client_does_not_know(training: Any, core: Any) -> None:
    api, where = training.custom_api, (GROUP, VERSION, NAMESPACE, "mxjobs")
    made = api.create_namespaced_custom_object(*where, manifest("MXJob", "an-mxjob"))
    assert succeeded(api, where, made) == ["Created", "Succeeded"]
    log = core.read_namespaced_pod_log("an-mxjob-scheduler-0", NAMESPACE, container="mxnet")
    assert log == "role scheduler at an-mxjob-scheduler-0 kubernetes 1\n"
    api.delete_namespaced_custom_object(*where, "an-mxjob")


def test_our_own_kind_by_custom_objects(training: Any, core: Any) -> None:
    api, where = training.custom_api, ("dyff.io", "v1alpha1", NAMESPACE, "dljobs")
    role = {"replicas": 2, "template": template("main", "echo $WHO")}
    environment = [{"name": "WHO", "value": "${role} ${index} of ${worker.count}"}]
    framework = {"container": "main", "roles": [{"name": "worker"}], "environment": environment}
    spec = {"frameworkSpec": framework, "roles": {"worker": role}}
    body = {"apiVersion": "dyff.io/v1alpha1", "kind": "DLJob", "metadata": {"name": "own"}, "spec": spec}
    made = api.create_namespaced_custom_object(*where, body)
    assert succeeded(api, where, made) == ["Created", "Succeeded"]
    pods = core.list_namespaced_pod(NAMESPACE, label_selector="training.kubeflow.org/job-name=own").items
    logs = {core.read_namespaced_pod_log(each.metadata.name, NAMESPACE) for each in pods}
    assert logs == {"worker 0 of 2\n", "worker 1 of 2\n"}
    api.delete_namespaced_custom_object(*where, "own")


def test_a_function_becomes_a_job(training: Any) -> None:
    def train(parameters: dict[str, float]) -> None:
        import json
        import os

        task = json.loads(os.environ["TF_CONFIG"])["task"]
        print("learnt", parameters["rate"], "as", task["type"], task["index"], os.environ["OWN"])

    training.create_job(
        name="of-a-function",
        job_kind="TFJob",
        train_func=train,
        parameters={"rate": 0.5},
        base_image=IMAGE,
        num_workers=2,
        env_vars={"OWN": "own"},
    )
    finished(training, "TFJob", "of-a-function")
    logs, _ = training.get_job_logs("of-a-function", job_kind="TFJob", is_master=False)
    assert sorted(log.strip() for log in logs.values()) == [f"learnt 0.5 as worker {n} own" for n in (0, 1)]
    training.delete_job("of-a-function", job_kind="TFJob")


def test_events_tell_what_became_of_a_job(training: Any, core: Any) -> None:
    training.create_job(modelled(training, manifest("PyTorchJob", "told")))
    finished(training, "PyTorchJob", "told")
    names = ("told-master-0", "told-worker-0", "told-worker-1")
    wanted = {f"Created {what}: {name}" for what in ("pod", "service") for name in names}
    told: set[str] = set()

    def all_told() -> bool:
        _, events = training.get_job_logs("told", is_master=False, verbose=True)
        told.update(text.split(" ", 2)[2] for text in events["pytorchjob/told"])
        return wanted <= told and "PyTorchJob told is successfully completed." in told

    eventually(all_told, "events")
    fields = "involvedObject.kind=PyTorchJob,involvedObject.name=told,reason=PyTorchJobSucceeded"
    (event,) = core.list_namespaced_event(NAMESPACE, field_selector=fields).items
    assert event.message == "PyTorchJob told is successfully completed."
    training.delete_job("told")


def test_a_job_that_fails_says_so(training: Any) -> None:
    job = manifest("PyTorchJob", "fails", "exit 3")
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["restartPolicy"] = "Never"
    training.create_job(modelled(training, job))
    with pytest.raises(RuntimeError, match="is Failed"):
        finished(training, "PyTorchJob", "fails")
    assert training.is_job_failed("fails")
    assert not training.is_job_succeeded("fails")
    failure = training.custom_api.get_namespaced_custom_object(
        GROUP, VERSION, NAMESPACE, "pytorchjobs", "fails"
    )
    assert failure["status"]["failures"][0]["exitCode"] == 3
    training.delete_job("fails")


def test_a_running_job_is_followed_suspended_and_resumed(training: Any, core: Any, tmp_path: Path) -> None:
    """Its logs come while it runs; the client's own patch stops and continues it."""
    go = tmp_path / "go"
    script = f"echo first; while [ ! -e {go} ]; do sleep 0.05; done; echo last"
    training.create_job(modelled(training, manifest("JAXJob", "long", script)))
    finished(training, "JAXJob", "long", "Running")
    assert training.is_job_running("long", job_kind="JAXJob")
    training.update_job({"spec": {"runPolicy": {"suspend": True}}}, "long", job_kind="JAXJob")
    eventually(lambda: has(training, "JAXJob", "long", "Suspended"), "suspended")
    eventually(lambda: training.get_job_pod_names("long") == [], "no Pods")
    training.update_job({"spec": {"runPolicy": {"suspend": False}}}, "long", job_kind="JAXJob")
    eventually(lambda: has(training, "JAXJob", "long", "Running"), "running again")
    for index in (0, 1):

        def has_begun(pod: str = f"long-worker-{index}") -> bool:
            return bool(core.read_namespaced_pod_log(pod, NAMESPACE) == "first\n")

        eventually(has_begun, "its log")
    go.touch()
    logs, _ = training.get_job_logs("long", job_kind="JAXJob", is_master=False, follow=True)
    assert {log.replace("\n", "") for log in logs.values()} == {"firstlast"}
    finished(training, "JAXJob", "long")
    training.delete_job("long", job_kind="JAXJob")


def eventually(holds: Callable[[], object], what: str, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def has(training: Any, kind: str, name: str, condition: str) -> bool:
    found = training.get_job_conditions(name, job_kind=kind)
    return any(each.type == condition and each.status == "True" for each in found)
