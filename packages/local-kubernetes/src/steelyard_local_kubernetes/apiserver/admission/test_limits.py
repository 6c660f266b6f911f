"""LimitRanges set omitted values and refuse values out of bounds, in the real server's words."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.admission.limits import (
    ANNOTATION,
    add_defaults,
    refusal_text,
    violations,
)


def limit_range(*limits: Json) -> Json:
    return {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}


def pod(*resources: Json, init: tuple[Json, ...] = ()) -> Json:
    containers = [{"name": f"c{index}", "resources": own} for index, own in enumerate(resources)]
    first = [{"name": f"i{index}", **own} for index, own in enumerate(init)]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": first}}


def item(kind: str = "Container", **bounds: Any) -> Json:
    return {"type": kind, **bounds}


def test_what_is_left_out_is_set_and_said() -> None:
    made = pod({}, {"limits": {"cpu": "3"}, "requests": {"cpu": "2"}}, init=({},))
    defaults: Json = {"default": {"cpu": "1000m", "memory": "1024Mi"}, "defaultRequest": {"cpu": "500m"}}
    add_defaults([limit_range(item(**defaults))], made)
    first, second = made["spec"]["containers"]
    assert first["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert second["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}}
    assert made["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu request for container c0; cpu, memory limit for container c0; "
        "memory limit for container c1; cpu request for init container i0; "
        "cpu, memory limit for init container i0"
    )


def test_a_pod_that_says_all_is_left_as_it_is() -> None:
    made = pod({"limits": {"cpu": "1"}})
    add_defaults([limit_range(item(default={"cpu": "2"})), limit_range(item("Pod"))], made)
    assert made == pod({"limits": {"cpu": "1"}})


SMALL: Json = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}


@pytest.mark.parametrize(
    ("made", "limits", "text"),
    [
        (pod(SMALL), item(max={"cpu": "100m"}), "maximum cpu usage per Container is 100m, but limit is 200m"),
        (
            pod({"requests": {"cpu": "1"}}),
            item(max={"cpu": "1"}),
            "maximum cpu usage per Container is 1.  No limit is specified",
        ),
        (
            pod({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            item(max={"cpu": "1"}),
            "maximum cpu usage per Container is 1, but request is 2",
        ),
        (pod(SMALL), item(min={"cpu": "150m"}), "minimum cpu usage per Container is 150m, but request is 100m"),
        (
            pod({}),
            item(min={"memory": "1Mi"}),
            "minimum memory usage per Container is 1Mi.  No request is specified",
        ),
        (
            pod(SMALL),
            item(maxLimitRequestRatio={"cpu": "1500m"}),
            "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
        ),
        (
            pod({}),
            item(maxLimitRequestRatio={"cpu": "2"}),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (pod(SMALL, SMALL), item("Pod", max={"cpu": "300m"}), "maximum cpu usage per Pod is 300m, but limit is 400m"),
        (
            pod(SMALL, SMALL),
            item(min={"cpu": "1"}, max={"cpu": "100m"}),
            "[minimum cpu usage per Container is 1, but request is 100m, "
            "maximum cpu usage per Container is 100m, but limit is 200m]",
        ),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused(made: Json, limits: Json, text: str) -> None:
    said = violations([limit_range(item("Pod")), limit_range(limits)], "pods", made)
    assert refusal_text(said) == text


def test_what_is_in_bounds_passes() -> None:
    bounds: Json = {"min": {"cpu": "100m"}, "max": {"cpu": "200m"}, "maxLimitRequestRatio": {"cpu": "2"}}
    assert violations([limit_range(item(**bounds), item("Pod", **bounds))], "pods", pod(SMALL)) == []


def test_a_pod_needs_its_largest_init_container_and_its_sidecars() -> None:
    sidecar: Json = {"restartPolicy": "Always", "resources": SMALL}
    large: Json = {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}
    most = item("Pod", max={"cpu": "1100m"})
    said = violations([limit_range(most)], "pods", pod(SMALL, init=(sidecar, large)))
    assert said == ["maximum cpu usage per Pod is 1100m, but limit is 1200m"]


def test_claims_are_bounded_by_their_requests() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    bounds = item("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "2Gi"})
    assert violations([limit_range(bounds)], "persistentvolumeclaims", claim) == [
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi"
    ]
