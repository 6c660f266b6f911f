"""The core without a transport: no answer before its commit, and what a full disk does."""

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts
from steelyard_local_kubernetes.apiserver.watch import INITIAL_END

TESTER = administrator("tester")

PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    made = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    yield made
    made.store.close()


async def ask(parts: Parts, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
    data = orjson.dumps(body) if body is not None else b""
    request = Request(method, path, {}, {"content-type": "application/json"}, data, TESTER)
    response = await parts.core.handle(request)
    assert isinstance(response.body, bytes)
    return response.status, orjson.loads(response.body)


async def test_no_answer_goes_out_before_the_commit(parts: Parts) -> None:
    status, made = await ask(parts, "POST", PATH, {"metadata": {"name": "a"}})
    assert (status, parts.store.committed) == (201, int(made["metadata"]["resourceVersion"]))
    # A reader, too, must not get what may yet be lost: neither what is there nor that a name is taken.
    parts.store.put("configmaps", {**made, "data": {"later": "1"}})
    assert (await ask(parts, "GET", f"{PATH}/a"))[1]["data"] == {"later": "1"}
    assert parts.store.committed == parts.store.version
    parts.store.put("configmaps", {**made, "data": {"later": "2"}})
    assert (await ask(parts, "POST", PATH, {"metadata": {"name": "a"}}))[0] == 409
    assert parts.store.committed == parts.store.version


async def test_a_full_disk_refuses_and_changes_nothing(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    made = (await ask(parts, "POST", PATH, {"metadata": {"name": "a"}, "data": {"v": "1"}}))[1]

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(parts.store._database, "commit", fail)
        status, refused = await ask(parts, "POST", PATH, {"metadata": {"name": "b"}})
        assert (status, refused["details"]) == (503, {"retryAfterSeconds": 5})
        assert "no room is left on the disk" in refused["message"]
        assert (await ask(parts, "DELETE", f"{PATH}/a"))[0] == 503
    assert (await ask(parts, "GET", f"{PATH}/a"))[1] == made
    assert (await ask(parts, "GET", f"{PATH}/b"))[0] == 404
    assert (await ask(parts, "POST", PATH, {"metadata": {"name": "b"}}))[0] == 201


async def _first(body: AsyncGenerator[bytes]) -> bytes:
    """Return what a watch begins with, which comes in pieces, up to the bookmark at its end."""
    begin = b""
    while INITIAL_END.encode() not in begin:
        begin += await anext(body)
    return begin


async def test_a_watch_begins_with_what_is_durable(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that waits for its commit while a watch begins is not in what the watch begins with."""

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    async def write_twice() -> None:
        parts.store.put("configmaps", {**made, "metadata": {**made["metadata"], "name": "kept", "uid": "1"}})
        await parts.store.wait_durable()
        monkeypatch.setattr(parts.store._database, "commit", fail)
        parts.store.put("configmaps", {**made, "metadata": {**made["metadata"], "name": "lost", "uid": "2"}})

    made = (await ask(parts, "POST", PATH, {"metadata": {"name": "a"}}))[1]
    query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    request = Request("GET", PATH, {**query, "allowWatchBookmarks": "true"}, {}, b"", TESTER)
    response = await parts.core.handle(request)
    assert isinstance(response.body, AsyncGenerator)
    _, begin = await asyncio.gather(write_twice(), _first(response.body))  # in this order they begin
    *objects, bookmark = [orjson.loads(line)["object"] for line in begin.splitlines()]
    assert [obj["metadata"]["name"] for obj in objects] == ["a", "kept"]
    assert bookmark["metadata"]["resourceVersion"] == objects[-1]["metadata"]["resourceVersion"]
    await response.body.aclose()


async def test_a_fault_of_ours_is_one_requests(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(parts.core.rest, "handle", fail)
        status, refused = await ask(parts, "GET", PATH)
        assert (status, refused["reason"]) == (500, "InternalError")
        assert "a bug" not in refused["message"]
    assert (await ask(parts, "GET", PATH))[0] == 200


@pytest.mark.parametrize("field", ["type", "status"])
@pytest.mark.parametrize("path", ["/api/v1/nodes", "/apis/batch/v1/namespaces/default/jobs"])
async def test_a_condition_without_a_field_does_not_spoil_the_table_of_all(
    parts: Parts, path: str, field: str
) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    obj: Json = {"metadata": {"name": "a"}}
    if path.endswith("jobs"):
        obj["spec"] = {"template": template}
    status, made = await ask(parts, "POST", path, obj)
    assert status == 201
    whole = {"type": "Ready", "status": "True"}
    made["status"] = {"conditions": [{key: value for key, value in whole.items() if key != field}]}
    assert (await ask(parts, "PUT", f"{path}/a/status", made))[0] == 200
    accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    response = await parts.core.handle(Request("GET", path, {}, accept, b"", TESTER))
    assert isinstance(response.body, bytes)
    assert response.status == 200
    assert [row["cells"][0] for row in orjson.loads(response.body)["rows"]] == ["a"]


async def test_a_job_without_a_name_is_refused_like_any_other_object(parts: Parts) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    for metadata in (None, {}, {"name": None}):
        job = {"metadata": metadata, "spec": {"template": template}}
        status, refused = await ask(parts, "POST", "/apis/batch/v1/namespaces/default/jobs", job)
        assert status == 422
        assert "name or generateName is required" in refused["message"]


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ("text", 422),
        (["x"], 400),
        ({"type": "object", "properties": "text"}, 400),
        ({"type": ["object"]}, 400),
    ],
)
async def test_a_schema_of_another_shape_is_refused_and_not_a_fault_of_the_servers(
    parts: Parts, items: Any, code: int
) -> None:
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    properties = {"list": {"type": "array", "items": items, **keyed}}
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "a.b", "names": names, "scope": "Namespaced", "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, refused = await ask(parts, "POST", path, {"metadata": {"name": "things.a.b"}, "spec": spec})
    assert status == code
    assert "openAPIV3Schema" in refused["message"]


async def test_a_number_in_the_place_of_what_was_true_is_refused(parts: Parts) -> None:
    """Fields that are as they were are not decoded again, and to Python 1 is true."""
    made = (await ask(parts, "POST", PATH, {"metadata": {"name": "a"}, "immutable": True}))[1]
    status, refused = await ask(parts, "PUT", f"{PATH}/a", {**made, "immutable": 1})
    assert (status, refused["message"]) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field'
        " ConfigMap.immutable of type bool",
    )


async def test_an_object_of_an_earlier_process_is_decoded_whole(parts: Parts, tmp_path: Path) -> None:
    """An older version may have stored a field that is not known today."""
    pod: Json = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    pods = "/api/v1/namespaces/default/pods"
    made = (await ask(parts, "POST", pods, pod))[1]
    parts.store.put("pods", {**made, "spec": {**made["spec"], "noSuchField": 1}})
    await parts.store.wait_durable()
    parts.store.close()
    later = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    there = (await ask(later, "GET", f"{pods}/a"))[1]
    status, labelled = await ask(
        later, "PUT", f"{pods}/a", {**there, "metadata": {**there["metadata"], "labels": {"b": "c"}}}
    )
    assert (status, labelled["spec"]) == (200, made["spec"])
    later.store.close()
