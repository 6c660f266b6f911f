"""The access log: who has asked for what, with nothing that is secret."""

import json

import pytest

from steelyard.api.settings import ApiSettings
from tests.platform_api.memory_platform import dataset, grant, make_platform, model


async def test_every_answer_about_an_account_is_logged_and_no_secret_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="steelyard.access")
    async with make_platform(settings=ApiSettings(access_log=True)) as platform:
        made = await platform.created("models", **model())
        data = await platform.created("datasets", **dataset())
        reader = await platform.holder(grant("models", ["get"], ["acme"]))
        caplog.clear()
        for client, path in (
            (platform.admin, f"/models/{made['id']}"),
            (platform.admin, "/models?labels=%7B%22secret%22%3A%22word%22%7D"),
            (reader, f"/models/{made['id']}"),
            (reader, "/datasets"),
            (platform.client("not.a.token"), f"/models/{made['id']}"),
            (platform.admin, "/models/%00%ff"),
        ):
            await client.get(path)
        signed = (await platform.admin.get(f"/datasets/{data['id']}/upload/data.parquet")).json()
        await platform.admin.put(signed["url"], content=b"rows", headers=signed["headers"])
        await platform.admin.get("http://api/health")
        lines = [record.message for record in caplog.records if record.name == "steelyard.access"]
    entries = [json.loads(line) for line in lines[:5]]
    assert [(entry["route"], entry["entity"], entry["status"]) for entry in entries] == [
        ("/v0/models/{id}", made["id"], 200),
        ("/v0/models", None, 200),
        ("/v0/models/{id}", made["id"], 200),
        ("/v0/datasets", None, 403),
        ("/v0/models/{id}", made["id"], 401),
    ]
    subjects = [entry["subject"] for entry in entries]
    assert subjects[0] == subjects[1] != subjects[2] == subjects[3]
    assert subjects[4] is None
    assert all(entry["token"] for entry in entries[:4])
    assert len(lines) == 8, "a wrong id and both requests of the upload are there, the public route is not"
    text = "".join(lines)
    assert "word" not in text
    assert "not.a.token" not in text
    assert platform.admin.headers["authorization"].removeprefix("Bearer ") not in text
    assert signed["url"].partition("?")[2] not in text


async def test_every_way_to_read_names_who_read_what(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="steelyard.access")
    async with make_platform(settings=ApiSettings(access_log=True)) as platform:
        data = await platform.created("datasets", **dataset())
        image = await platform.created("artifacts")
        id, artifact = data["id"], image["id"]
        upload = (await platform.admin.get(f"/datasets/{id}/upload/data.parquet")).json()
        await platform.admin.put(upload["url"], content=b"rows", headers=upload["headers"])
        assert (await platform.admin.post(f"/datasets/{id}/finalize")).status_code == 200
        (link,) = (await platform.admin.get(f"/datasets/{id}/downlinks")).json()
        caplog.clear()
        stranger = platform.client(None)
        for client, method, path in (
            (platform.admin, "GET", f"/datasets/{id}"),
            (platform.admin, "GET", f"/datasets?id={id}"),
            (platform.admin, "GET", f"/datasets/{id}/downlinks"),
            (stranger, "GET", link["signedURL"]["url"]),
            (stranger, "GET", link["signedURL"]["url"].replace("token=", "token=x")),
            (platform.admin, "GET", f"/evaluations/{id}/logs"),
            (platform.admin, "GET", f"http://api/v2/artifacts/{artifact}/manifests/latest"),
            (platform.admin, "HEAD", f"http://api/v2/artifacts/{artifact}/blobs/sha256:{'0' * 64}"),
        ):
            await client.request(method, path)
        lines = [json.loads(record.message) for record in caplog.records if record.name == "steelyard.access"]
    token = lines[0]["token"]
    assert token
    assert all(line["token"] == token for line in [*lines[:4], *lines[5:]])
    assert lines[4]["token"] is None, "nobody signed this URL"
    assert [(line["function"], line["entity"], line["parameters"], line["status"]) for line in lines] == [
        ("datasets/get", id, {}, 200),
        ("datasets/query", None, {}, 200),
        ("datasets/data", id, {}, 200),
        ("signed URL", f"datasets/{id}/data.parquet", {}, 200),
        ("signed URL", f"datasets/{id}/data.parquet", {}, 403),
        ("evaluations/data", id, {}, 404),
        ("artifacts/data", artifact, {"reference": "latest"}, 404),
        ("artifacts/data", artifact, {"digest": f"sha256:{'0' * 64}"}, 404),
    ]


async def test_nothing_is_logged_unless_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="steelyard.access")
    async with make_platform() as platform:
        await platform.created("models", **model())
    assert [record for record in caplog.records if record.name == "steelyard.access"] == []
