"""Tests of clients' first requests: health, version, groups, kinds, OpenAPI."""

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KINDS = {
    "v1": ["configmaps", "events", "namespaces", "nodes", "pods", "secrets", "serviceaccounts", "services"],
    "apps/v1": ["deployments", "replicasets"],
    "batch/v1": ["jobs"],
    "coordination.k8s.io/v1": ["leases"],
    "discovery.k8s.io/v1": ["endpointslices"],
    "events.k8s.io/v1": ["events"],
    "rbac.authorization.k8s.io/v1": ["rolebindings", "roles"],
    "autoscaling/v2": ["horizontalpodautoscalers"],
    "scheduling.k8s.io/v1": ["priorityclasses"],
    "apiextensions.k8s.io/v1": ["customresourcedefinitions"],
}


def root(group_version: str) -> str:
    return f"api/{group_version}" if group_version == "v1" else f"apis/{group_version}"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health(api: Api, path: str) -> None:
    assert (await api.get(path)).ok(200).raw == b"ok"


@pytest.mark.parametrize("path", ["/version", "/version/"])
async def test_version(api: Api, path: str) -> None:
    content = (await api.get(path)).json if path == "/version" else (await api.get(path)).ok(200).json
    assert content["major"] == "1"
    assert content["gitVersion"].startswith("v1.")


async def test_groups(api: Api) -> None:
    assert (await api.get("/api")).ok(200).json["versions"] == ["v1"]
    groups = {group["name"]: group for group in (await api.get("/apis")).ok(200).json["groups"]}
    assert groups["batch"]["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    assert (await api.get("/apis/batch")).ok(200).json["name"] == "batch"


@pytest.mark.parametrize("group_version", KINDS)
@pytest.mark.parametrize("slash", ["", "/"])
async def test_kinds(api: Api, group_version: str, slash: str) -> None:
    content = (await api.get(f"/{root(group_version)}{slash}")).ok(200).json
    assert (content["kind"], content["groupVersion"]) == ("APIResourceList", group_version)
    by_name = {entry["name"]: entry for entry in content["resources"]}
    for plural in KINDS[group_version]:
        assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(
            by_name[plural]["verbs"]
        )


# What these kinds are called and hold must be as on a real server; asked of it and written down here.
NAMES: dict[str, dict[str, tuple[object, ...]]] = {
    "v1": {
        "pods": ("pod", True, "Pod", ["po"], ["all"]),
        "services": ("service", True, "Service", ["svc"], ["all"]),
        "namespaces": ("namespace", False, "Namespace", ["ns"], None),
        "configmaps": ("configmap", True, "ConfigMap", ["cm"], None),
        "events": ("event", True, "Event", ["ev"], None),
    },
    "apps/v1": {"deployments": ("deployment", True, "Deployment", ["deploy"], ["all"])},
    "batch/v1": {"jobs": ("job", True, "Job", None, ["all"])},
    "coordination.k8s.io/v1": {"leases": ("lease", True, "Lease", None, None)},
    "rbac.authorization.k8s.io/v1": {"roles": ("role", True, "Role", None, None)},
    "autoscaling/v2": {
        "horizontalpodautoscalers": (
            "horizontalpodautoscaler",
            True,
            "HorizontalPodAutoscaler",
            ["hpa"],
            ["all"],
        )
    },
    "scheduling.k8s.io/v1": {"priorityclasses": ("priorityclass", False, "PriorityClass", ["pc"], None)},
}


@pytest.mark.parametrize("group_version", NAMES)
async def test_names(api: Api, group_version: str) -> None:
    content = (await api.get(f"/{root(group_version)}")).ok(200).json
    by_name = {entry["name"]: entry for entry in content["resources"]}
    for plural, wanted in NAMES[group_version].items():
        resource_entry = by_name[plural]
        own = tuple(
            resource_entry.get(key)
            for key in ("singularName", "namespaced", "kind", "shortNames", "categories")
        )
        assert own == wanted


async def test_everything_in_one_document(api: Api) -> None:
    for path, wanted in (("/api", {""}), ("/apis", {"apps", "batch"})):
        answer = (await api.get(path, AGGREGATED)).ok(200)
        assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
        content = answer.json
        groups = {item["metadata"].get("name", ""): item for item in content["items"]}
        assert wanted <= groups.keys()
    jobs = groups["batch"]["versions"][0]["resources"]
    names = {entry["resource"]: entry for entry in jobs}
    assert names["jobs"]["responseKind"]["kind"] == "Job"
    assert names["jobs"]["subresources"][0]["subresource"] == "status"


async def test_a_new_kind_is_discovered(api: Api, widgets: str) -> None:
    group = widgets.split("/")[2]

    async def is_served() -> bool:
        answer = await api.get(f"/apis/{group}/v1")
        return answer.status == 200 and any(entry["name"] == "widgets" for entry in answer.json["resources"])

    await api.eventually(is_served, "the new kind in discovery")

    async def described() -> bool:
        return (await api.get(f"/openapi/v3/apis/{group}/v1")).status == 200

    await api.eventually(described, "the new kind in OpenAPI")
    document = (await api.get(f"/openapi/v3/apis/{group}/v1")).json
    name = ".".join([*reversed(group.split(".")), "v1", "Widget"])
    spec = document["components"]["schemas"][name]["properties"]["spec"]
    assert spec["properties"]["size"]["maximum"] == 10


def parameters(document: Json, path: str, method: str) -> set[str]:
    return {parameter["name"] for parameter in document["paths"][path][method]["parameters"]}


@pytest.mark.parametrize("group_version", KINDS)
async def test_openapi_says_what_may_be_validated(api: Api, group_version: str) -> None:
    index = (await api.get("/openapi/v3")).ok(200).json["paths"]
    address = index[root(group_version)]["serverRelativeURL"]
    document = (await api.get(address)).ok(200).json
    for plural in KINDS[group_version]:
        below = f"/{root(group_version)}/namespaces/{{namespace}}/{plural}/{{name}}"
        path = below if below in document["paths"] else f"/{root(group_version)}/{plural}/{{name}}"
        assert "fieldValidation" in parameters(document, path, "patch")
    for schema in document["components"]["schemas"].values():
        assert isinstance(schema, dict)


async def test_unknown_groups_are_not_found(api: Api) -> None:
    for path in ("/apis/no.such.group/v1", "/apis/no.such.group/v1/things", "/nothing"):
        assert (await api.get(path)).status == 404
