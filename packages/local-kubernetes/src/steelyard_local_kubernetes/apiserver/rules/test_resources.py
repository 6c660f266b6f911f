"""Resources of containers and of whole Pods; the faults that are expected are a real server's own."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.rules.resources import pod_resource_causes

CPU = {"requests": {"cpu": "2"}}


def spec(own: Json, *containers: Json, before: tuple[Json, ...] = ()) -> Json:
    return {
        "resources": own,
        "containers": [{"resources": resources} for resources in containers],
        "initContainers": list(before),
    }


@pytest.mark.parametrize(
    ("pod", "faults"),
    [
        ({"containers": [{"resources": CPU}]}, []),
        (spec({"requests": {"cpu": "2"}}, CPU), []),
        (
            spec({"requests": {"cpu": "3"}}, CPU, CPU),
            [
                'spec.resources.requests[cpu]: Invalid value: "3": '
                "must be greater than or equal to aggregate container requests of 4"
            ],
        ),
        (
            spec(CPU, {}, before=({"resources": CPU, "restartPolicy": "Always"}, {"resources": CPU})),
            [
                'spec.resources.requests[cpu]: Invalid value: "2": '
                "must be greater than or equal to aggregate container requests of 4"
            ],
        ),
        (spec(CPU, CPU, before=({"resources": CPU},)), []),
        (
            spec({"limits": {"a.b/c": "1"}}, {}),
            [
                'spec.resources.limits[a.b/c]: Unsupported value: "a.b/c": '
                'supported values: "cpu", "hugepages-", "memory"'
            ],
        ),
        (
            spec({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}),
            [
                'spec.resources.containers[0][memory].limits: Invalid value: "2Gi": '
                "must be less than or equal to pod limits of 1Gi"
            ],
        ),
        (
            spec({"claims": []}, {}),
            ["spec.resources.claims: Forbidden: claims cannot be set for Resources at pod-level"],
        ),
    ],
)
def test_faults_of_the_resources_of_a_pod(pod: Json, faults: list[str]) -> None:
    causes = pod_resource_causes(pod, "spec")
    assert [f"{cause.field}: {cause.message}" for cause in causes] == faults
