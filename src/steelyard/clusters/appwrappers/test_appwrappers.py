"""The group `client.appwrappers` over a cluster in memory."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.clusters import AppWrapperConfig, BadConfig, Client, ClusterConfig, errors
from steelyard.clusters.appwrappers.status import app_wrapper_status
from steelyard.clusters.doubles import MemoryApi
from steelyard.clusters.kinds import APP_WRAPPER, WORKLOAD
from steelyard.clusters.ray.doubles import make_workload
from steelyard_common.types import Json
from steelyard_kube import errors as api


@pytest.fixture
def memory() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
def client(memory: MemoryApi) -> Iterator[Client]:
    with Client(api=memory, namespace="team-a") as client:
        yield client


def make_wrapper(queue: str = "") -> Json:
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {
            "name": "demo",
            "namespace": "team-a",
            "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {},
        },
        "spec": {"components": [], "suspend": False},
    }


def test_one_in_a_queue_is_suspended_by_its_workload_because_kueue_would_resume_it(
    client: Client, memory: MemoryApi
) -> None:
    wrapper = memory.store.create(APP_WRAPPER.at("v1beta2"), make_wrapper("team"))
    workload = make_workload("w", owner="demo")
    workload["metadata"]["ownerReferences"][0]["uid"] = wrapper["metadata"]["uid"]
    memory.store.create(WORKLOAD.at("v1beta2"), workload)
    client.appwrappers.suspend("demo")
    (view,) = client.queues.workloads()
    assert view.state == "Inactive"
    assert client.appwrappers.get("demo").resource["spec"]["suspend"] is False
    client.appwrappers.resume("demo")
    (view,) = client.queues.workloads()
    assert view.state == "Pending"


def test_one_in_no_queue_is_suspended_by_its_own_field(client: Client, memory: MemoryApi) -> None:
    memory.store.create(APP_WRAPPER.at("v1beta2"), make_wrapper())
    suspended = client.appwrappers.suspend("demo").resource
    assert suspended["spec"]["suspend"] is True
    # The controller's word of before is no answer to a wait that begins now.
    assert app_wrapper_status(suspended | {"status": {"phase": "Running"}}).phase == "Suspending"
    assert client.appwrappers.resume("demo").resource["spec"]["suspend"] is False


def part(kind: str, version: str, **spec: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "part"}, "spec": spec}


@pytest.mark.parametrize(
    ("manifest", "sets"),
    [
        (part("Pod", "v1"), None),
        (part("Deployment", "apps/v1", replicas=3), None),
        (
            part("TFJob", "kubeflow.org/v1", tfReplicaSpecs={"Worker": {"replicas": 2}}),
            [{"replicas": 2, "path": "template.spec.tfReplicaSpecs.Worker.template"}],
        ),
        (part("Job", "batch/v1"), None),
    ],
)
def test_pods_of_kinds_that_the_controller_does_not_read_are_declared(
    client: Client, manifest: Json, sets: list[Json] | None
) -> None:
    made = client.appwrappers.create(AppWrapperConfig(name="demo", parts=(manifest,)))
    assert made.resource["spec"]["components"][0].get("podSets") == sets


@pytest.mark.parametrize(
    "parts", [(part("ConfigMap", "v1"),), (part("Pod", "v1"),) * 7 + (ClusterConfig(name="a"),)]
)
def test_what_has_no_pods_or_too_many_sets_of_them_is_refused(parts: tuple[Any, ...]) -> None:
    with pytest.raises(BadConfig, match="sets of Pods"):
        AppWrapperConfig(name="demo", parts=parts)


def test_a_field_that_pods_do_not_have_is_refused_with_its_path() -> None:
    container = {"name": "main", "image": "x", "resorces": {}}
    job = part("Job", "batch/v1", template={"spec": {"containers": [container]}})
    field = "parts.0.spec.template.spec.containers[0].resorces"
    with pytest.raises(
        BadConfig, match=re.escape(f"{field}: there is no such field; did you mean resources?")
    ):
        AppWrapperConfig(name="demo", parts=(job,))


def test_a_right_that_the_webhook_misses_for_a_part_is_named(client: Client, memory: MemoryApi) -> None:
    memory.refusal = api.Forbidden(
        'admission webhook "vappwrapper.kb.io" denied the request: spec.components[0].template: Forbidden: '
        "User system:serviceaccount:team-a:user is not authorized to create networkpolicies in team-a"
    )
    manifest = part("NetworkPolicy", "networking.k8s.io/v1")
    config = AppWrapperConfig(name="demo", parts=(manifest, part("Job", "batch/v1")), queue_policy="off")
    with pytest.raises(errors.Forbidden) as raised:
        client.appwrappers.create(config)
    assert str(raised.value.right) == "create networkpolicies.networking.k8s.io in namespace team-a"
