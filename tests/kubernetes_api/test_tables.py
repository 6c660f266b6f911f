# ruff: noqa: E501 - tables are read by their rows
"""Tables, as `kubectl get` shows them: columns and cells as a real server's."""

from typing import Any

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import TABLE, Api, config_map, job, pod
from tests.kubernetes_api.conftest import widget

WIDE = {
    "pods": ("Name Ready Status Restarts Age", ["IP", "Node", "Nominated Node", "Readiness Gates"]),
    "services": ("Name Type Cluster-IP External-IP Port(s) Age", ["Selector"]),
    "configmaps": ("Name Data Age", []),
    "secrets": ("Name Type Data Age", []),
    "serviceaccounts": ("Name Secrets Age", []),
    "/apis/batch/v1/jobs": ("Name Status Completions Duration Age", ["Containers", "Images", "Selector"]),
    "/apis/apps/v1/deployments": ("Name Ready Up-to-date Available Age", ["Containers", "Images", "Selector"]),
    "/apis/apps/v1/replicasets": ("Name Desired Current Ready Age", ["Containers", "Images", "Selector"]),
    "/apis/coordination.k8s.io/v1/leases": ("Name Holder Age", []),
    "/apis/discovery.k8s.io/v1/endpointslices": ("Name AddressType Ports Endpoints Age", []),
    "/api/v1/nodes": ("Name Status Roles Age Version", ["Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"]),
    "/api/v1/namespaces": ("Name Status Age", []),
}  # fmt: skip


@pytest.mark.parametrize("path", WIDE)
async def test_columns(api: Api, core: str, path: str) -> None:
    table = (await api.get(path if path.startswith("/") else f"{core}/{path}", TABLE)).ok(200).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    usual = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    wide = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 1]
    assert (" ".join(usual), wide) == WIDE[path]


async def cells(api: Api, path: str) -> list[Any]:
    rows = (await api.get(path, TABLE)).ok(200).json["rows"]
    assert len(rows) == 1
    values: list[Any] = rows[0]["cells"]
    return values


def state(name: str, content: Json, **more: Any) -> Json:
    return {
        "name": name,
        "image": "x",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": content,
        **more,
    }


PODS: list[tuple[Json, list[Any]]] = [
    ({"phase": "Pending"}, ["0/1", "Pending", "0"]),
    ({"phase": "Running", "containerStatuses": [state("main", {"running": {}}, ready=True)]}, ["1/1", "Running", "0"]),
    ({"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"]),
    (
        {"phase": "Pending", "containerStatuses": [state("main", {"waiting": {"reason": "ErrImagePull"}})]},
        ["0/1", "ErrImagePull", "0"],
    ),
    (
        {"phase": "Failed", "containerStatuses": [state("main", {"terminated": {"exitCode": 3}})]},
        ["0/1", "ExitCode:3", "0"],
    ),
    (
        {
            "phase": "Succeeded",
            "containerStatuses": [state("main", {"terminated": {"exitCode": 0, "reason": "Completed"}})],
        },
        ["0/1", "Completed", "0"],
    ),
    (
        {"phase": "Running", "containerStatuses": [state("main", {"running": {}}, ready=True, restartCount=2)]},
        ["1/1", "Running", "2"],
    ),
    (
        {"phase": "Pending", "initContainerStatuses": [state("first", {"running": {}})]},
        ["0/1", "Init:0/1", "0"],
    ),
    (
        {"phase": "Pending", "initContainerStatuses": [state("first", {"terminated": {"exitCode": 1, "reason": "Error"}})]},
        ["0/1", "Init:Error", "0"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "wanted"), PODS, ids=lambda value: value[1] if isinstance(value, list) else ""
)
async def test_pods(api: Api, core: str, status: Json, wanted: list[Any]) -> None:
    first = [{"name": "first", "image": "x"}] if "initContainerStatuses" in status else []
    (await api.post(f"{core}/pods", pod("p", initContainers=first))).ok(201)
    (await api.merge(f"{core}/pods/p/status", {"status": status})).ok(200)
    row = await cells(api, f"{core}/pods")
    assert row[:4] == ["p", *wanted]
    (await api.delete(f"{core}/pods/p?gracePeriodSeconds=0")).ok(200)


async def test_jobs_and_others(api: Api, core: str, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    (await api.post(path, job("j"))).ok(201)
    row = await cells(api, f"{path}/j")
    assert row[0] == "j"
    assert row[2] == "0/1"
    assert row[5:7] == ["main", "localhost/none"]
    (await api.post(f"{core}/configmaps", config_map("c", {"a": "1", "b": "2"}))).ok(201)
    assert (await cells(api, f"{core}/configmaps/c"))[:2] == ["c", 2]
    service = {
        "metadata": {"name": "s"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]},
    }
    (await api.post(f"{core}/services", service)).ok(201)
    row = await cells(api, f"{core}/services/s")
    assert (row[:5], row[6]) == (["s", "ClusterIP", "None", "<none>", "80/TCP"], "a=b")
    (await api.post(f"{core}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})).ok(201)
    assert (await cells(api, f"{core}/secrets/s"))[:3] == ["s", "Opaque", 1]


async def test_events(api: Api, core: str, namespace: str) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": namespace, "fieldPath": "spec.containers{main}"}
    event: Json = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "reason": "Why",
        "message": "what\n",
        "type": "Normal",
    }
    event |= {"source": {"component": "test"}, "count": 3}
    (await api.post(f"{core}/events", event)).ok(201)
    row = await cells(api, f"{core}/events/e")
    assert row[1:7] == ["Normal", "Why", "pod/p", "spec.containers{main}", "test", "what"]
    assert row[8:] == ["3", "e"] or row[8:] == [3, "e"]


async def test_custom_kinds_have_the_columns_of_their_definition(api: Api, widgets: str) -> None:
    (await api.post(widgets, widget(widgets, "w", size=3))).ok(201)
    conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
    (await api.merge(f"{widgets}/w/status", {"status": {"conditions": conditions}})).ok(200)
    table = (await api.get(widgets, TABLE)).ok(200).json
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Size",
        "Ready",
        "Colour",
        "Age",
    ]
    assert table["rows"][0]["cells"][:4] == ["w", 3, "True", "red"]


@pytest.mark.parametrize(
    ("include", "kind"), [("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata"), ("None", None)]
)
async def test_rows_bring_as_much_as_was_asked_for(
    api: Api, core: str, include: str, kind: str | None
) -> None:
    (await api.post(f"{core}/configmaps", config_map("c", {"a": "1"}))).ok(201)
    table = (await api.get(f"{core}/configmaps/c?includeObject={include}", TABLE)).ok(200).json
    assert (table["rows"][0].get("object") or {}).get("kind") == kind
