"""Configurations: all faults in one error, with the paths of the fields."""

from typing import Any

import pytest
import yaml

from steelyard.clusters import (
    Autoscaling,
    BadConfig,
    ClusterConfig,
    GcsFaultTolerance,
    NewClaim,
    NewSecret,
    Resources,
    Toleration,
    WorkerGroup,
    claim,
    config_map,
    scratch,
    secret,
)
from steelyard.clusters.appwrappers import AppWrapperConfig, FaultTolerance
from steelyard.clusters.ray.manifest import ray_cluster


def faults(**values: Any) -> dict[str, str]:
    with pytest.raises(BadConfig) as raised:
        ClusterConfig(**{"name": "demo", **values})
    return {fault.field: fault.message for fault in raised.value.faults}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"workers": [{"replicas": -3}]}, "workers.0.replicas"),
        ({"workers": [{"replicas": True}]}, "workers.0.replicas"),
        ({"head": {"resources": {"cpu": 4, "cpu_limit": 2}}}, "head.resources.requests.cpu"),
        ({"head": {"resources": {"memory": "5"}}}, "head.resources.memory"),
        ({"namespace": "Bad_NS"}, "namespace"),
        ({"labels": {"a b": "c"}}, "labels"),
        ({"labels": {"a": "b c"}}, "labels.a"),
        ({"name": "a" * 300}, "name"),
        ({"name": "1-is-no-service"}, "name"),
        ({"head": {"resources": {"cpu": "abc"}}}, "head.resources.cpu"),
        ({"head": {"resources": {"cpu": [1]}}}, "head.resources.cpu"),
        ({"head": {"resources": {"cpu": True}}}, "head.resources.cpu"),
        ({"head": {"resources": {"cpu": float("nan")}}}, "head.resources.cpu"),
        ({"image": "not an image!!"}, "image"),
        ({"workers": [{"resources": {"accelerators": {"gpu": 1}}}]}, "workers.0.resources.requests.gpu"),
        ({"workers": [{"name": "a"}, {"name": "a"}]}, "workers.1.name"),
        ({"workers": [{"max_replicas": 3}]}, "workers.0.max_replicas"),
        ({"autoscaling": {}}, "workers.0.max_replicas"),
        ({"autoscaling": {}, "workers": [{"min_replicas": 4, "max_replicas": 3}]}, "workers.0.min_replicas"),
        ({"env": {"1=X": "y"}}, "env"),
        ({"num_workers": 3}, "num_workers"),
        ({"head": {"pod_overrides": {"containers": []}}}, "head.pod_overrides.containers"),
        (
            {"head": {"pod_overrides": {"spec": {"nodeSelectors": {}}}}},
            "head.pod_overrides.spec.nodeSelectors",
        ),
        (
            {"head": {"pod_overrides": {"spec": {"volumes": [{"name": "a", "hostpath": {}}]}}}},
            "head.pod_overrides.spec.volumes.0.hostpath",
        ),
        (
            {"head": {"pod_overrides": {"spec": {"containers": [{"name": "a", "imge": "b"}]}}}},
            "head.pod_overrides.spec.containers.0.imge",
        ),
        ({"queue": "a", "queue_policy": "off"}, "queue"),
        ({"volumes": (claim("a", "/a"), secret("a", "/b"))}, "volumes.1.name"),
        ({"volumes": (claim("a", "/a"), claim("b", "/a"))}, "volumes.1.mount_path"),
        ({"volumes": (claim("a", "/a"),), "head": {"volumes": (secret("a", "/b"),)}}, "head.volumes.0.name"),
        ({"gcs_fault_tolerance": {"redis_address": ""}}, "gcs_fault_tolerance.redis_address"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_with_its_path(values: dict[str, Any], field: str) -> None:
    assert field in faults(**values)


def test_a_fraction_is_an_amount_and_is_sent_as_text() -> None:
    resources = Resources(cpu=0.5, cpu_limit=1.5)
    assert (resources.requests["cpu"], resources.limits["cpu"]) == ("0.5", "1.5")


def test_one_volume_may_be_mounted_twice() -> None:
    volumes = (claim("a", "/a"), claim("a", "/b", sub_path="b"))
    pod = ray_cluster(ClusterConfig(name="demo", volumes=volumes), "team", None)["spec"]["headGroupSpec"]
    assert [volume["name"] for volume in pod["template"]["spec"]["volumes"]] == ["a"]


def test_a_bare_off_of_yaml_is_the_policy_off() -> None:
    assert ClusterConfig(**yaml.safe_load("{name: demo, queue_policy: off}")).queue_policy == "off"


def test_a_field_that_is_unknown_or_missing_is_named_in_plain_words() -> None:
    with pytest.raises(BadConfig) as raised:
        ClusterConfig(nme="demo")  # type: ignore[call-arg]
    assert str(raised.value) == "ClusterConfig:\n  name: is required\n  nme: there is no such field"


def test_all_faults_come_in_one_error() -> None:
    there = faults(
        name="1-is-no-service", namespace="Bad_NS", image="no image!", labels={"a b": "c"},
        head={"resources": {"cpu": 4, "cpu_limit": 2, "memory": "5"}},
        workers=[{"replicas": -3}, {"env": {"1=X": ""}}],
    )  # fmt: skip
    assert set(there) >= {
        "name", "namespace", "image", "labels", "head.resources.requests.cpu", "head.resources.memory",
        "workers.0.replicas", "workers.1.env",
    }  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        Toleration,
        lambda: Toleration(key="a", seconds=3),
        lambda: claim("data", "relative"),
        lambda: NewClaim(name="data", size="many"),
        lambda: NewSecret(name="token", values={}),
        lambda: NewSecret(name="token", values={"a b": "x"}),
        lambda: NewSecret(name="token", values={"..a": "x"}),
        lambda: NewSecret(name="token", values={"a": "x" * 2**21}),
        lambda: WorkerGroup(volumes=(claim("a", "/x"), claim("b", "/x"))),
        lambda: FaultTolerance(retry_limit=-1),
        lambda: FaultTolerance(terminal_exit_codes=(1,), retryable_exit_codes=(2,)),
        lambda: AppWrapperConfig(name="a", parts=()),
        lambda: AppWrapperConfig(name="a", parts=({"apiVersion": "x/v1", "kind": "Strange"},)),
    ],
)
def test_parts_are_checked_when_they_are_made(make: Any) -> None:
    with pytest.raises(BadConfig):
        make()


def test_what_is_right_is_taken() -> None:
    config = ClusterConfig(
        name="demo",
        image="quay.io:443/team/ray@sha256:" + "a" * 64,
        workers=(
            WorkerGroup(name="cpu", min_replicas=0, max_replicas=10),
            WorkerGroup(
                name="gpu",
                max_replicas=2,
                resources=Resources(accelerators={"nvidia.com/gpu": 1}),
                tolerations=(Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
                volumes=(
                    claim("data.v1", "/data"),
                    secret("s", "/s"),
                    config_map("c", "/c"),
                    scratch("shm", "/dev/shm", memory=True),
                ),
            ),
        ),
        autoscaling=Autoscaling(),
        gcs_fault_tolerance=GcsFaultTolerance(redis_address="redis:6379"),
    )
    assert config.workers[1].volumes[0].name == "data-v1"
