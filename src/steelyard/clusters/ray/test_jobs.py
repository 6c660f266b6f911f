"""The group `client.ray.jobs` over a cluster in memory."""

import io
import random
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.clusters import BadConfig, Client, ClusterConfig, JobConfig, RuntimeEnv, errors
from steelyard.clusters.doubles import MemoryApi
from steelyard.clusters.kinds import LOCAL_QUEUE, RAY_CLUSTER, RAY_JOB, WORKLOAD
from steelyard.clusters.ray import jobs as jobs_module
from steelyard.clusters.ray.doubles import make_cluster, make_pod, make_queue, make_workload
from steelyard.clusters.ray.job_status import JobStatus, job_status
from steelyard.clusters.ray.packing import pack
from steelyard.clusters.ray.scripts import find_script
from steelyard_common.types import Json
from steelyard_kube.cluster import LogLine
from steelyard_kube.errors import Forbidden, Unreachable
from steelyard_kube.resource import PODS, SECRETS, Resource
from steelyard_kube.store import make_key

OWN = ClusterConfig(name="own")


@pytest.fixture
def memory() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
def client(memory: MemoryApi) -> Iterator[Client]:
    with Client(api=memory, namespace="team-a") as client:
        yield client


def job(name: str = "job", **values: Any) -> JobConfig:
    return JobConfig(**{"name": name, "entrypoint": "python main.py", "cluster_config": OWN, **values})


def put(memory: MemoryApi, resource: Resource, obj: Json) -> None:
    """Make an object with its status."""
    made = memory.store.create(resource, obj)
    key = make_key(resource, "team-a", made["metadata"]["name"])
    memory.store.update(key, lambda old: {**old, "status": obj["status"]}, "status")


def end(memory: MemoryApi, name: str, **status: str) -> None:
    key = make_key(RAY_JOB.at("v1"), "team-a", name)
    memory.store.update(key, lambda old: {**old, "status": status}, "status")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"cluster_config": None}, "cluster"),
        ({"cluster": "x"}, "cluster"),
        ({"cluster_config": None, "cluster": "x", "queue": "q"}, "queue"),
        ({"entrypoint": ""}, "entrypoint"),
        ({"runtime_env": {"pip": ["a"], "conda": "b"}}, "runtime_env.conda"),
        ({"runtime_env": {"unheard_of": 1}}, "runtime_env.unheard_of"),
        ({"runtime_env": {"working_dir": "./here"}}, "runtime_env.working_dir"),
        ({"working_dir": Path("/not/there")}, "working_dir"),
    ],
)
def test_a_job_is_checked_before_it_is_sent(values: dict[str, Any], field: str) -> None:
    with pytest.raises(BadConfig) as raised:
        job(**values)
    assert field in {fault.field for fault in raised.value.faults}


@pytest.mark.parametrize("right", ["create secrets", "patch secrets", "delete secrets", "create rayjobs"])
def test_no_file_is_left_of_a_user_who_lacks_a_right(
    memory: MemoryApi, client: Client, tmp_path: Path, right: str
) -> None:
    (tmp_path / "main.py").write_text("1")
    memory.lacking = {right}
    with pytest.raises(errors.Forbidden, match=right) as raised:
        client.ray.jobs.submit(job(working_dir=tmp_path))
    assert raised.value.right is not None
    made = [request for request in memory.requests if request[0] == "create"]
    assert {plural for _, plural, _ in made} == {"selfsubjectaccessreviews"}


def test_files_for_a_cluster_that_runs_are_sent_from_its_own_image(
    memory: MemoryApi, client: Client, tmp_path: Path
) -> None:
    cluster = make_cluster("running")
    memory.store.create(RAY_CLUSTER.at("v1"), cluster)
    (tmp_path / "main.py").write_text("1")
    made = client.ray.jobs.submit(job(cluster_config=None, cluster="running", working_dir=tmp_path))
    pod = made.resource["spec"]["submitterPodTemplate"]["spec"]
    assert {container["image"] for container in (*pod["initContainers"], *pod["containers"])} == {"own/ray:1"}


def test_the_whole_runtime_environment_is_sent(client: Client) -> None:
    environment = RuntimeEnv(
        conda={"dependencies": ["x"]},
        py_modules=("s3://a/b.zip",),
        env_vars={"A": "1"},
        image_uri="own/ray:1",
        plugins={"own": {"x": 1}},
    )
    made = client.ray.jobs.submit(job(runtime_env=environment))
    assert yaml.safe_load(made.resource["spec"]["runtimeEnvYAML"]) == {
        "conda": {"dependencies": ["x"]},
        "py_modules": ["s3://a/b.zip"],
        "env_vars": {"A": "1"},
        "image_uri": "own/ray:1",
        "own": {"x": 1},
    }


def test_defect_9_a_folder_of_some_megabytes_travels_in_pieces(
    client: Client, memory: MemoryApi, tmp_path: Path
) -> None:
    content = random.Random(0).randbytes(1500 << 10)
    (tmp_path / "data.bin").write_bytes(content)
    (tmp_path / "main.py").write_text("print(1)")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "secret").write_text("x")
    made = client.ray.jobs.submit(job(working_dir=tmp_path))
    secrets = list(memory.store.objects(SECRETS, "team-a"))
    assert len(secrets) == 3
    assert all(len(str(secret["data"])) < 1 << 20 for secret in secrets)
    assert {secret["metadata"]["ownerReferences"][0]["uid"] for secret in secrets} == {
        made.resource["metadata"]["uid"]
    }
    pieces = {name: value for secret in secrets for name, value in secret["data"].items()}
    joined = b"".join(b64decode(pieces[name]) for name in sorted(pieces))
    with zipfile.ZipFile(io.BytesIO(joined)) as archive:
        assert sorted(archive.namelist()) == ["data.bin", "main.py"]
        assert archive.read("data.bin") == content


@pytest.mark.parametrize(
    ("entrypoint", "script"),
    [
        ("python main.py --lr 1", "main.py"),
        ("A=1 python3.11 -u -W ignore ./code/../main.py", "main.py"),
        ("bash -x run.sh && python later.py", "run.sh"),
        ("bash -euo pipefail +x run.sh", "run.sh"),
        ("python -O main.py", "main.py"),
        ("python --check-hash-based-pycs always main.py", None),
        ("./run.sh", "run.sh"),
        ("python ../main.py", "../main.py"),
        ("python /opt/main.py", None),
        ("python -m package", None),
        ("python -c 'print(1)'", None),
        ("bash -lc 'python main.py'", None),
        ("cd code && python main.py", None),
        ("python $HOME/main.py", None),
        ("torchrun main.py", None),
        ("python", None),
        ("A=1", None),
    ],
)
def test_the_script_that_a_command_runs(entrypoint: str, script: str | None) -> None:
    assert find_script(entrypoint) == script


@pytest.mark.parametrize(
    ("entrypoint", "said"),
    [
        ("python main.py", "there is no main.py in working_dir .*; do you mean code/main.py?"),
        ("python data/secret.py", "data/secret.py is left out of working_dir"),
        ("python ../outside.py", "outside of it"),
        ("python code/main.py", ""),
        ("python code", ""),
    ],
)
def test_a_script_that_is_not_in_the_working_directory_is_refused_before_anything_is_made(
    client: Client, memory: MemoryApi, tmp_path: Path, entrypoint: str, said: str
) -> None:
    folder = tmp_path / "job"
    for path in (folder / "code/main.py", folder / "data/secret.py", tmp_path / "outside.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    config = job(entrypoint=entrypoint, working_dir=folder, runtime_env=RuntimeEnv(excludes=("data",)))
    if not said:
        assert client.ray.jobs.submit(config).phase == "Starting"
        return
    with pytest.raises(BadConfig, match=said):
        client.ray.jobs.submit(config)
    assert memory.requests == []


def test_what_the_entrypoint_takes_is_sent(client: Client) -> None:
    taken: dict[str, Any] = {
        "entrypoint_cpus": 0.5,
        "entrypoint_gpus": 1,
        "entrypoint_resources": {"slot": 2},
    }
    spec = client.ray.jobs.submit(job(**taken)).resource["spec"]
    given = {name: value for name, value in spec.items() if name.startswith("entrypoint") and name[10:]}
    assert given == {
        "entrypointNumCpus": 0.5,
        "entrypointNumGpus": 1,
        "entrypointResources": '{"slot": 2.0}',
    }


def test_defect_9_a_folder_that_is_too_large_is_refused_before_anything_is_made(
    client: Client, memory: MemoryApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.bin").write_bytes(random.Random(0).randbytes(1 << 20))
    monkeypatch.setattr(jobs_module, "MOST_PIECES", 1)
    with pytest.raises(BadConfig, match="object store"):
        client.ray.jobs.submit(job(working_dir=tmp_path))
    assert memory.requests == []


def test_defect_9_where_the_job_is_refused_no_files_are_left(
    client: Client, memory: MemoryApi, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text("print(1)")

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource.plural) == ("create", "rayjobs"):
            raise Forbidden("u cannot create resource rayjobs")

    memory.before_call = refuse
    with pytest.raises(errors.Forbidden, match="missing right: create rayjobs"):
        client.ray.jobs.submit(job(working_dir=tmp_path))
    assert list(memory.store.objects(SECRETS, "team-a")) == []


def test_equal_folders_give_equal_packages(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.py").write_text("1")
    assert pack(tmp_path / "a", limit=1 << 20).uri == pack(tmp_path / "b", limit=1 << 20).uri


def test_defect_10_a_job_checks_its_queue_its_cluster_and_its_priority_first(
    client: Client, memory: MemoryApi
) -> None:
    with pytest.raises(BadConfig, match="there is no such queue"):
        client.ray.jobs.submit(job(queue="missing"))
    with pytest.raises(BadConfig, match="priority_class"):
        client.ray.jobs.submit(job(priority_class="missing"))
    with pytest.raises(errors.NotFound, match="no RayCluster x"):
        client.ray.jobs.submit(job(cluster_config=None, cluster="x"))
    assert client.ray.jobs.list() == []


def test_defect_12_the_name_of_the_cluster_is_the_one_that_it_has(client: Client, memory: MemoryApi) -> None:
    client.ray.jobs.submit(job())
    end(memory, "job", jobDeploymentStatus="Running", rayClusterName="job-x7f2p", jobId="job-1")
    status = client.ray.jobs.status("job")
    assert (status.phase, status.cluster, status.job_id) == ("Running", "job-x7f2p", "job-1")
    with pytest.raises(errors.AlreadyExists, match="RayJob job"):
        client.ray.jobs.submit(job())
    client.ray.jobs.delete("job")
    with pytest.raises(errors.NotFound):
        client.ray.jobs.delete("job")


def test_a_job_with_files_that_is_there_already_is_named_and_not_its_files(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text("print(1)")
    client.ray.jobs.submit(job(working_dir=tmp_path))
    with pytest.raises(errors.AlreadyExists, match="there is a RayJob job in namespace team-a already"):
        client.ray.jobs.submit(job(working_dir=tmp_path))


def test_a_wait_for_a_job_that_fails_ends_and_says_why(client: Client, memory: MemoryApi) -> None:
    client.ray.jobs.submit(job())
    end(memory, "job", jobDeploymentStatus="Failed", reason="AppFailed", message="exit status 3")
    with pytest.raises(errors.Failed, match="AppFailed: exit status 3"):
        client.ray.jobs.wait("job", timeout=60)


@pytest.mark.parametrize(
    ("deployment", "own", "phase"),
    [
        ("", "", "Starting"),
        ("Initializing", "", "Starting"),
        ("Waiting", "", "Starting"),
        ("Running", "RUNNING", "Running"),
        ("Complete", "SUCCEEDED", "Succeeded"),
        ("Complete", "FAILED", "Failed"),
        ("Failed", "", "Failed"),
        ("ValidationFailed", "", "Failed"),
        ("Retrying", "", "Retrying"),
        ("Suspended", "", "Stopped"),
        ("Suspending", "", "Stopped"),
        ("Scheduled", "", "Starting"),
        ("AWordOfALaterVersion", "", "Unknown"),
    ],
)
def test_each_state_has_a_phase(deployment: str, own: str, phase: str) -> None:
    status: Json = {"jobDeploymentStatus": deployment, "jobStatus": own}
    assert job_status({"metadata": {"name": "a"}, "status": status}).phase == phase


def test_a_job_is_stopped_and_run_again(client: Client, memory: MemoryApi) -> None:
    client.ray.jobs.submit(job())
    assert client.ray.jobs.stop("job").resource["spec"]["suspend"] is True
    end(memory, "job", jobDeploymentStatus="Suspended")
    assert client.ray.jobs.resubmit("job").resource["spec"]["suspend"] is False
    with pytest.raises(errors.WaitTimeout, match="job: Starting"):
        client.ray.jobs.wait("job", timeout=0, poll=0)
    end(memory, "job", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    with pytest.raises(BadConfig, match="has ended"):
        client.ray.jobs.stop("job")
    with pytest.raises(BadConfig, match="new_name"):
        client.ray.jobs.resubmit("job")
    again = client.ray.jobs.resubmit("job", new_name="again")
    assert (
        again.resource["spec"]["rayClusterSpec"]
        == client.ray.jobs.get("job").resource["spec"]["rayClusterSpec"]
    )


def test_a_stop_that_would_not_last_in_a_queue_names_the_missing_right(
    client: Client, memory: MemoryApi
) -> None:
    memory.store.create(LOCAL_QUEUE.at("v1beta2"), make_queue())
    client.ray.jobs.submit(job(queue="team"))

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if resource.plural == "workloads":
            raise Forbidden("u cannot list resource workloads")

    memory.before_call = refuse
    with pytest.raises(errors.Forbidden, match="missing right: list workloads"):
        client.ray.jobs.stop("job")
    assert client.ray.jobs.get("job").resource["spec"].get("suspend") is not True


STUCK = ("ImagePullBackOff", "Back-off pulling image")


@pytest.fixture
def queued(client: Client, memory: MemoryApi) -> Client:
    """A job that its queue has admitted, and whose cluster's Pod does not get its image."""
    memory.store.create(LOCAL_QUEUE.at("v1beta2"), make_queue())
    client.ray.jobs.submit(job(queue="team"))
    workload = make_workload("w", owner="job", QuotaReserved="True", Admitted="True")
    workload["metadata"]["ownerReferences"][0]["uid"] = client.ray.jobs.get("job").resource["metadata"]["uid"]
    put(memory, WORKLOAD.at("v1beta2"), workload)
    key = make_key(RAY_JOB.at("v1"), "team-a", "job")
    memory.store.update(key, lambda old: {**old, "spec": {**old["spec"], "suspend": False}})
    end(memory, "job", jobDeploymentStatus="Initializing", rayClusterName="job-x")
    put(memory, PODS, make_pod("job-x-head", cluster="job-x", waiting=STUCK))
    return client


def test_a_job_that_its_queue_has_admitted_says_why_it_does_not_start(
    queued: Client, memory: MemoryApi
) -> None:
    before = len(memory.requests)
    status = queued.ray.jobs.status("job")
    assert (status.phase, status.reason, status.stuck) == ("Starting", "ImagePullBackOff", True)
    assert "ray:nowhere" in status.message
    assert status.place is not None
    assert status.place.admitted
    assert len(memory.requests) - before <= 4  # three, and the versions once


def test_a_submitter_that_does_not_start_is_why_its_job_does_not(client: Client, memory: MemoryApi) -> None:
    client.ray.jobs.submit(job())
    end(memory, "job", jobDeploymentStatus="Running")
    assert client.ray.jobs.status("job").phase == "Running"
    pod = make_pod("job-abc", waiting=STUCK)
    put(memory, PODS, {**pod, "metadata": {**pod["metadata"], "labels": {"job-name": "job"}}})
    status = client.ray.jobs.status("job")
    assert (status.phase, status.reason, status.stuck) == ("Starting", "ImagePullBackOff", True)
    end(memory, "job", jobDeploymentStatus="Running", jobStatus="RUNNING")
    assert client.ray.jobs.status("job").phase == "Running"


def test_waits_and_followed_logs_report_each_change_and_end_where_the_job_cannot_start(
    queued: Client,
) -> None:
    jobs = queued.ray.jobs
    for call in (
        lambda change: jobs.wait("job", timeout=30, poll=0, patience=0.1, on_change=change),
        lambda change: list(jobs.logs("job", follow=True, poll=0, patience=0.1, on_change=change)),
    ):
        statuses: list[JobStatus] = []
        with pytest.raises(errors.Failed, match="ImagePullBackOff"):
            call(statuses.append)
        assert [status.phase for status in statuses] == ["Starting"]


class Breaking(MemoryApi):
    """A cluster whose first log breaks off after two lines."""

    broken = False

    async def logs(self, *args: Any, **options: Any) -> Any:
        number = 0
        async for line in super().logs(*args, **options):
            yield line
            number += 1
            if number == 2 and not self.broken:
                self.broken = True
                raise Unreachable("broken")


def test_a_log_that_breaks_off_goes_on_without_lines_twice() -> None:
    memory = Breaking()
    with Client(api=memory, namespace="team-a") as client:
        client.ray.jobs.submit(job())
        end(memory, "job", jobDeploymentStatus="Running")
        pod = make_pod("job-submitter")
        pod["metadata"]["labels"] = {"job-name": "job"}
        pod["spec"] = {"containers": [{"name": "ray-job-submitter"}]}
        made = memory.store.create(PODS, pod)
        memory.written[made["metadata"]["uid"]] = [
            LogLine(f"2026-01-01T00:00:0{number // 2}Z", f"line {number}") for number in range(6)
        ]
        lines = []
        for line in client.ray.jobs.logs("job", follow=True, poll=0):
            lines.append(line)
            if len(lines) == 4:
                end(memory, "job", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
        assert lines == [f"line {number}" for number in range(6)]
        assert list(client.ray.jobs.logs("job")) == lines


def test_a_list_of_jobs_makes_at_most_two_requests(client: Client, memory: MemoryApi) -> None:
    for number in range(40):
        memory.store.create(
            RAY_JOB.at("v1"), {"metadata": {"name": f"j-{number}", "namespace": "team-a"}, "spec": {}}
        )
    assert len(client.ray.jobs.list()) == 40
    assert len(memory.requests) <= 2


def test_a_job_runs_on_a_cluster_that_is_there(client: Client, memory: MemoryApi) -> None:
    memory.store.create(RAY_CLUSTER.at("v1"), make_cluster("shared"))
    made = client.ray.jobs.submit(job(cluster_config=None, cluster="shared"))
    assert made.resource["spec"]["clusterSelector"] == {"ray.io/cluster": "shared"}
