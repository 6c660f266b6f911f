"""The group `client.ray.clusters` over a cluster in memory, which counts the requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.clusters import BadConfig, Client, ClusterConfig, JobConfig, WorkerGroup, errors
from steelyard.clusters.doubles import MemoryApi
from steelyard.clusters.kinds import EVENT, INGRESS, LOCAL_QUEUE, POD, RAY_CLUSTER, WORKLOAD, Kind
from steelyard.clusters.queues.choice import QueueWarning
from steelyard.clusters.ray.doubles import make_cluster, make_event, make_pod, make_queue, make_workload
from steelyard.clusters.ray.names import QUEUE
from steelyard.clusters.ray.plan import changes
from steelyard_common.types import Json
from steelyard_kube.store import make_key

DEMO = ClusterConfig(name="demo")


@pytest.fixture
def memory() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
def client(memory: MemoryApi) -> Iterator[Client]:
    with Client(api=memory, namespace="team-a") as client:
        yield client


def put(memory: MemoryApi, kind: Kind, obj: Json) -> Json:
    """Write an object as others have, with its status, without a request."""
    resource = kind.at(kind.versions[0])
    made = memory.store.create(resource, obj)
    if kind in (RAY_CLUSTER, WORKLOAD, POD) and "status" in obj:
        key = make_key(resource, made["metadata"]["namespace"], made["metadata"]["name"])
        made = memory.store.update(key, lambda old: {**old, "status": obj["status"]}, "status")
    return made


def own_workload(memory: MemoryApi, name: str, cluster: Json, **status: Any) -> None:
    workload = make_workload(name, owner=cluster["metadata"]["name"], **status)
    workload["metadata"]["ownerReferences"][0]["uid"] = cluster["metadata"]["uid"]
    put(memory, WORKLOAD, workload)


def queued(name: str) -> Json:
    cluster = make_cluster(name, state="suspended", suspend=True)
    cluster["metadata"]["labels"] = {QUEUE: "team"}
    return cluster


def test_defect_1_force_is_really_sent(client: Client, memory: MemoryApi) -> None:
    client.ray.clusters.apply(DEMO)
    memory.owned_by_others = {"rayVersion"}
    with pytest.raises(errors.Conflict, match="kubectl"):
        client.ray.clusters.apply(DEMO)
    client.ray.clusters.apply(DEMO, force=True)
    assert memory.applied == [(False, False), (False, False), (True, False)]


@pytest.mark.parametrize(
    ("workers", "field"),
    [
        ([WorkerGroup(name="head")], "workers.0.name"),
        ([WorkerGroup(name=f"w{number}") for number in range(8)], "workers"),
    ],
)
def test_what_kueue_refuses_is_refused_in_a_queue_alone(
    client: Client, memory: MemoryApi, workers: list[WorkerGroup], field: str
) -> None:
    put(memory, LOCAL_QUEUE, make_queue())
    with pytest.raises(BadConfig) as raised:
        client.ray.clusters.create(ClusterConfig(name="queued", workers=workers, queue="team"))
    assert [fault.field for fault in raised.value.faults] == [field]
    client.ray.clusters.create(ClusterConfig(name="free", workers=workers, queue_policy="off"))
    own = {"entrypoint": "x", "cluster_config": ClusterConfig(name="own", workers=workers)}
    with pytest.raises(BadConfig) as raised:
        client.ray.jobs.submit(JobConfig(name="job", queue="team", keep_cluster=True, **own))
    assert [fault.field for fault in raised.value.faults] == ["keep_cluster", f"cluster_config.{field}"]


def test_what_a_workload_waits_for_is_its_quota_and_not_that_it_is_not_admitted(
    client: Client, memory: MemoryApi
) -> None:
    made = put(memory, RAY_CLUSTER, queued("demo"))
    own_workload(memory, "demo", made, Admitted="False", QuotaReserved="False")
    assert client.ray.clusters.status("demo").message.endswith("QuotaReserved is False")


def test_a_dry_run_does_not_show_empty_fields_that_an_operator_has_written() -> None:
    before = {"spec": {"scaleStrategy": {}, "metadata": {}, "replicas": 1}}
    assert list(changes(before, {"spec": {"replicas": 1}})) == []
    assert [change.field for change in changes(before, {"spec": {}})] == ["spec.replicas"]


def test_defect_2_what_was_read_is_written_as_it_was(client: Client, memory: MemoryApi) -> None:
    strange = make_cluster(aFieldOfALaterVersion={"kept": [1]})
    strange["metadata"] |= {"labels": {"mine": "x"}, "annotations": {"own": "y"}}
    put(memory, RAY_CLUSTER, strange)
    cluster = client.ray.clusters.get("demo")
    cluster.resource["spec"]["workerGroupSpecs"][0]["replicas"] = 3
    saved = client.ray.clusters.save(cluster).resource
    assert saved["spec"]["aFieldOfALaterVersion"] == {"kept": [1]}
    assert saved["spec"]["headGroupSpec"] == strange["spec"]["headGroupSpec"]
    assert (saved["metadata"]["labels"], saved["metadata"]["annotations"]) == ({"mine": "x"}, {"own": "y"})
    assert client.ray.clusters.get("demo").groups == {"workers": 3}


def test_a_cluster_that_another_client_changed_is_not_overwritten(client: Client, memory: MemoryApi) -> None:
    put(memory, RAY_CLUSTER, make_cluster())
    first, second = client.ray.clusters.get("demo"), client.ray.clusters.get("demo")
    first.resource["spec"]["suspend"] = True
    client.ray.clusters.save(first)
    with pytest.raises(errors.Conflict):
        client.ray.clusters.save(second)


def test_defect_3_a_dashboard_is_the_clusters_own_or_none(client: Client, memory: MemoryApi) -> None:
    put(memory, RAY_CLUSTER, make_cluster())
    ingress: Json = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "unrelated", "namespace": "team-a"},
        "spec": {"rules": [{"host": "unrelated.example.com"}]},
    }
    put(memory, INGRESS, ingress)
    assert client.ray.clusters.dashboard("demo") is None
    metadata = {"name": "any", "namespace": "team-a", "labels": {"ray.io/cluster": "demo"}}
    put(memory, INGRESS, {**ingress, "metadata": metadata, "spec": {"rules": [{"host": "demo.example.com"}]}})
    assert client.ray.clusters.dashboard("demo") == "http://demo.example.com"


def test_defect_5_a_wait_ends_early_and_says_why(client: Client, memory: MemoryApi) -> None:
    failed = make_cluster(state="failed")
    failed["status"]["reason"] = "exceeded quota"
    put(memory, RAY_CLUSTER, failed)
    with pytest.raises(errors.Failed, match="exceeded quota") as raised:
        client.ray.clusters.wait("demo", timeout=60)
    assert raised.value.status.failed


def test_a_wait_for_an_image_that_is_not_there_ends(client: Client, memory: MemoryApi) -> None:
    put(memory, RAY_CLUSTER, make_cluster())
    put(memory, POD, make_pod("demo-head", waiting=("ImagePullBackOff", "no such image")))
    with pytest.raises(errors.Failed, match="ImagePullBackOff: image ray:nowhere"):
        client.ray.clusters.wait("demo", poll=0, patience=0)


def test_a_wait_after_a_change_is_for_what_was_asked_and_a_ready_cluster_shows_its_problems(
    client: Client, memory: MemoryApi
) -> None:
    put(memory, RAY_CLUSTER, make_cluster(state="ready"))
    assert client.ray.clusters.wait("demo", poll=0).workers == 1
    client.ray.clusters.scale("demo", 2)
    put(memory, POD, make_pod("demo-worker", waiting=("ImagePullBackOff", "no such image")))
    status = client.ray.clusters.status("demo")
    assert (status.phase, status.complete) == ("Ready", False)
    assert str(status).startswith("demo: Ready, 1 of 2 workers (ImagePullBackOff: image ray:nowhere")
    assert client.ray.clusters.list()[0].problems == status.problems
    with pytest.raises(errors.Failed, match="1 of 2 workers"):
        client.ray.clusters.wait("demo", poll=0, patience=0)


def test_a_failure_of_before_a_change_is_believed_when_it_stays(client: Client, memory: MemoryApi) -> None:
    cluster = make_cluster(state="failed")
    cluster["status"]["observedGeneration"] = 1
    put(memory, RAY_CLUSTER, cluster)
    client.ray.clusters.scale("demo", 2)
    with pytest.raises(errors.WaitTimeout):
        client.ray.clusters.wait("demo", timeout=0, poll=0)
    with pytest.raises(errors.Failed):
        client.ray.clusters.wait("demo", poll=0, patience=0)


def test_a_wait_whose_time_is_over_says_what_it_waits_for(client: Client, memory: MemoryApi) -> None:
    put(memory, RAY_CLUSTER, make_cluster())
    with pytest.raises(errors.WaitTimeout, match="demo: Starting"):
        client.ray.clusters.wait("demo", timeout=0, poll=0)
    with pytest.raises(errors.NotFound):
        client.ray.clusters.wait("missing")


def test_a_poll_makes_at_most_three_requests(client: Client, memory: MemoryApi) -> None:
    put(memory, RAY_CLUSTER, make_cluster("ready", state="ready"))
    put(memory, RAY_CLUSTER, make_cluster("starting"))
    put(memory, POD, make_pod("starting-head", cluster="starting"))
    put(memory, EVENT, make_event("Pod", "starting-head", "FailedMount", "no secret"))
    waiting = put(memory, RAY_CLUSTER, queued("waiting"))
    own_workload(memory, "raycluster-waiting", waiting, QuotaReserved="False")
    client.queues.list()  # discovery, once for the client
    counts = {}
    for name in ("ready", "starting", "waiting"):
        memory.requests.clear()
        status = client.ray.clusters.status(name)
        counts[name] = status.phase, len(memory.requests)
    assert counts == {"ready": ("Ready", 1), "starting": ("Starting", 3), "waiting": ("Queued", 2)}


@pytest.mark.parametrize("count", [1, 40, 1000])
def test_a_list_makes_at_most_three_requests_however_many_there_are(
    client: Client, memory: MemoryApi, count: int
) -> None:
    states = ("ready", "", "failed", "Terminating")
    for number in range(count):
        put(memory, RAY_CLUSTER, make_cluster(f"c-{number:04}", state=states[number % 4]))
    put(memory, RAY_CLUSTER, queued("waiting"))
    client.queues.list()
    memory.requests.clear()
    statuses = client.ray.clusters.list()
    assert len(statuses) == count + 1
    assert len(memory.requests) <= 3


def test_the_place_in_the_queue_is_by_priority_then_age(client: Client, memory: MemoryApi) -> None:
    for name in ("first", "second"):
        own_workload(memory, f"w-{name}", put(memory, RAY_CLUSTER, queued(name)), QuotaReserved="False")
    status = client.ray.clusters.status("second")
    assert status.place is not None
    assert (status.place.position, status.place.pending) == (2, 2)
    assert "QuotaReserved is False" in str(status)
    assert client.queues.place("first").position == 1


def test_defect_10_a_queue_that_is_not_there_is_refused_and_nothing_is_made(
    client: Client, memory: MemoryApi
) -> None:
    put(memory, LOCAL_QUEUE, make_queue("team"))
    with pytest.raises(
        BadConfig, match=r"^queue: missing: there is no such queue in namespace team-a; the queues are team$"
    ):
        client.ray.clusters.create(ClusterConfig(name="demo", queue="missing"))
    assert client.ray.clusters.list() == []


@pytest.mark.parametrize(
    ("queues", "config", "label"),
    [
        ([make_queue("team", default=True)], {}, "team"),
        ([make_queue("team")], {"queue": "team"}, "team"),
        ([make_queue("team", default=True)], {"queue_policy": "off"}, None),
        ([], {}, None),
    ],
)
def test_the_queue_that_is_used(
    client: Client, memory: MemoryApi, queues: list[Json], config: Json, label: str | None
) -> None:
    for queue in queues:
        put(memory, LOCAL_QUEUE, queue)
    made = client.ray.clusters.create(ClusterConfig(name="demo", **config))
    assert made.labels.get(QUEUE) == label


def test_queues_without_a_default_are_not_passed_by(client: Client, memory: MemoryApi) -> None:
    put(memory, LOCAL_QUEUE, make_queue("team"))
    with pytest.raises(BadConfig, match="name one of team"):
        client.ray.clusters.create(DEMO)


def test_a_stopped_queue_is_refused(client: Client, memory: MemoryApi) -> None:
    put(memory, LOCAL_QUEUE, make_queue("team", stopPolicy="Hold"))
    with pytest.raises(BadConfig, match="stopped"):
        client.ray.clusters.create(ClusterConfig(name="demo", queue="team"))


def test_the_policy_warn_warns_and_keeps_the_label(client: Client, memory: MemoryApi) -> None:
    with pytest.warns(QueueWarning, match="no such queue"):
        made = client.ray.clusters.create(ClusterConfig(name="demo", queue="later", queue_policy="warn"))
    assert made.labels[QUEUE] == "later"


def test_a_cluster_without_kueue_needs_no_queue(memory: MemoryApi) -> None:
    memory.groups = {"ray.io": ["v1"]}
    with Client(api=memory, namespace="team-a") as client:
        assert client.ray.clusters.create(DEMO).queue == ""
        with pytest.raises(BadConfig, match="no Kueue"):
            client.ray.clusters.create(ClusterConfig(name="other", queue="team"))


def test_a_dry_run_shows_the_manifest_and_what_would_change_and_keeps_nothing(
    client: Client, memory: MemoryApi
) -> None:
    plan = client.ray.clusters.dry_run(DEMO)
    assert plan.new
    assert "kind: RayCluster" in plan.yaml
    assert client.ray.clusters.list() == []
    client.ray.clusters.create(DEMO)
    plan = client.ray.clusters.dry_run(ClusterConfig(name="demo", workers=(WorkerGroup(replicas=5),)))
    assert ("spec.workerGroupSpecs[0].replicas", 1, 5) in [
        (change.field, change.before, change.after) for change in plan.changes
    ]
    assert client.ray.clusters.get("demo").groups == {"workers": 1}


def test_groups_are_scaled_by_name(client: Client) -> None:
    client.ray.clusters.create(
        ClusterConfig(name="demo", workers=(WorkerGroup(name="a"), WorkerGroup(name="b")))
    )
    assert client.ray.clusters.scale("demo", 4, group="b").groups == {"a": 1, "b": 4}
    with pytest.raises(BadConfig, match="one of a, b"):
        client.ray.clusters.scale("demo", 4)
    with pytest.raises(BadConfig, match="no such group"):
        client.ray.clusters.scale("demo", 4, group="c")


def test_defect_12_a_delete_that_did_nothing_says_so(client: Client) -> None:
    client.ray.clusters.create(DEMO)
    with pytest.raises(errors.AlreadyExists):
        client.ray.clusters.create(DEMO)
    client.ray.clusters.delete("demo")
    with pytest.raises(errors.NotFound, match="no RayCluster demo in namespace team-a"):
        client.ray.clusters.delete("demo")
    with pytest.raises(errors.NotFound):
        client.ray.clusters.get("demo")


def test_the_dashboard_is_where_the_platform_says_or_on_this_machine(
    client: Client, memory: MemoryApi
) -> None:
    away, here = make_cluster("away"), make_cluster("here")
    away["metadata"]["annotations"] = {"steelyard/dashboard": "https://away.example.com"}
    here["status"]["head"] = {"podIP": "127.18.0.8"}
    for cluster in (away, here):
        put(memory, RAY_CLUSTER, cluster)
    assert client.ray.clusters.get("away").dashboard == "https://away.example.com"
    assert client.ray.clusters.dashboard("away") == "https://away.example.com"
    assert client.ray.clusters.get("here").dashboard is None
    assert client.ray.clusters.dashboard("here") == "http://127.18.0.8:8265"


def test_a_certificate_needs_a_cluster_that_has_some_and_a_platform_that_answers(
    client: Client, memory: MemoryApi, tmp_path: Path
) -> None:
    put(memory, RAY_CLUSTER, make_cluster("plain"))
    with pytest.raises(errors.Unsupported, match="team-a/plain has no certificates"):
        client.ray.clusters.certificate("plain", folder=tmp_path)
    encrypted = make_cluster("demo")
    encrypted["metadata"]["annotations"] = {"steelyard/certificates": "v1"}
    put(memory, RAY_CLUSTER, encrypted)
    with pytest.raises(errors.WaitTimeout, match="within 0 s"):
        client.ray.clusters.certificate("demo", folder=tmp_path, timeout=0)
    # The request does not stay behind, and no key was written.
    assert client.ray.clusters.get("demo").annotations == {"steelyard/certificates": "v1"}
    assert list(tmp_path.iterdir()) == []
