"""Bad requests: refused with the field's name, and nothing is created."""

from collections.abc import Mapping
from typing import Any

import pytest

from steelyard.broker.log import EVENTS
from steelyard_common.types import Json
from steelyard_schema.entities import PLURALS
from tests.platform_api.memory_platform import (
    MemoryPlatform,
    dataset,
    grant,
    make_platform,
    md5,
    model,
    service,
)
from tests.platform_api.test_collection import MAKE, a_service, an_evaluation

UNKNOWN = "0" * 31 + "1"


async def commands(platform: MemoryPlatform) -> int:
    return sum((await platform.engines.log.ends(EVENTS)).values())


async def refused(
    platform: MemoryPlatform, status: int, field: str, resource: str, body: Mapping[str, Any]
) -> Json:
    before = await commands(platform)
    response = await platform.admin.post(f"/{resource}", json=body)
    answer: Json = response.json()
    assert (response.status_code, answer.get("field")) == (status, field), response.text
    assert response.headers["content-type"] == "application/json"
    assert field.split(".", maxsplit=1)[0] in answer["detail"]
    assert await commands(platform) == before
    return answer


def with_path(path: str) -> Json:
    return {**dataset(), "artifacts": [{"path": path, "digest": {"md5": md5(b"")}}]}


@pytest.mark.parametrize(
    ("resource", "body", "field"),
    [
        ("datasets", {**dataset(), "colour": "red"}, "colour"),
        ("datasets", {**dataset(), "name": 5}, "name"),
        ("datasets", {**dataset(), "name": "n" * 256}, "name"),
        ("datasets", {**dataset(), "name": ""}, "name"),
        ("datasets", {**dataset(), "artifacts": []}, "artifacts"),
        ("datasets", {**dataset(), "artifacts": [{"path": "a", "digest": {"md5": "zz"}}]}, "artifacts"),
        ("datasets", {**dataset(), "account": "no spaces"}, "account"),
        ("datasets", {**dataset(), "account": "a" * 64}, "account"),
        ("datasets", {**dataset(), "id": UNKNOWN}, "id"),
        ("datasets", {**dataset(), "status": "Ready"}, "status"),
        ("datasets", {**dataset(), "securityContext": {}}, "securityContext"),
        ("modules", {"name": "m", "artifacts": [{"path": "a"}, {"path": "a"}]}, "artifacts"),
        ("models", {**model(), "source": {"kind": "GitLFS"}}, "source.gitLFS"),
        ("models", {**model(), "source": {"kind": "Upload"}}, "artifact.volume.files"),
        ("models", {**model(), "artifact": {"kind": "HuggingFaceCache"}}, "artifact.huggingFaceCache"),
        ("models", {**model(), "resources": {"storage": "much"}}, "resources.storage"),
        ("inferenceservices", service(UNKNOWN), "model"),
        ("inferenceservices", {**service(), "runner": None}, "body"),
        ("inferencesessions", {"inferenceService": UNKNOWN}, "inferenceService"),
        ("inferencesessions", {"inferenceService": "short"}, "inferenceService"),
        ("inferencesessions", {"inferenceService": UNKNOWN, "expires": "2020-01-01T00:00:00Z"}, "expires"),
        ("inferencesessions", {"inferenceService": UNKNOWN, "expires": "2040-01-01T00:00:00"}, "expires"),
        ("evaluations", {"dataset": UNKNOWN, "inferenceSession": {"inferenceService": UNKNOWN}}, "dataset"),
        ("evaluations", {"dataset": UNKNOWN}, "body"),
        ("reports", {"rubric": "r", "evaluation": UNKNOWN}, "evaluation"),
        ("auditprocedures", {"name": "p", "requirements": []}, "requirements"),
        (
            "auditprocedures",
            {"name": "p", "requirements": [{"dataset": UNKNOWN, "rubric": "r"}]},
            "requirements.0.dataset",
        ),
        ("audits", {"auditProcedure": UNKNOWN, "inferenceService": UNKNOWN}, "auditProcedure"),
        *(
            ("datasets", with_path(path), "artifacts.0.path")
            for path in ("../up", "/etc/passwd", "a/../../b", "a//b", ".", "", "a\x00b", "a/..")
        ),
        *(
            ("datasets", with_path(path), "artifacts")
            for path in (
                "a\\b",
                "a%2e",
                "a?",
                "a#b",
                "con",
                "x/NUL.txt",
                "a.",
                "a ",
                "b" * 256,
                "d/" * 450 + "e",
            )
        ),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_created(
    platform: MemoryPlatform, resource: str, body: Json, field: str
) -> None:
    answer = await refused(platform, 422, field, resource, {"account": "acme", **body})
    assert answer["reason"] == "Invalid"


async def test_an_address_without_its_version_says_how_it_ends(platform: MemoryPlatform) -> None:
    without = await platform.admin.get(platform.admin.base_url.join("/evaluations"))
    assert without.status_code == 404
    assert without.json()["detail"] == "there is no /evaluations; the address of the API ends in /v0"
    assert (await platform.admin.get("/spoons")).json()["detail"] == "there is no /v0/spoons"


async def test_a_mount_of_what_is_not_there(platform: MemoryPlatform) -> None:
    source = {"kind": "Dataset", "id": UNKNOWN}
    mount = {"kind": "Data", "name": "d", "mountPath": "/d", "data": {"source": source}}
    body = {"account": "acme", **service()}
    body["runner"]["volumeMounts"] = [mount]
    await refused(platform, 422, "runner.volumeMounts.0.data.source", "inferenceservices", body)
    source["kind"] = "Report"
    await refused(platform, 422, "runner.volumeMounts.0.data.source.kind", "inferenceservices", body)


@pytest.mark.parametrize("status", ["Deleted", "Error", "Terminated"])
async def test_what_has_failed_cannot_be_used(platform: MemoryPlatform, status: str) -> None:
    made = await platform.created("models", **model())
    if status == "Error":
        await platform.says("Model", made["id"], "Error", reason="FetchFailed")
    else:
        await platform.admin.put(f"/models/{made['id']}/{'delete' if status == 'Deleted' else 'terminate'}")
    answer = await refused(
        platform, 422, "model", "inferenceservices", {"account": "acme", **service(made["id"])}
    )
    assert f"is {status}" in answer["detail"]


async def test_what_is_over_says_what_it_is_when_it_is_to_be_terminated(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    path = f"/evaluations/{made['id']}"
    await platform.says("Evaluation", made["id"], "Failed", reason="ClientFailed")
    refused = await platform.admin.put(f"{path}/terminate")
    assert refused.status_code == 409
    assert refused.json()["detail"] == f"status: Evaluation {made['id']} is Failed: there is nothing to end"
    other = await an_evaluation(platform)
    for _ in range(2):
        ended = await platform.admin.put(f"/evaluations/{other['id']}/terminate")
        assert (ended.status_code, ended.json()["status"]) == (200, "Terminated")
    await platform.admin.put(f"/evaluations/{other['id']}/delete")
    refused = await platform.admin.put(f"/evaluations/{other['id']}/terminate")
    assert "is Deleted: there is nothing to end" in refused.json()["detail"]


async def test_a_view_that_is_not_there(platform: MemoryPlatform) -> None:
    evaluation = await an_evaluation(platform)
    for field in ("datasetView", "evaluationView"):
        body = {"account": "acme", "rubric": "r", "evaluation": evaluation["id"], field: "none"}
        await refused(platform, 422, field, "reports", body)


@pytest.mark.parametrize(
    "name", ["text.ExactMatsh", "exact-macht", "Exact_Match", "Text.exactmatch?target=x"]
)
async def test_a_rubric_that_is_misspelt(platform: MemoryPlatform, name: str) -> None:
    evaluation = await an_evaluation(platform)
    body = {"account": "acme", "rubric": name, "evaluation": evaluation["id"]}
    answer = await refused(platform, 422, "rubric", "reports", body)
    assert "did you mean" in answer["detail"]
    requirements = [{"dataset": evaluation["dataset"], "rubric": name}]
    body = {"account": "acme", "name": "p", "requirements": requirements}
    await refused(platform, 422, "requirements.0.rubric", "auditprocedures", body)
    for fine in ("text.ExactMatch", "exact-match?target=x", "a.RubricOfAnImage"):
        await platform.created("reports", rubric=fine, evaluation=evaluation["id"])


async def test_what_may_not_be_seen_is_refused_like_what_is_missing(platform: MemoryPlatform) -> None:
    made = await platform.created("models", **model())
    stranger = await platform.holder(
        grant("inferenceservices", ["*"], ["other"]), grant("models", ["*"], ["other"])
    )
    body = {"account": "other", **service(made["id"])}
    hidden = await stranger.post("/inferenceservices", json=body)
    absent = await stranger.post("/inferenceservices", json={**body, "model": UNKNOWN})
    assert hidden.status_code == absent.status_code == 422
    assert hidden.text.replace(made["id"], UNKNOWN) == absent.text
    reader = await platform.holder(
        grant("inferenceservices", ["*"], ["other"]), grant("models", ["get"], ["acme"])
    )
    seen = await reader.post("/inferenceservices", json=body)
    assert (seen.status_code, seen.json()["field"]) == (403, "model")


async def test_too_large_a_body_names_the_largest_field(platform: MemoryPlatform) -> None:
    body = {"account": "acme", **dataset(), "name": "x" * (513 * 1024)}
    await refused(platform, 413, "name", "datasets", body)
    body["name"] = "x" * (3 << 20)
    await refused(platform, 413, "body", "datasets", body)


async def test_an_entity_that_grows_too_large_by_what_it_embeds() -> None:
    from steelyard.api.settings import ApiSettings

    async with make_platform(settings=ApiSettings(entity_bytes=2048)) as platform:
        made = await platform.created("models", **{**model(), "name": "m" * 200})
        body = {"account": "acme", **service(made["id"]), "name": "s" * 200}
        body["interface"]["outputSchema"] = {"arrowSchema": "A" * 1100}
        answer = await refused(platform, 413, "interface", "inferenceservices", body)
        assert "2048 are allowed" in answer["detail"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "field"),
    [
        (b"{", "application/json", 400, "body"),
        (b"[]", "application/json", 400, "body"),
        (b"\xff", "application/json", 400, "body"),
        (b"", "application/json", 422, "account"),
        (b"account=acme", "application/x-www-form-urlencoded", 415, "Content-Type"),
    ],
)
async def test_a_body_that_is_no_object(
    platform: MemoryPlatform, content: bytes, kind: str, status: int, field: str
) -> None:
    response = await platform.admin.post("/datasets", content=content, headers={"Content-Type": kind})
    assert (response.status_code, response.json()["field"]) == (status, field)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"limit": "0"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"orderBy": "colour"}, "orderBy"),
        ({"order": "up", "orderBy": "id"}, "order"),
        ({"after": '["a", "b"]'}, "after"),
        ({"query": "{"}, "query"),
        ({"query": '{"colour": "red"}'}, "query"),
        ({"labels": '{"a": 1}'}, "labels"),
    ],
)
async def test_a_wrong_query_is_named(platform: MemoryPlatform, params: dict[str, str], field: str) -> None:
    response = await platform.admin.get("/models", params=params)
    assert (response.status_code, response.json()["field"]) == (422, field)


@pytest.mark.parametrize(
    ("labels", "status"),
    [
        ({"dyff.io/access": "public"}, 200),
        ({"dyff.io/access": "everybody"}, 422),
        ({"dyff.io/owner": "me"}, 422),
        ({"x.dyff.io/owner": "me"}, 422),
        ({"usecases.dyff.io/5": "1"}, 200),
        ({"bad key": "1"}, 422),
        ({"k": "v" * 64}, 422),
        ({"a" * 318: "v"}, 422),
        ({"k": 1}, 422),
    ],
)
async def test_labels_keep_their_syntax_and_the_platform_its_own(
    platform: MemoryPlatform, labels: dict[str, str], status: int
) -> None:
    made = await platform.created("models", **model())
    response = await platform.admin.patch(f"/models/{made['id']}/labels", json={"labels": labels})
    assert response.status_code == status, response.text


async def test_documentation_keeps_its_limits(platform: MemoryPlatform) -> None:
    made = await platform.created("models", **model())
    path = f"/models/{made['id']}/documentation"
    response = await platform.admin.patch(path, json={"documentation": {"title": "t" * 141}})
    assert (response.status_code, response.json()["field"]) == (422, "documentation.title")
    response = await platform.admin.patch(path, json={"documentation": {"author": "me"}})
    assert (response.status_code, response.json()["field"]) == (422, "documentation.author")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/datasets/", 404),
        ("GET", f"/datasets/{UNKNOWN}", 404),
        ("PUT", f"/datasets/{UNKNOWN}/delete", 404),
        ("PUT", f"/datasets/{UNKNOWN}/terminate", 404),
        ("DELETE", "/datasets", 405),
        ("POST", "/descriptors", 501),
        ("GET", "/histories/scores", 501),
    ],
)
async def test_paths_that_lead_nowhere(platform: MemoryPlatform, method: str, path: str, status: int) -> None:
    response = await platform.admin.request(method, path)
    assert response.status_code == status
    assert "detail" in response.json()


@pytest.mark.parametrize("kind", ["Evaluation", "InferenceSession"])
async def test_a_security_context_takes_an_administrator(platform: MemoryPlatform, kind: str) -> None:
    data, served = await platform.created("datasets", **dataset()), await a_service(platform)
    fields: Json = {"account": "acme", "securityContext": {"trusted": False}}
    if kind == "Evaluation":
        fields |= {"dataset": data["id"], "inferenceSession": {"inferenceService": served["id"]}}
    else:
        fields |= {"inferenceService": served["id"]}
    path = f"/{PLURALS[kind]}"
    everything_of_one = await platform.holder(grant("*", ["*"], ["acme"]))
    response = await everything_of_one.post(path, json=fields)
    assert (response.status_code, response.json()["field"]) == (403, "securityContext")
    response = await platform.admin.post(path, json={**fields, "securityContext": {"trusted": 5}})
    assert response.status_code == 422
    made = (await platform.admin.post(path, json=fields)).json()
    assert made.get("inferencesession", made)["securityContext"] == {"trusted": False, "ignoreQuotas": []}


@pytest.mark.parametrize("kind", MAKE)
async def test_a_field_of_another_type_is_refused_in_every_request(
    platform: MemoryPlatform, kind: str
) -> None:
    below = {"PipelineRun": f"pipelines/{UNKNOWN}/runs", "Team": f"challenges/{UNKNOWN}/teams"}
    below["Submission"] = f"challenges/{UNKNOWN}/tasks/{UNKNOWN}/submissions"
    path = below.get(kind, PLURALS[kind])
    response = await platform.admin.post(f"/{path}", json={"account": {}, "nonsense": None})
    assert response.status_code == 422
    assert {"account", "nonsense"} <= {part.split(":")[0] for part in response.json()["detail"].split("; ")}
