"""The RayCluster that a configuration describes."""

import pytest

from steelyard.clusters import (
    Autoscaling,
    ClusterConfig,
    GcsFaultTolerance,
    HeadGroup,
    Resources,
    SecretKey,
    Toleration,
    WorkerGroup,
    claim,
)
from steelyard.clusters.appwrappers.wrapping import AppWrapperConfig, FaultTolerance, app_wrapper
from steelyard.clusters.ray.manifest import ray_cluster
from steelyard.clusters.strategic import faults, merge


def test_groups_volumes_tolerations_and_overrides_are_in_the_manifest() -> None:
    config = ClusterConfig(
        name="demo",
        env={"ALL": "1"},
        volumes=(claim("data", "/data"),),
        head=HeadGroup(
            pod_overrides={
                "spec": {
                    "schedulerName": "own",
                    "containers": [{"name": "ray-head", "env": [{"name": "MORE", "value": "2"}]}],
                }
            }
        ),
        workers=(
            WorkerGroup(name="cpu", replicas=3),
            WorkerGroup(
                name="gpu",
                replicas=1,
                resources=Resources(cpu="500m", memory="1Gi", accelerators={"nvidia.com/gpu": 2}),
                node_selector={"gpu": "yes"},
                tolerations=(Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
            ),
        ),
        gcs_fault_tolerance=GcsFaultTolerance(
            redis_address="redis:6379", redis_password=SecretKey(name="redis", key="password")
        ),
    )
    spec = ray_cluster(config, "team-a", None)["spec"]
    head = spec["headGroupSpec"]["template"]["spec"]
    assert head["schedulerName"] == "own"
    assert {entry["name"] for entry in head["containers"][0]["env"]} >= {"ALL", "MORE"}
    assert head["containers"][0]["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    gpu = spec["workerGroupSpecs"][1]
    assert gpu["rayStartParams"] == {"num-gpus": "2"}
    assert gpu["template"]["spec"]["tolerations"] == [
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert spec["gcsFaultToleranceOptions"]["redisPassword"] == {
        "valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}
    }
    assert [group["replicas"] for group in spec["workerGroupSpecs"]] == [3, 1]


def test_with_a_queue_and_the_autoscaler_kueue_is_informed_that_workers_come_and_go() -> None:
    config = ClusterConfig(
        name="demo", autoscaling=Autoscaling(), workers=(WorkerGroup(min_replicas=0, max_replicas=4),)
    )
    cluster = ray_cluster(config, "team-a", "team")
    assert cluster["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert cluster["metadata"]["annotations"] == {"kueue.x-k8s.io/elastic-job": "true"}
    assert cluster["spec"]["enableInTreeAutoscaling"] is True
    assert "replicas" not in cluster["spec"]["workerGroupSpecs"][0]


def test_defect_14_a_configuration_is_never_changed() -> None:
    config = ClusterConfig(name="demo", annotations={"a": "b"}, labels={"c": "d"})
    before = config.model_dump()
    cluster = ray_cluster(config, "team-a", "team")
    cluster["metadata"]["annotations"]["x"] = "y"
    assert config.model_dump() == before


def test_lists_are_merged_by_their_keys() -> None:
    base = {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}], "nodeName": "n"}
    patch = {
        "containers": [{"name": "a", "args": ["y"]}, {"name": "b", "$patch": "delete"}, {"name": "c"}],
        "nodeName": None,
    }
    assert merge(base, patch) == {"containers": [{"name": "a", "image": "1", "args": ["y"]}, {"name": "c"}]}


def test_the_containers_of_the_template_stay_the_first() -> None:
    """KubeRay takes the first container for Ray's."""
    base = {"spec": {"containers": [{"name": "ray"}, {"name": "b"}]}}
    patch = {
        "spec": {
            "containers": [{"name": "proxy"}, {"name": "b", "image": "2"}, {"name": "ray", "image": "1"}]
        }
    }
    containers = merge(base, patch)["spec"]["containers"]
    assert containers == [{"name": "ray", "image": "1"}, {"name": "b", "image": "2"}, {"name": "proxy"}]


@pytest.mark.parametrize(
    ("volumes", "message"),
    [
        ([{"emptyDir": {}}], '{"emptyDir": {}} has no name, which says which item is meant'),
        ([{"name": "a", "$patch": "drop"}], "$patch: is 'drop'; allowed are merge, replace and delete"),
        ([1], "1 should be an object with the key name"),
    ],
)
def test_what_cannot_be_merged_is_a_fault(volumes: list[object], message: str) -> None:
    assert [fault.message for fault in faults({"spec": {"volumes": volumes}}, "pod_overrides")] == [message]


def test_each_setting_of_fault_tolerance_is_an_annotation() -> None:
    settings = FaultTolerance(
        admission_grace_seconds=1,
        warmup_grace_seconds=2,
        failure_grace_seconds=3,
        retry_pause_seconds=4,
        retry_limit=5,
        forceful_deletion_grace_seconds=6,
        deletion_on_failure_grace_seconds=7,
        success_ttl_seconds=8,
        retryable_exit_codes=(137, 143),
    )
    config = AppWrapperConfig(name="demo", parts=(ClusterConfig(name="demo"),), fault_tolerance=settings)
    wrapper = app_wrapper(config, [ray_cluster(ClusterConfig(name="demo"), "team-a", None)], "team-a", "team")
    prefix = "workload.codeflare.dev.appwrapper/"
    assert wrapper["metadata"]["annotations"] == {
        f"{prefix}admissionGracePeriodDuration": "1s",
        f"{prefix}warmupGracePeriodDuration": "2s",
        f"{prefix}failureGracePeriodDuration": "3s",
        f"{prefix}retryPausePeriodDuration": "4s",
        f"{prefix}retryLimit": "5",
        f"{prefix}forcefulDeletionGracePeriodDuration": "6s",
        f"{prefix}deletionOnFailureGracePeriodDuration": "7s",
        f"{prefix}successTTLDuration": "8s",
        f"{prefix}retryableExitCodes": "137,143",
    }
    assert wrapper["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert "labels" not in wrapper["spec"]["components"][0]["template"]["metadata"]


def test_directives_are_no_fields_and_ports_differ_by_their_protocol() -> None:
    dns = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]
    patch = {"ports": dns, "$setElementOrder/ports": [{"containerPort": 53}], "$retainKeys": ["ports"]}
    assert merge({}, patch) == {"ports": dns}
    assert merge({"ports": dns[:1]}, {"ports": dns[1:]}) == {"ports": dns[1:]}  # as on a real server
    assert merge({"ports": dns[:1]}, {"ports": dns}) == {"ports": dns}
    assert merge({"ports": dns}, {"ports": [{**dns[0], "$patch": "delete"}]}) == {"ports": dns[1:]}
