"""Objects that were stored before a definition's new form are seen in that form."""

from pathlib import Path
from typing import Any

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts

TESTER = administrator("tester")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/a.b/v1/namespaces/default/things"


async def ask(parts: Parts, method: str, path: str, body: object = None) -> tuple[int, Json]:
    data = orjson.dumps(body) if body is not None else b""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = await parts.core.handle(Request(method, path, {}, {"content-type": kind}, data, TESTER))
    assert isinstance(response.body, bytes)
    return response.status, orjson.loads(response.body)


def spec(**defaults: Any) -> Json:
    properties = {name: {"type": "integer", "default": value} for name, value in defaults.items()}
    below: Json = {"type": "object", "properties": {"given": {"type": "integer"}, **properties}}
    schema = {"type": "object", "properties": {"spec": below}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "group": "a.b",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [version],
    }


async def define(parts: Parts, **defaults: Any) -> None:
    status, answer = await ask(parts, "PATCH", f"{CRDS}/things.a.b", {"spec": spec(**defaults)})
    assert status == 200, answer
    while parts.store.committed != parts.store.version:
        await parts.store.wait_durable()


async def test_stored_objects_are_seen_with_the_defaults_of_today(tmp_path: Path) -> None:
    parts = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    assert (await ask(parts, "POST", CRDS, {"metadata": {"name": "things.a.b"}, "spec": spec()}))[0] == 201
    while parts.store.committed != parts.store.version:
        await parts.store.wait_durable()
    thing: Json = {"apiVersion": "a.b/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"given": 1}}
    made = (await ask(parts, "POST", THINGS, thing))[1]
    await define(parts, first=1)
    seen = (await ask(parts, "GET", f"{THINGS}/a"))[1]
    assert seen["spec"] == {"given": 1, "first": 1}
    assert seen["metadata"] == made["metadata"]
    await define(parts, first=2, second=5)
    listed = (await ask(parts, "GET", THINGS))[1]["items"]
    assert [item["spec"] for item in listed] == [{"given": 1, "first": 2, "second": 5}]
    # A write stores them: from then on they are the object's own.
    assert (await ask(parts, "PATCH", f"{THINGS}/a", {"metadata": {"labels": {"x": "y"}}}))[0] == 200
    await define(parts, first=3, second=5)
    assert (await ask(parts, "GET", f"{THINGS}/a"))[1]["spec"] == {"given": 1, "first": 2, "second": 5}
    assert (await ask(parts, "POST", THINGS, thing | {"metadata": {"name": "b"}}))[0] == 201
    await define(parts, first=4, second=5, third=7)
    parts.store.close()
    # A server that starts again shows them as well.
    parts = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    assert (await ask(parts, "GET", f"{THINGS}/b"))[1]["spec"] == {
        "given": 1,
        "first": 3,
        "second": 5,
        "third": 7,
    }
    # Fields that the definition has no more are not seen; they are still stored, and come back with it.
    await define(parts)
    assert (await ask(parts, "GET", f"{THINGS}/a"))[1]["spec"] == {"given": 1}
    await define(parts, first=9)
    assert (await ask(parts, "GET", f"{THINGS}/a"))[1]["spec"] == {"given": 1, "first": 2}
    parts.store.close()


async def test_a_definition_that_converts_by_a_webhook_is_refused(tmp_path: Path) -> None:
    """A webhook that was never asked would leave every object in the form of another version."""
    parts = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    client = {"url": "https://127.0.0.1:1/convert"}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    wanted = spec() | {"conversion": {"strategy": "Webhook", "webhook": webhook}}
    status, answer = await ask(parts, "POST", CRDS, {"metadata": {"name": "things.a.b"}, "spec": wanted})
    assert status == 422
    (cause,) = answer["details"]["causes"]
    assert cause["field"] == "spec.conversion.strategy"
    assert "this server converts by no webhook" in cause["message"]
    parts.store.close()
