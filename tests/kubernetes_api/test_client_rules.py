"""Rules of the cluster client compared with the API server's own answers: what one refuses, the other refuses too."""

import pytest

from steelyard.clusters import rules
from steelyard_common.types import Json
from steelyard_schema.unknown_fields import pod_template_schema
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.generate_builtin import template_schema

NAMES = ["a", "a-b", "a.b", "A", "a_b", "-a", "a-", "a..b", "a" * 253, "a" * 254, "1a", "é"]
KEYS = ["a", "A.b_c-1", "example.com/a", "a b", "/a", "a/", "a/b/c", "Example.com/a", "a" * 63, "a" * 64,
        f"{'a' * 253}/b", f"{'a' * 254}/b", "-a", "a-"]  # fmt: skip
VALUES = ["", "a", "A.b_c", "a b", "-a", "a-", "a" * 63, "a" * 64, "é"]
QUANTITIES = ["1", "100m", "1.5Gi", "2e3", ".5", "-1", "1 Gi", "1gb", "abc", "1Kii", "", "0.1n"]


async def is_taken(api: Api, core: str, metadata: Json) -> bool:
    answer = await api.post(f"{core}/configmaps?dryRun=All", {"metadata": {"name": "x", **metadata}})
    assert answer.status in (201, 422), answer.raw
    return answer.status == 201


@pytest.mark.parametrize("name", NAMES)
async def test_names(api: Api, core: str, name: str) -> None:
    assert (not list(rules.name(name, "name"))) == await is_taken(api, core, {"name": name})


@pytest.mark.parametrize("key", KEYS)
async def test_keys_of_labels_and_annotations(api: Api, core: str, key: str) -> None:
    assert (not list(rules.labels({key: ""}, ""))) == await is_taken(api, core, {"labels": {key: ""}})
    taken = await is_taken(api, core, {"annotations": {key: ""}})
    assert (not list(rules.annotations({key: ""}, ""))) == taken


@pytest.mark.parametrize("value", VALUES)
async def test_values_of_labels(api: Api, core: str, value: str) -> None:
    assert (not list(rules.labels({"a": value}, ""))) == await is_taken(api, core, {"labels": {"a": value}})


@pytest.mark.parametrize("size", [262144, 262145])
async def test_sizes_of_annotations(api: Api, core: str, size: int) -> None:
    annotations = {"a": "x" * (size - 1)}
    assert (not list(rules.annotations(annotations, ""))) == await is_taken(
        api, core, {"annotations": annotations}
    )


async def pod_is_taken(api: Api, core: str, resources: Json) -> bool:
    container = {"name": "a", "image": "b", "resources": resources}
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [container]}}
    answer = await api.post(f"{core}/pods?dryRun=All", pod)
    assert answer.status in (201, 400, 422), answer.raw
    return answer.status == 201


@pytest.mark.parametrize("quantity", QUANTITIES)
async def test_quantities(api: Api, core: str, quantity: str) -> None:
    resources: Json = {"limits": {"memory": quantity}}
    assert (not list(rules.resources({}, resources["limits"], ""))) == await pod_is_taken(
        api, core, resources
    )


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        ({"cpu": "1"}, {"cpu": "1"}),
        ({"cpu": "2"}, {"cpu": "1"}),
        ({"cpu": "1000m"}, {"cpu": "1"}),
        ({"cpu": "2"}, {}),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}),
        ({"nvidia.com/gpu": "1"}, {}),
        ({}, {"nvidia.com/gpu": "500m"}),
        ({}, {"gpu": "1"}),
        ({"pods": "1"}, {"pods": "1"}),
        ({"ephemeral-storage": "2Gi"}, {"ephemeral-storage": "1Gi"}),
        ({}, {"hugepages-2Mi": "4Mi"}),
        ({}, {"a b": "1"}),
    ],
)
async def test_requests_and_limits(api: Api, core: str, requests: Json, limits: Json) -> None:
    taken = await pod_is_taken(api, core, {"requests": requests, "limits": limits})
    assert (not list(rules.resources(requests, limits, ""))) == taken


async def test_the_schema_of_a_template_is_that_of_the_server(api: Api) -> None:
    schemas = (await api.get("/openapi/v3/api/v1")).ok().json["components"]["schemas"]
    assert pod_template_schema() == template_schema(schemas)
