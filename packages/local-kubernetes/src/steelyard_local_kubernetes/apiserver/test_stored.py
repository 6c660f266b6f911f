"""Tests of stored objects that no check would accept, as an older version may have left: the rest is served."""

import asyncio
from pathlib import Path

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.database import SqliteDatabase
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts
from steelyard_local_kubernetes.faults import Faults

TESTER = administrator("tester")

META: Json = {"name": "bad", "namespace": "default", "uid": "u-bad", "resourceVersion": "2"}
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
NAMES = {"plural": "bads", "kind": "Bad", "singular": "bad", "listKind": "BadList"}


def definition(**spec: object) -> Json:
    metadata = {**META, "name": "bads.example.com", "namespace": ""}
    return {
        "metadata": metadata,
        "spec": {"group": "example.com", "names": NAMES, "scope": "Namespaced", **spec},
    }


ROWS = {
    "no JSON": ("pods", b"{"),
    "no object": ("pods", b"[1]"),
    "no uid": ("pods", b'{"metadata":{"name":"bad"}}'),
    "a version of letters": ("pods", orjson.dumps({"metadata": {**META, "resourceVersion": "x"}})),
    "owners without uids": ("pods", orjson.dumps({"metadata": {**META, "ownerReferences": [{}]}})),
    "a definition of nothing": (DEFINITIONS, orjson.dumps(definition())),
}


async def ask(parts: Parts, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
    data = orjson.dumps(body) if body is not None else b""
    request = Request(method, path, {}, {"content-type": "application/json"}, data, TESTER)
    response = await parts.core.handle(request)
    assert isinstance(response.body, bytes)
    return response.status, orjson.loads(response.body)


@pytest.mark.parametrize("what", ROWS)
async def test_a_stored_object_that_cannot_be_served_stops_nothing(what: str, tmp_path: Path) -> None:
    kind, raw = ROWS[what]
    database = SqliteDatabase(tmp_path / "db")
    database.commit(2, [(kind, "default", "bad", raw)])
    database.close()
    faults = Faults()
    config = ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}, faults=faults)
    parts = await make_parts(config, Clock())
    assert faults.number("store", "row") + faults.number("definitions", "CustomResourceDefinition") == 1
    pod = {"metadata": {"name": "good"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    assert (await ask(parts, "POST", "/api/v1/namespaces/default/pods", pod))[0] == 201
    status, listed = await ask(parts, "GET", "/api/v1/pods")
    assert (status, [pod["metadata"]["name"] for pod in listed["items"]]) == (200, ["good"])
    parts.store.close()


async def test_objects_of_a_stored_definition_that_is_no_schema_are_refused(tmp_path: Path) -> None:
    """Schemas are compiled at their first use, so that a start with many of them is quick."""
    schema = {"openAPIV3Schema": {"type": "object", "pattern": "("}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    database = SqliteDatabase(tmp_path / "db")
    database.commit(2, [(DEFINITIONS, "", "bads.example.com", orjson.dumps(definition(versions=[version])))])
    database.close()
    parts = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    bad = {"apiVersion": "example.com/v1", "kind": "Bad", "metadata": {"name": "one"}}
    status, answer = await ask(parts, "POST", "/apis/example.com/v1/namespaces/default/bads", bad)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert "its definition cannot check objects" in answer["message"]
    assert (await ask(parts, "GET", "/apis/example.com/v1/bads"))[0] == 200
    parts.store.close()


async def test_an_object_whose_name_is_no_longer_allowed_can_be_changed(tmp_path: Path) -> None:
    """Names of StatefulSets with dots were taken. A label with other characters is refused all the same."""
    labels, container = {"app": "db"}, {"name": "main", "image": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"serviceName": "db", "selector": {"matchLabels": labels}, "template": template}
    body: Json = {"metadata": {"name": "my.db", "finalizers": ["example.dev/keep"]}, "spec": spec}
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    parts = await make_parts(ApiServerConfig(None, tmp_path / "pki", {}), Clock())
    assert (await ask(parts, "POST", path, body))[0] == 422
    body["metadata"]["name"] = "my-db"
    made = (await ask(parts, "POST", path, body))[1]
    made["metadata"] |= {"name": "my.db", "uid": "u-dotted"}
    parts.store.put("statefulsets.apps", made)
    stored = (await ask(parts, "GET", f"{path}/my.db"))[1]
    stored["metadata"]["labels"] = {"a": "no label"}
    assert (await ask(parts, "PUT", f"{path}/my.db", stored))[0] == 422
    del stored["metadata"]["labels"]
    del stored["metadata"]["finalizers"]
    status, changed = await ask(parts, "PUT", f"{path}/my.db", stored)
    assert status == 200, changed
    assert (await ask(parts, "DELETE", f"{path}/my.db"))[0] == 200
    parts.store.close()


async def test_what_follows_from_deletions_goes_on_after_one_that_cannot(tmp_path: Path) -> None:
    faults = Faults()
    parts = await make_parts(ApiServerConfig(None, tmp_path / "pki", {}, faults=faults), Clock())
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u-gone"}
    # Owners by uid alone: their kind is unknown.
    parts.store.put("configmaps", {"metadata": {**META, "ownerReferences": [{"uid": "u"}]}})
    good = {**META, "name": "good", "uid": "u-good", "ownerReferences": [owner]}
    parts.store.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": good})
    work = asyncio.create_task(parts.lifecycle.run())
    while parts.store.get("configmaps", ("default", "good")) is not None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert faults.number("lifecycle", "ConfigMap") >= 1
    assert not work.done()
    work.cancel()
    parts.store.close()


async def test_the_faults_are_reported(tmp_path: Path) -> None:
    faults = Faults()
    faults.count("scheduler", "Pod")
    parts = await make_parts(ApiServerConfig(None, tmp_path / "pki", {}, faults=faults), Clock())
    response = await parts.core.handle(Request("GET", "/metrics", {}, {}, b"", TESTER))
    assert isinstance(response.body, bytes)
    assert 'steelyard_kubernetes_faults_total{kind="Pod",part="scheduler"} 1' in response.body.decode()
    parts.store.close()
