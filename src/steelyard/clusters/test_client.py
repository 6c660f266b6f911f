"""The clients: explicit, several at once, sync from async; refusals as errors that say what is missing."""

import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.clusters import AsyncClient, Client, errors
from steelyard.clusters.admin import Admin, AsyncAdmin
from steelyard.clusters.appwrappers import AppWrappers, AsyncAppWrappers
from steelyard.clusters.blocking import Sync
from steelyard.clusters.connection import translate_error
from steelyard.clusters.doubles import MemoryApi
from steelyard.clusters.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RAY_CLUSTER
from steelyard.clusters.login import Target
from steelyard.clusters.queues import AsyncQueues, Queues
from steelyard.clusters.queues.view import QueueView, WorkloadView
from steelyard.clusters.ray.clusters import AsyncClusters, Clusters
from steelyard.clusters.ray.jobs import AsyncJobs, Jobs
from steelyard.clusters.ray.submissions import AsyncSubmissions, Submissions
from steelyard.clusters.ray.view import RayCluster
from steelyard.clusters.training import (
    BadJob,
    JobDeleted,
    JobRequest,
    NoSuchJob,
    Program,
    WaitedTooLong,
)
from steelyard.clusters.training_jobs import AsyncTraining, Training
from steelyard_common.types import Json
from steelyard_kube import errors as api
from steelyard_kube.resource import PYTORCH_JOBS
from steelyard_kube.store import make_key


@pytest.fixture
def memory() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
def client(memory: MemoryApi) -> Iterator[Client]:
    with Client(api=memory, namespace="team-a") as client:
        yield client


@pytest.mark.parametrize(
    ("sync", "written"),
    [
        (Clusters, AsyncClusters),
        (Jobs, AsyncJobs),
        (Submissions, AsyncSubmissions),
        (Queues, AsyncQueues),
        (AppWrappers, AsyncAppWrappers),
        (Admin, AsyncAdmin),
        (Training, AsyncTraining),
    ],
)
def test_each_async_method_has_its_sync_form_with_its_text(sync: type[Sync], written: type) -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(sync) == public(written)
    assert all(vars(sync)[name].__doc__ == vars(written)[name].__doc__ for name in public(sync))


def config(server: str, token: str, namespace: str) -> str:
    return f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: team, context: {{cluster: c, user: u, namespace: {namespace}}}}}]
current-context: team
"""


def test_defect_6_and_7_two_clients_of_one_process_are_two_users_of_two_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text(config("http://127.0.0.1:1", "one", "team-a"))
    (tmp_path / "b").write_text(config("http://127.0.0.1:2", "two", "team-b"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    first, own = Target(kubeconfig=tmp_path / "a", context="team").open()
    second, other = Target(kubeconfig=tmp_path / "b").open()
    third, _ = Target(server="http://127.0.0.1:3", token="three").open()
    assert (first.url, own) == ("http://127.0.0.1:1", "team-a")
    assert (second.url, other) == ("http://127.0.0.1:2", "team-b")
    assert third.url == "http://127.0.0.1:3"


def test_defect_6_a_kubeconfig_that_is_not_there_never_leads_to_another_cluster(tmp_path: Path) -> None:
    with pytest.raises(errors.NotConfigured, match="no such file"):
        Client(kubeconfig=tmp_path / "missing")


@pytest.mark.parametrize(
    "target",
    [
        Target(server="https://a", context="b"),
        Target(server="https://a"),
        Target(server="a:6443", token="x"),
        Target(token=" "),
        Target(in_cluster=True, kubeconfig="x"),
    ],
)
def test_what_contradicts_itself_is_refused(target: Target) -> None:
    with pytest.raises(errors.NotConfigured):
        target.open()


def test_defect_8_a_call_without_a_namespace_means_the_clients(client: Client, memory: MemoryApi) -> None:
    assert client.ray.clusters.list() == []
    with Client(api=memory) as other:
        assert other.namespace == "default"


def test_defect_11_a_silent_server_is_no_question_of_credentials() -> None:
    with (
        Client(server="http://127.0.0.1:1", token="x") as client,
        pytest.raises(errors.Unreachable, match="does not answer"),
    ):
        client.ray.clusters.list()


REFUSALS: list[tuple[api.ApiError, type[errors.ClusterError], str]] = [
    (
        api.Forbidden('rayclusters.ray.io is forbidden: User "u" cannot list resource "rayclusters"'),
        errors.Forbidden,
        "missing right: list rayclusters.ray.io in namespace team-a",
    ),
    (
        # An apply that makes its object needs `create` too.
        api.Forbidden(
            'User "u" cannot create resource "localqueues" in API group "kueue.x-k8s.io" in the namespace "n"'
        ),
        errors.Forbidden,
        "missing right: create localqueues.kueue.x-k8s.io in namespace team-a",
    ),
    (api.Forbidden("exceeded quota: compute"), errors.Forbidden, "does not allow it: exceeded quota"),
    (api.Unauthorized("no"), errors.Unauthenticated, "does not accept the login"),
    (
        api.NotFound("the server could not find the requested resource"),
        errors.Unsupported,
        "is KubeRay installed",
    ),
    (api.TooManyRequests("later"), errors.TooManyRequests, "asks to wait"),
    (api.ApiError("boom", status=500), errors.Unavailable, "500"),
    (api.ServerTimeout("slow"), errors.Unavailable, "504"),
    (api.ApiError("teapot", status=418), errors.Refused, "teapot"),
]


@pytest.mark.parametrize(("refusal", "kind", "said"), REFUSALS)
def test_each_refusal_is_raised_and_says_what_it_is_about(
    client: Client, memory: MemoryApi, refusal: api.ApiError, kind: type[errors.ClusterError], said: str
) -> None:
    memory.refusal = refusal
    with pytest.raises(kind, match=said) as raised:
        client.ray.clusters.list()
    assert type(raised.value) is kind
    assert raised.value.__cause__ is refusal


def test_the_missing_right_is_a_rule_for_a_role() -> None:
    error = translate_error(api.Forbidden("u cannot create it"), "create", RAY_CLUSTER, "demo", "team-a")
    assert isinstance(error, errors.Forbidden)
    assert error.right is not None
    assert error.right.rule == {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["create"]}


def test_the_fields_at_fault_are_reported() -> None:
    details: Json = {"causes": [{"field": "spec.replicas", "message": "too many"}]}
    error = translate_error(api.Invalid("no", details=details), "create", RAY_CLUSTER, "demo")
    assert isinstance(error, errors.Invalid)
    assert error.faults == (errors.Fault("spec.replicas", "too many"),)


@pytest.mark.parametrize(
    ("served", "version"), [(["v1beta1"], "v1beta1"), (["v1beta1", "v1beta2"], "v1beta2")]
)
async def test_versions_are_negotiated_with_one_request(served: list[str], version: str) -> None:
    memory = MemoryApi({"kueue.x-k8s.io": served})
    async with AsyncClient(api=memory) as client:
        assert (await client.connection.resource(LOCAL_QUEUE)).version == version
        assert (await client.connection.resource(CLUSTER_QUEUE)).version == version
    assert memory.requests == [("get", "apis", "")]


@pytest.mark.parametrize(
    ("served", "said"), [({}, "is Kueue installed"), ({"kueue.x-k8s.io": ["v2"]}, "has kueue.x-k8s.io v2")]
)
async def test_a_version_that_is_not_spoken_is_reported(served: dict[str, list[str]], said: str) -> None:
    async with AsyncClient(api=MemoryApi(served)) as client:
        with pytest.raises(errors.Unsupported, match=said):
            await client.queues.list()


async def test_a_sync_client_works_where_an_event_loop_runs_already(memory: MemoryApi) -> None:
    with Client(api=memory) as client:
        assert client.ray.clusters.list() == []


PROGRAM = """
import sys
import steelyard.clusters
from steelyard.clusters import Client, ClusterConfig
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""


def test_a_client_that_is_left_open_is_closed_when_its_last_group_is_gone(memory: MemoryApi) -> None:
    ended = threading.Event()
    memory.end_watches = ended.set  # type: ignore[method-assign]
    queues = Client(api=memory).queues
    gc.collect()
    assert list(queues.list()) == []
    assert not ended.is_set()
    threads = [thread for thread in threading.enumerate() if thread.name == "steelyard-client"]
    assert threads
    del queues
    gc.collect()
    assert ended.wait(60)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_program_that_closes_no_client_hears_nothing_of_it() -> None:
    server = """
        import gc, http.server, threading
        class Lists(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def log_message(self, *args): pass
            def do_GET(self):
                body = b'{"metadata": {"resourceVersion": "1"}, "items": []}'
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
        served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lists)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        from steelyard.clusters import Client
        client = Client(server=f"http://127.0.0.1:{served.server_port}", token="t")
        assert list(client.ray.clusters.list()) == []
        del client
        gc.collect()
    """
    command = [sys.executable, "-c", textwrap.dedent(server)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_defect_13_an_import_loads_nothing_heavy() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded, memory = run.stdout.split("\n")[:2]
    heavy = {"ray", "pandas", "ipywidgets", "aiohttp", "httpx", "kubernetes", "numpy", "rich", "IPython"}
    assert not heavy & set(loaded.split())
    assert int(memory) <= 60 << 10


def test_training_jobs_are_requests_in_the_clients_namespace_and_fail_as_the_others_do(
    client: Client, memory: MemoryApi
) -> None:
    jobs = client.training
    program = Program(image="own/torch:1", command=("python", "train.py"))
    request = JobRequest("digits", jobs.framework("pytorch"), program, workers=2)
    made = jobs.submit(request)
    assert repr(made) == "JobView(kind='PyTorchJob', name='digits', namespace='team-a')"
    assert str(made) == "digits: New"
    again = {**made.resource, "metadata": {"name": "again"}}
    assert jobs.submit(again, {"metadata": {"name": "again-files"}, "data": {}}).namespace == "team-a"
    assert {job.name for job in jobs.list()} == {"digits", "again"}
    with pytest.raises(
        errors.AlreadyExists, match="there is a PyTorchJob digits in namespace team-a already"
    ):
        jobs.submit(request)
    with pytest.raises(errors.NotFound, match="no such training job in namespace team-a"):
        jobs.get("missing")
    with pytest.raises(errors.WaitTimeout) as late:
        jobs.wait("digits", timeout=0)
    assert late.value.status.name == "digits"
    wrong = {**again, "spec": {**again["spec"], "runPolcy": {}}}
    often: Any = "Often"
    failures: list[tuple[Any, str]] = [(replace(request, restart=often), "restart"), (wrong, "spec.runPolcy")]
    for refused, field in [*failures, ({"kind": "Job", "metadata": {"name": "a"}}, "kind")]:
        with pytest.raises(errors.BadConfig) as raised:
            jobs.submit(refused)
        assert [fault.field for fault in raised.value.faults] == [field]
    key = make_key(PYTORCH_JOBS, "team-a", "digits")
    failed = {"conditions": [{"type": "Failed", "status": "True", "message": "exit status 1"}]}
    memory.store.update(key, lambda old: {**old, "status": failed}, "status")
    with pytest.raises(errors.Failed, match=r"digits: Failed \(exit status 1\)"):
        jobs.wait("pytorchjob/digits")
    jobs.delete("digits")
    with pytest.raises(errors.NotFound, match="was deleted"):
        jobs.wait(made, timeout=60)
    memory.refusal = api.Unreachable("no route")
    with pytest.raises(errors.Unreachable):
        jobs.submit(request)


@pytest.mark.parametrize("error", [BadJob, NoSuchJob, JobDeleted, WaitedTooLong])
def test_errors_of_training_are_those_of_the_client(error: type[Exception]) -> None:
    assert isinstance(error("why"), errors.ClusterError)
    assert str(error("why")) == "why"


@pytest.mark.parametrize("view", [RayCluster, QueueView, WorkloadView])
def test_a_view_is_printed_by_its_name_and_not_as_the_whole_object(view: type[Any]) -> None:
    printed = str(view({"metadata": {"name": "demo", "namespace": "team-a"}, "spec": {"a": "long"}}))
    assert printed == f"{view.__name__}(name='demo', namespace='team-a')"
