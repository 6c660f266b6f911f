"""Secrets over the API: set, listed, deleted, referred to; never answered."""

import logging
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_schema.secrets import MOST_SECRETS, VALUE_BYTES
from tests.platform_api.memory_platform import (
    MemoryPlatform,
    dataset,
    grant,
    make_engines,
    make_platform,
    model,
    service,
)
from tests.platform_api.test_collection import METHOD, OUTPUTS, a_service

VALUE = "hf_a-distinctive-value"
PATH = "/accounts/acme/secrets"


def hub_model(**fields: Any) -> Json:
    """A request for a model of the hub."""
    place = {"repoID": "org/gated", "revision": "main"}
    source = {"kind": "HuggingFaceHub", "huggingFaceHub": place}
    artifact = {"kind": "HuggingFaceCache", "huggingFaceCache": place}
    return {
        "account": "acme",
        "name": "gated",
        "artifact": artifact,
        "source": source,
        "resources": {},
        **fields,
    }


async def set_secret(platform: MemoryPlatform, name: str = "hub-token", value: str = VALUE) -> Json:
    response = await platform.admin.put(f"{PATH}/{name}", json={"value": value})
    assert response.status_code == 200, response.text
    made: Json = response.json()
    return made


async def test_a_secret_is_set_listed_and_deleted_and_never_answered(
    platform: MemoryPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        made = await set_secret(platform)
        assert set(made) == {"account", "name", "fingerprint", "created", "updated"}
        newer = await set_secret(platform, value="another value")
        assert newer["created"] == made["created"] < newer["updated"]
        assert newer["fingerprint"] != made["fingerprint"]
        await set_secret(platform, "a-password", "x")
        listed = await platform.admin.get(PATH)
        assert [secret["name"] for secret in listed.json()] == ["a-password", "hub-token"]
        gone = await platform.admin.delete(f"{PATH}/hub-token")
        assert (gone.status_code, gone.text) == (200, "null")
        again = await platform.admin.delete(f"{PATH}/hub-token")
        assert again.status_code == 404
        assert "acme has no secret hub-token" in again.json()["detail"]
        assert (await platform.admin.get("/accounts/other/secrets")).json() == []
    assert VALUE not in caplog.text
    assert VALUE not in listed.text


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "value"),
        ({"value": ""}, "1 to 32768 bytes"),
        ({"value": VALUE + "x" * VALUE_BYTES}, "1 to 32768 bytes"),
        ({"value": VALUE + "ä" * (VALUE_BYTES // 2)}, "1 to 32768 bytes"),
        ({"value": VALUE + "\0"}, "NUL"),
        ({"value": [VALUE]}, "value"),
        ({"value": "x", "value2": VALUE}, "value2"),
        ({"value": None, VALUE: 1}, "value"),
    ],
)
async def test_a_bad_value_is_refused_and_not_repeated(
    platform: MemoryPlatform, body: Json, fault: str
) -> None:
    response = await platform.admin.put(f"{PATH}/hub-token", json=body)
    assert response.status_code in (400, 422)
    assert fault in response.text
    if VALUE not in body:
        assert VALUE not in response.text
    assert (await platform.admin.get(PATH)).json() == []


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a.b", "x" * 64, "%00", "ä", "a%20b"])
async def test_a_bad_name_is_refused(platform: MemoryPlatform, name: str) -> None:
    for response in (
        await platform.admin.put(f"{PATH}/{name}", json={"value": VALUE}),
        await platform.admin.delete(f"{PATH}/{name}"),
    ):
        assert (response.status_code, response.json()["field"]) == (422, "name")


@pytest.mark.parametrize("account", ["x" * 64, "a b", "-a", "%00"])
async def test_a_name_that_no_entity_has_as_its_account_is_refused(
    platform: MemoryPlatform, account: str
) -> None:
    response = await platform.admin.put(f"/accounts/{account}/secrets/a", json={"value": VALUE})
    assert (response.status_code, response.json()["field"]) == (422, "id")


async def test_an_account_has_at_most_so_many(platform: MemoryPlatform) -> None:
    for n in range(MOST_SECRETS):
        await set_secret(platform, f"s{n}")
    response = await platform.admin.put(f"{PATH}/one-more", json={"value": VALUE})
    assert (response.status_code, response.json()["field"]) == (409, "name")
    await set_secret(platform, "s0", "new")


async def test_grants_of_the_account_are_needed(platform: MemoryPlatform) -> None:
    await set_secret(platform)
    reader = await platform.holder(grant("accounts", ["get"], ["acme"]))
    editor = await platform.holder(grant("accounts", ["edit"], ["acme"]))
    stranger = await platform.holder(grant("accounts", ["*"], ["other"]))
    assert (await reader.get(PATH)).status_code == 200
    assert (await reader.put(f"{PATH}/a", json={"value": VALUE})).status_code == 403
    assert (await reader.delete(f"{PATH}/hub-token")).status_code == 403
    assert (await editor.put(f"{PATH}/a", json={"value": VALUE})).status_code == 200
    assert (await editor.delete(f"{PATH}/a")).status_code == 200
    for response in (
        await stranger.get(PATH),
        await stranger.put(f"{PATH}/a", json={"value": VALUE}),
        await stranger.delete(f"{PATH}/hub-token"),
    ):
        assert response.status_code == 404
    assert [secret["name"] for secret in (await platform.admin.get(PATH)).json()] == ["hub-token"]


async def test_a_deleted_account_takes_no_more_secrets(platform: MemoryPlatform) -> None:
    made = (await platform.admin.post("/accounts", json={"name": "acme"})).json()
    await set_secret(platform)
    await platform.admin.put(f"/accounts/{made['id']}/delete")
    assert (await platform.admin.get(PATH)).json() == []
    response = await platform.admin.put(f"{PATH}/a", json={"value": VALUE})
    assert response.status_code == 409


async def test_without_keys_none_is_stored() -> None:
    engines = await make_engines()
    engines.secret_keys = None
    async with make_platform(engines) as platform:
        response = await platform.admin.put(f"{PATH}/a", json={"value": VALUE})
        assert response.status_code == 501
        assert "secret_keys" in response.json()["detail"]
        assert (await platform.admin.get(PATH)).json() == []
    await engines.accounts_database.close()


# ---- references


def notes(entity: Json) -> dict[str, str]:
    """The annotations that name secrets."""
    return {
        note["key"]: note["value"]
        for note in entity.get("annotations", [])
        if note["key"].startswith("steelyard/secret-")
    }


async def test_a_model_names_its_secret_in_an_annotation(platform: MemoryPlatform) -> None:
    await set_secret(platform)
    response = await platform.admin.post("/models", json=hub_model(secrets={"source": "hub-token"}))
    assert response.status_code == 200, response.text
    made = response.json()
    assert notes(made) == {"steelyard/secret-source": "hub-token"}
    assert "secrets" not in made
    assert notes(await platform.settled("Model", made["id"])) == notes(made)


async def test_a_secret_that_is_not_there_is_named_by_its_field(platform: MemoryPlatform) -> None:
    await platform.admin.put("/accounts/other/secrets/hub-token", json={"value": VALUE})
    response = await platform.admin.post("/models", json=hub_model(secrets={"source": "hub-token"}))
    assert (response.status_code, response.json()["field"]) == (422, "secrets.source")
    assert "account acme has no secret hub-token" in response.json()["detail"]


async def test_a_repeated_create_gets_its_entity_though_the_secret_was_deleted(
    platform: MemoryPlatform,
) -> None:
    await platform.admin.put(f"{PATH}/hub-token", json={"value": VALUE})
    body, key = hub_model(secrets={"source": "hub-token"}), {"Idempotency-Key": "once"}
    first = await platform.admin.post("/models", json=body, headers=key)
    assert first.status_code == 200
    await platform.admin.delete(f"{PATH}/hub-token")
    # The first answer was lost on its way.
    repeated = await platform.admin.post("/models", json=body, headers=key)
    assert (repeated.status_code, repeated.json()["id"]) == (200, first.json()["id"])
    # The key is this request's alone, and a new request is checked.
    other = await platform.admin.post("/models", json={**body, "name": "other"}, headers=key)
    assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")
    new = await platform.admin.post("/models", json=body, headers={"Idempotency-Key": "another"})
    assert (new.status_code, new.json()["field"]) == (422, "secrets.source")


@pytest.mark.parametrize(
    ("secrets", "field"),
    [({"provider": "a"}, "secrets.provider"), ({"source": "A B"}, "secrets.source"), ("a", "secrets")],
)
async def test_a_reference_that_a_model_cannot_have_is_refused(
    platform: MemoryPlatform, secrets: object, field: str
) -> None:
    response = await platform.admin.post("/models", json=hub_model(secrets=secrets))
    assert (response.status_code, response.json()["field"]) == (422, field)


@pytest.mark.parametrize(
    "source", [{"kind": "GitLFS", "gitLFS": {"url": "https://example.org/r.git"}}, {"kind": "Mock"}]
)
async def test_a_source_that_takes_no_token_is_given_none(platform: MemoryPlatform, source: Json) -> None:
    """The address of a git repository is the user's: a token would go wherever it points."""
    await set_secret(platform)
    artifact = {"kind": "Volume", "volume": {"files": []}}
    request = hub_model(secrets={"source": "hub-token"}, source=source, artifact=artifact)
    response = await platform.admin.post("/models", json=request)
    assert (response.status_code, response.json()["field"]) == (422, "secrets.source")


async def test_only_who_may_use_the_accounts_secrets_may_name_one(platform: MemoryPlatform) -> None:
    """Creating an entity decides where its secret is sent, so it takes a right of its own."""
    await set_secret(platform)
    maker = await platform.holder(grant("models", ["create"], ["acme"]))
    response = await maker.post("/models", json=hub_model(secrets={"source": "hub-token"}))
    assert (response.status_code, response.json()["field"]) == (403, "secrets")
    assert (await maker.post("/models", json=hub_model())).status_code == 200
    user = await platform.holder(
        grant("models", ["create"], ["acme"]), grant("accounts", ["consume"], ["acme"])
    )
    response = await user.post("/models", json=hub_model(secrets={"source": "hub-token"}))
    assert response.status_code == 200


async def test_sessions_and_evaluations_take_over_the_names_of_their_service(
    platform: MemoryPlatform,
) -> None:
    await set_secret(platform, "registry")
    made = await platform.created("inferenceservices", **service(), secrets={"imagePull": "registry"})
    expected = {"steelyard/secret-imagePull": "registry"}
    assert notes(made) == expected
    session = await platform.created("inferencesessions", inferenceService=made["id"])
    assert notes(session["inferencesession"]) == expected
    data = await platform.created("datasets", **dataset())
    own = {"inferenceService": made["id"]}
    evaluation = await platform.created("evaluations", dataset=data["id"], inferenceSession=own)
    assert notes(evaluation) == expected
    reference = session["inferencesession"]["id"]
    referring = await platform.created("evaluations", dataset=data["id"], inferenceSessionReference=reference)
    assert notes(referring) == {}


IMAGE = {"host": "registry.example.com", "name": "a/b", "digest": "sha256:" + "1" * 64}


async def test_measurements_and_safety_cases_take_over_the_name_of_their_method(
    platform: MemoryPlatform,
) -> None:
    await set_secret(platform, "registry")
    served = await a_service(platform)
    for kind, plural, output in (
        ("SafetyCase", "safetycases", "safetyCase"),
        ("Measurement", "measurements", "measurement"),
    ):
        method = await platform.created(
            "methods",
            **{**METHOD, "inputs": []},
            output={"kind": kind, output: OUTPUTS[kind]},
            analysisImage=IMAGE,
            secrets={"imagePull": "registry"},
        )
        assert notes(method) == {"steelyard/secret-imagePull": "registry"}
        made = await platform.created(plural, method=method["id"], scope={"inferenceService": served["id"]})
        assert notes(made) == notes(method)


@pytest.mark.parametrize(
    ("image", "secrets", "field"),
    [
        (IMAGE, {"imagePull": "nothing"}, "secrets.imagePull"),
        (IMAGE, {"source": "registry"}, "secrets.source"),
        (None, {"imagePull": "registry"}, "secrets.imagePull"),
    ],
    ids=["that is not there", "of a source", "without an image"],
)
async def test_a_method_names_no_secret_of_no_use(
    platform: MemoryPlatform, image: Json | None, secrets: Json, field: str
) -> None:
    await set_secret(platform, "registry")
    output = {"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]}
    body = {"account": "acme", **METHOD, "output": output, "analysisImage": image, "secrets": secrets}
    response = await platform.admin.post("/methods", json=body)
    assert (response.status_code, response.json()["field"]) == (422, field)


async def test_a_user_cannot_set_the_annotations_otherwise(platform: MemoryPlatform) -> None:
    note = {"key": "steelyard/secret-source", "value": "hub-token"}
    for body in (hub_model(annotations=[note]), {**model(), "annotations": [note]}):
        response = await platform.admin.post("/models", json={"account": "acme", **body})
        assert (response.status_code, response.json()["field"]) == (422, "annotations")
