"""Requests and entities are checked before they are accepted: at each limit they are refused, or kept and readable."""

import asyncio
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from steelyard.api.http.openapi import error_statuses
from steelyard.api.routes import routes
from steelyard.api.settings import ApiSettings
from steelyard.broker.log import STATE, Message
from steelyard_common.types import Json
from steelyard_schema.bounds import ENTITY_BYTES, FREE_DEPTH
from steelyard_schema.entities import PLURALS
from tests.platform_api.memory_platform import MemoryPlatform, dataset, make_platform, service
from tests.platform_api.test_collection import a_service
from tests.platform_api.test_refusals import commands, refused


def nested(levels: int) -> Json:
    value: Json = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def with_schema(schema: Json) -> Json:
    return {"account": "acme", **dataset(), "schema": {"arrowSchema": "AAAA", "jsonSchema": schema}}


async def test_json_of_a_schema_that_is_nested_as_deep_as_it_may(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **with_schema(nested(FREE_DEPTH)))
    kept = await platform.settled("Dataset", made["id"])
    assert kept["schema"]["jsonSchema"] == nested(FREE_DEPTH)


@pytest.mark.parametrize("levels", [FREE_DEPTH + 1, 97, 99, 250, 254, 255, 900])
async def test_json_of_a_schema_that_is_nested_too_deep(platform: MemoryPlatform, levels: int) -> None:
    response = await platform.admin.post("/datasets", json=with_schema(nested(levels)))
    assert response.status_code == 422, response.text
    assert response.json()["field"].startswith("schema.jsonSchema")
    assert "nested deeper than the 64 levels" in response.json()["detail"]
    assert await commands(platform) == 0
    assert (await platform.admin.get("/datasets")).json() == []


async def test_an_entity_just_below_the_limit_is_kept_and_one_just_above_refused(
    platform: MemoryPlatform,
) -> None:
    """The revision, which the aggregator adds, counts."""
    made = await platform.created("datasets", **with_schema({"d": ""}))
    room = ENTITY_BYTES - len(orjson.dumps(await platform.settled("Dataset", made["id"])))
    accepted = 0
    for text in ("x" * (room + more) for more in range(-60, 12, 3)):
        response = await platform.admin.post("/datasets", json=with_schema({"d": text}))
        if response.status_code == 200:
            accepted += 1
            kept = await platform.settled("Dataset", response.json()["id"])
            assert len(orjson.dumps(kept)) <= ENTITY_BYTES
        else:
            assert (response.status_code, response.json()["field"]) == (413, "schema")
            assert len(text) > room - 10  # times differ in the digits of their microseconds
    assert accepted


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "a\x00b"}, "name"),
        ({"schema": {"arrowSchema": "AAAA", "jsonSchema": {"a\x00": 1}}}, "schema.jsonSchema.a\\x00"),
        ({"schema": {"arrowSchema": "AAAA", "jsonSchema": {"a": ["\x00"]}}}, "schema.jsonSchema.a.0"),
    ],
)
async def test_nul_is_refused_wherever_it_stands(platform: MemoryPlatform, change: Json, field: str) -> None:
    await refused(platform, 422, field, "datasets", {"account": "acme", **dataset(), **change})


@pytest.mark.parametrize(
    "body", [b'{"name":"\\ud800"}', b'{"\\udfff":1}', b'{"name":"\xed\xa0\x80"}', b"{" * 5000]
)
async def test_what_is_no_text_is_refused(platform: MemoryPlatform, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = await platform.admin.post("/datasets", content=body, headers=headers)
    assert (response.status_code, response.json()["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"replications": "9" * 25}, "replications"),
        ({"replications": True}, "replications"),
        ({"client": {"totalTimeoutSeconds": 10**12}}, "client.totalTimeoutSeconds"),
        ({"client": {"batchSize": 1e300}}, "client.batchSize"),
        ({"workersPerReplica": 2**31}, "workersPerReplica"),
        ({"inferenceSession.replicas": 2**63}, "inferenceSession.replicas"),
        ({"inferenceSession.replicas": 1001}, "inferenceSession.replicas"),
        ({"inferenceSession.expires": "9999-12-31T23:59:59-23:59"}, "inferenceSession.expires"),
        (
            {
                "inferenceSession.accelerator": {
                    "kind": "GPU",
                    "gpu": {"hardwareTypes": ["a.b/c"], "count": -100},
                }
            },
            "inferenceSession.accelerator.gpu.count",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_numbers_and_times_beyond_their_bounds(
    platform: MemoryPlatform, fields: Json, field: str
) -> None:
    id = (await a_service(platform))["id"]
    made = await platform.created("datasets", **dataset())
    await platform.says("Dataset", made["id"], "Ready", source="api")
    session: Json = {"inferenceService": id}
    body: Json = {"account": "acme", "dataset": made["id"], "inferenceSession": session}
    for name, value in fields.items():
        target, _, last = name.rpartition(".")
        (session if target else body)[last] = value
    await refused(platform, 422, field, "evaluations", body)


async def test_how_many_replicas_a_session_may_have_is_a_setting() -> None:
    async with make_platform(settings=ApiSettings(session_replicas=3)) as platform:
        body = {"account": "acme", "inferenceService": (await a_service(platform))["id"]}
        answer = await refused(platform, 422, "replicas", "inferencesessions", {**body, "replicas": 4})
        assert "4 should be at most 3, which the setting api.session_replicas allows" in answer["detail"]
        await platform.created("inferencesessions", **body, replicas=3)


RUNNERS: dict[str, tuple[Json, str]] = {
    "memory": ({"resources": {"memory": "1e999"}}, "runner.resources.memory"),
    "processors": ({"resources": {"cpu": "-1"}}, "runner.resources.cpu"),
    "storage": ({"resources": {"storage": "9" * 30}}, "runner.resources.storage"),
    "a variable": ({"env": [{"name": "A=B", "value": ""}]}, "runner.env.0.name"),
    "a variable's value": ({"env": [{"name": "A", "value": "x" * 140_000}]}, "runner.env.0.value"),
    "an argument": ({"args": ["x" * 140_000]}, "runner.args.0"),
    "nodes": ({"nodes": 2**31}, "runner.nodes"),
    "a path of a mount": (
        {
            "volumeMounts": [
                {"kind": "Scratch", "name": "a", "mountPath": "/tmp", "scratch": {"capacity": "1Gi"}}
            ]
        },
        "body",
    ),
    "space of a mount": (
        {
            "volumeMounts": [
                {"kind": "Scratch", "name": "a", "mountPath": "/a", "scratch": {"capacity": "1e99"}}
            ]
        },
        "runner.volumeMounts.0.scratch.capacity",
    ),
}


@pytest.mark.parametrize(("changes", "field"), RUNNERS.values(), ids=RUNNERS)
async def test_what_kubernetes_would_refuse_of_a_runner(
    platform: MemoryPlatform, changes: Json, field: str
) -> None:
    body: Json = {"account": "acme", **service()}
    body["runner"] = {**body["runner"], **changes}
    response = await platform.admin.post("/inferenceservices", json=body)
    assert (response.status_code, response.json()["field"]) == (422, field), response.text


@pytest.mark.parametrize("path", [".steelyard/manifest.json", ".dyff/logs.txt", ".STEELYARD/x", ".dyff"])
async def test_the_platforms_own_files_are_reserved(platform: MemoryPlatform, path: str) -> None:
    files: Any = dataset({path: b"x"})
    answer = await refused(platform, 422, "artifacts", "datasets", {"account": "acme", **files})
    assert "the platform's own" in answer["detail"]


async def test_a_file_that_others_lie_in_is_refused(platform: MemoryPlatform) -> None:
    files: Any = dataset({"a": b"x", "a/b": b"y"})
    await refused(platform, 422, "artifacts", "datasets", {"account": "acme", **files})


async def of_an_older_version(platform: MemoryPlatform, kind: str, made: Json, **fields: Any) -> None:
    """Puts fields into the entity that the schema took once."""
    id = made["id"]
    await platform.settled(kind, id)
    # A command that changes nothing: its place in the log is that of the state below.
    assert (
        await platform.admin.patch(f"/{PLURALS[kind]}/{id}/labels", json={"labels": {"a": None}})
    ).status_code == 200
    record = await platform.engines.log.latest(STATE, id)
    assert record is not None
    headers = {**record.headers, "offset": str(int(record.headers["offset"]) + 1)}
    content = orjson.loads(record.value or b"") | fields
    await platform.engines.log.publish([Message(STATE, id, orjson.dumps(content), headers)])
    async with asyncio.timeout(60):
        while (await platform.admin.get(f"/{PLURALS[kind]}/{id}")).json() != content:
            await platform.engines.view.wait_for_change(platform.engines.view.version(), 0.1)


async def test_an_entity_that_the_schema_does_not_take_any_more(platform: MemoryPlatform) -> None:
    """An entity that the schema refuses now is shown, hides no other, cannot be used, and can be deleted."""
    made = await a_service(platform)
    runner = {**made["runner"], "nodes": 2**40}
    await of_an_older_version(platform, "InferenceService", made, runner=runner)
    path = f"/inferenceservices/{made['id']}"
    assert [service["id"] for service in (await platform.admin.get("/inferenceservices")).json()] == [
        made["id"]
    ]
    body = {"account": "acme", "inferenceService": made["id"]}
    answer = await refused(platform, 422, "inferenceService", "inferencesessions", body)
    assert "made by an older version" in answer["detail"]
    statuses = {}
    for route in routes():
        if route.method == "GET" and route.path.startswith("/v0/inferenceservices/{id}"):
            shown = await platform.admin.get(f"http://api{route.path.replace('{id}', made['id'])}")
            assert shown.status_code in {200, *error_statuses(route)}, route.path
            statuses[route.path.rpartition("/")[2]] = shown.status_code
    assert statuses["{id}"] == 200
    assert statuses["progress"] == 409
    edited = await platform.admin.patch(f"{path}/labels", json={"labels": {"a": "1"}})
    assert (edited.status_code, edited.json()["reason"]) == (409, "Conflict")
    deleted = await platform.admin.put(f"{path}/delete")
    assert (deleted.status_code, deleted.json()["status"]) == (200, "Deleted")


async def test_the_platforms_own_labels_are_reserved(platform: MemoryPlatform) -> None:
    made = await platform.created("datasets", **dataset())
    for key in ("dyff.io/entity", "x.dyff.io/y", "steelyard/baseline"):
        answer = await platform.admin.patch(f"/datasets/{made['id']}/labels", json={"labels": {key: "a"}})
        assert (answer.status_code, answer.json()["field"]) == (422, "labels"), key


@pytest.mark.parametrize("name", [name for name in ApiSettings.model_fields if name.endswith("_seconds")])
def test_no_duration_of_the_settings_is_beyond_what_a_date_can_take(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        ApiSettings.model_validate({name: 10**12})


def test_the_settings_cannot_allow_what_the_aggregator_refuses() -> None:
    with pytest.raises(ValidationError, match="entity_bytes"):
        ApiSettings(entity_bytes=ENTITY_BYTES + 1)
