"""The published clients, unmodified (`kubernetes`, `kubeflow-training`): every kind of training job, all its life.

One machine for all of them: the jobs are apart by their names.
"""

import gc
import os
import shutil
import signal
import subprocess
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

from steelyard.local.state import read_record
from tests.integration.conftest import Machine, processes_of
from tests.integration.small_jobs import (
    GROUP,
    IMAGE,
    KINDS,
    NAMESPACE,
    VERSION,
    eventually,
    finished,
    has,
    manifest,
    modelled,
    succeeded,
    template,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("STEELYARD_"):
                patch.delenv(name)
        machine = Machine(tmp_path_factory.mktemp("training") / "state")
        machine.up("platform")
        yield machine
        machine.down()
    # It follows logs in threads of its own; each holds a socket until it has seen the end of its stream.
    for thread in threading.enumerate():
        if "wrap_log_stream" in thread.name:
            thread.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # the clients leave their sockets open
    assert processes_of(machine.state.path) == []


@pytest.fixture(scope="module")
def training(up: Machine) -> Iterator[Any]:
    from kubeflow.training import TrainingClient

    client = TrainingClient(config_file=str(up.state.kubeconfig))
    yield client
    for api in (client.custom_api, client.core_api):
        close(api.api_client)


@pytest.fixture(scope="module")
def core(up: Machine) -> Iterator[Any]:
    from kubernetes import client, config

    api = config.new_client_from_config(str(up.state.kubeconfig))
    yield client.CoreV1Api(api)
    close(api)


def close(api: Any) -> None:
    """Close a client of Kubernetes, and its connections, which its own `close` leaves open."""
    api.close()
    api.rest_client.pool_manager.clear()


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"])
def test_a_job_of_each_kind(training: Any, core: Any, kind: str) -> None:
    name = f"a-{kind.lower()}"
    _, _, replicas, leader, said = KINDS[kind]
    training.create_job(modelled(training, manifest(kind, name)))
    job = finished(training, kind, name)
    assert [condition.type for condition in job.status.conditions if condition.status == "True"] == [
        "Created",
        "Succeeded",
    ]
    assert training.is_job_succeeded(name, job_kind=kind)
    assert job.status.replica_statuses.keys() == replicas.keys()
    assert job.status.completion_time >= job.status.start_time
    assert name in {job.metadata.name for job in training.list_jobs(job_kind=kind)}
    logs, _ = training.get_job_logs(name, job_kind=kind)
    assert list(logs) == [f"{name}-{leader}"]
    assert said in logs[f"{name}-{leader}"]
    left = sum(replicas.values()) - (kind == "MPIJob")  # its clean-up policy ends what still waits
    eventually(lambda: len(training.get_job_pod_names(name)) == left, f"{left} Pods")
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
    logs = {core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE) for pod in pods}
    assert logs == {"worker 0 of 2\n", "worker 1 of 2\n"}
    api.delete_namespaced_custom_object(*where, "own")


def test_a_function_becomes_a_job(training: Any, core: Any) -> None:
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

    def both_ended() -> bool:  # the job succeeds with its worker 0, whatever the other one does
        selector = "training.kubeflow.org/job-name=of-a-function"
        pods = core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        return [pod.status.phase for pod in pods] == ["Succeeded"] * 2

    eventually(both_ended, "both workers' end")
    logs, _ = training.get_job_logs("of-a-function", job_kind="TFJob", is_master=False)
    assert sorted(log.strip() for log in logs.values()) == [f"learnt 0.5 as worker {n} own" for n in (0, 1)]
    training.delete_job("of-a-function", job_kind="TFJob")


def test_events_tell_what_became_of_a_job(training: Any, core: Any) -> None:
    training.create_job(modelled(training, manifest("PyTorchJob", "told")))
    finished(training, "PyTorchJob", "told")
    names = ("told-master-0", "told-worker-0", "told-worker-1")
    wanted = {f"Created {what}: {name}" for what in ("pod", "service") for name in names}
    reported: set[str] = set()

    def all_told() -> bool:
        _, events = training.get_job_logs("told", is_master=False, verbose=True)
        reported.update(text.split(" ", 2)[2] for text in events.get("pytorchjob/told", ()))
        return wanted <= reported and "PyTorchJob told is successfully completed." in reported

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
    """Logs come while the job runs; the client's own patch stops and continues it."""
    from kubernetes.client import ApiException

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
            try:
                return bool(core.read_namespaced_pod_log(pod, NAMESPACE) == "first\n")
            except ApiException as error:  # the job is Running with its first worker
                if error.status not in (400, 404):  # waiting to start, or not made yet
                    raise
                return False

        eventually(has_begun, "its log")
    go.touch()
    logs, _ = training.get_job_logs("long", job_kind="JAXJob", is_master=False, follow=True)
    assert {log.replace("\n", "") for log in logs.values()} == {"firstlast"}
    finished(training, "JAXJob", "long")
    training.delete_job("long", job_kind="JAXJob")


def test_an_evicted_worker_is_replaced_and_not_counted(training: Any, core: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = manifest("PyTorchJob", "evicted", f"while [ ! -e {go} ]; do sleep 0.05; done", backoffLimit=0)
    training.create_job(modelled(training, job))
    finished(training, "PyTorchJob", "evicted", "Running")
    worker = "evicted-worker-1"
    uid = core.read_namespaced_pod(worker, NAMESPACE).metadata.uid
    eviction = {"metadata": {"name": worker}, "deleteOptions": {"gracePeriodSeconds": 0}}
    core.create_namespaced_pod_eviction(worker, NAMESPACE, eviction)

    def is_another() -> bool:
        pods = core.list_namespaced_pod(NAMESPACE, field_selector=f"metadata.name={worker}").items
        return any(pod.metadata.uid != uid and pod.status.phase == "Running" for pod in pods)

    eventually(is_another, "another worker")
    go.touch()
    finished(training, "PyTorchJob", "evicted")
    stored = training.custom_api.get_namespaced_custom_object(
        GROUP, VERSION, NAMESPACE, "pytorchjobs", "evicted"
    )
    assert (stored["status"]["restarts"], stored["status"]["disruptions"]) == (0, 1)
    training.delete_job("evicted")


@pytest.fixture(scope="module")
def pod(core: Any) -> Iterator[str]:
    """A running Pod."""
    spec = {**template("main", "export OWN=1; sleep 300")["spec"], "restartPolicy": "Never"}
    spec["containers"][0]["env"] = [{"name": "WHO", "value": "a Pod"}]
    core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "runs"}, "spec": spec})
    eventually(lambda: core.read_namespaced_pod("runs", NAMESPACE).status.phase == "Running", "running")
    yield "runs"
    core.delete_namespaced_pod("runs", NAMESPACE, grace_period_seconds=0)


def executed(core: Any, pod: str, *command: str, **options: Any) -> Any:
    from kubernetes.stream import stream

    wanted = {"stdin": False, "stdout": True, "stderr": True, "tty": False, **options}
    return stream(core.connect_get_namespaced_pod_exec, pod, NAMESPACE, command=list(command), **wanted)


def test_a_command_runs_where_the_container_runs(core: Any, pod: str) -> None:
    assert executed(core, pod, "sh", "-c", "echo $WHO; hostname; echo wrong >&2") == "a Pod\nruns\nwrong\n"
    client = executed(core, pod, "sh", "-c", "head -n 1; exit 3", stdin=True, _preload_content=False)
    client.write_stdin("read me\n")
    client.run_forever(timeout=60)
    assert (client.read_stdout(), client.returncode) == ("read me\n", 3)
    failed = executed(core, pod, "sh", "-c", "echo out; exit 3", _preload_content=False)
    failed.run_forever(timeout=60)
    assert (failed.read_stdout(), failed.returncode) == ("out\n", 3)
    absent = executed(core, pod, "no-such-program", _preload_content=False)
    absent.run_forever(timeout=60)
    assert (absent.returncode, "No such file" in absent.read_stderr()) == (127, True)


def test_a_command_has_a_terminal_where_one_is_asked_for(core: Any, pod: str) -> None:
    client = executed(core, pod, "sh", stdin=True, tty=True, _preload_content=False)
    client.write_channel(4, '{"Width": 101, "Height": 7}')
    client.write_stdin("stty size; tty; exit 5\n")
    client.run_forever(timeout=60)
    said = client.read_stdout()
    assert "7 101" in said
    assert "/dev/pts/" in said
    assert client.returncode == 5


def runs(up: Machine, command: str) -> bool:
    """Return whether a process is this command. The program that enters the container names it too, and runs before."""
    return any(process.partition(": ")[2].strip() == command for process in processes_of(up.state.path))


def named(up: Machine, command: str) -> bool:
    """Return whether a process is this command, or names it."""
    return any(command in process for process in processes_of(up.state.path))


def test_a_command_ends_with_its_caller_and_with_its_container(core: Any, up: Machine) -> None:
    core.create_namespaced_pod(
        NAMESPACE,
        {
            "metadata": {"name": "ends"},
            "spec": {**template("main", "sleep 300")["spec"], "restartPolicy": "Never"},
        },
    )
    eventually(lambda: core.read_namespaced_pod("ends", NAMESPACE).status.phase == "Running", "running")
    first = executed(core, "ends", "sleep", "1001", _preload_content=False)
    eventually(lambda: runs(up, "sleep 1001"), "the command")
    first.close()
    eventually(lambda: not named(up, "sleep 1001"), "ended with its caller")
    second = executed(core, "ends", "sleep", "1002", _preload_content=False)
    # Not before: a program that enters a container which ends meanwhile fails in another way.
    eventually(lambda: runs(up, "sleep 1002"), "the command")
    core.delete_namespaced_pod("ends", NAMESPACE, grace_period_seconds=0)
    second.run_forever(timeout=60)
    assert second.returncode == 137
    # All of its group was killed at once; on a busy machine the kernel ends one of them after the other.
    eventually(lambda: not named(up, "sleep 1002"), "ended with its container")


def test_kubectl_runs_a_command(up: Machine, pod: str) -> None:
    kubectl = shutil.which("kubectl")
    if not kubectl:
        pytest.skip("no kubectl on this machine")
    command = [kubectl, "--kubeconfig", str(up.state.kubeconfig), "exec", "-i", pod, "--", "sh", "-c"]
    run = partial(subprocess.run, capture_output=True, text=True, timeout=60, check=False)
    done = run([*command, "cat; exit 4"], input="through")
    assert (done.stdout, done.returncode) == ("through", 4), done.stderr
    much = run([*command, "seq 200000; sleep 1001 &"], input="")
    assert (len(much.stdout), much.returncode) == (1288895, 0), much.stderr
    eventually(lambda: not named(up, "sleep 1001"), "nothing left")


def test_a_command_ends_with_the_server_that_was_killed(core: Any, up: Machine, pod: str) -> None:
    """The Pod goes on: it belongs to its shim."""
    command = executed(core, pod, "sleep", "1003", _preload_content=False)
    eventually(lambda: runs(up, "sleep 1003"), "the command")
    os.kill(read_record(up.state).children["kubernetes"][0], signal.SIGKILL)
    eventually(lambda: not named(up, "sleep 1003"), "its end")
    command.close()

    def answers() -> bool:
        try:
            return bool(core.read_namespaced_pod(pod, NAMESPACE).status.phase == "Running")
        except (OSError, urllib3.exceptions.HTTPError):
            return False

    eventually(answers, "a server again")
    assert executed(core, pod, "hostname") == "runs\n"
