"""Public entities: what other accounts see of them, and until when."""

from collections.abc import Mapping

import httpx
import orjson

from steelyard.cli.connection import PUBLISHED as COLLECTIONS
from steelyard_common.types import Json
from steelyard_schema.entities import PLURALS
from steelyard_schema.names import place
from steelyard_schema.publication import PUBLISHED
from tests.platform_api.memory_platform import MemoryPlatform, grant, model, service
from tests.platform_api.test_collection import a_session, an_analysis

FILES = ("index.html", "data.parquet")


async def a_case(platform: MemoryPlatform) -> Json:
    """A safety case that has ended well, with a page, another file, a score and a log."""
    case = await an_analysis(platform, "SafetyCase")
    await platform.says("SafetyCase", case["id"], "Admitted", "orchestrator")
    await platform.says("SafetyCase", case["id"], "Complete")
    folder = place("SafetyCase", case["id"])
    score = {"name": "accuracy", "quantity": 0.5}
    for name, content in (
        *((name, b"content") for name in FILES),
        (".dyff/scores.json", orjson.dumps({"scores": [score]})),
        (".dyff/logs.txt", b"a line"),
    ):
        await platform.engines.store.put(f"{folder}/{name}", content)
    return case


async def a_stranger(platform: MemoryPlatform) -> httpx.AsyncClient:
    return await platform.holder(grant("*", ["*"], ["other"]), account="other")


async def publish(platform: MemoryPlatform, plural: str, id: str, access: str | None) -> None:
    body = {"labels": {"dyff.io/access": access}}
    response = await platform.admin.patch(f"/{plural}/{id}/labels", json=body)
    assert response.status_code == 200, response.text


async def statuses(client: httpx.AsyncClient, id: str) -> Mapping[str, int]:
    """Return the status of each reading route of a safety case."""
    parts = ("documentation", "scores", "curves", "downlinks", "logs", "logs/workflow", "progress")
    paths = {"": f"/safetycases/{id}", **{part: f"/safetycases/{id}/{part}" for part in parts}}
    return {part: (await client.get(path)).status_code for part, path in paths.items()}


SHOWN = {"": 200, "documentation": 200, "scores": 200, "curves": 200, "downlinks": 200}
HIDDEN = {"logs": 404, "logs/workflow": 404, "progress": 404}
NOTHING = dict.fromkeys({**SHOWN, **HIDDEN}, 404)


async def test_other_accounts_see_a_public_case_until_it_is_private_or_deleted(
    platform: MemoryPlatform,
) -> None:
    case, stranger = await a_case(platform), await a_stranger(platform)
    id = case["id"]
    for access, seen in ((None, NOTHING), ("public", {**SHOWN, **HIDDEN}), ("internal", NOTHING)):
        await publish(platform, "safetycases", id, access)
        assert await statuses(stranger, id) == seen, access
    await publish(platform, "safetycases", id, "public")
    assert (await platform.admin.put(f"/safetycases/{id}/delete")).status_code == 200
    assert await statuses(stranger, id) == NOTHING


async def test_other_accounts_download_the_page_alone(platform: MemoryPlatform) -> None:
    case, stranger = await a_case(platform), await a_stranger(platform)
    await publish(platform, "safetycases", case["id"], "public")
    path = f"/safetycases/{case['id']}/downlinks"
    own, others = [(await client.get(path)).json() for client in (platform.admin, stranger)]
    assert {link["artifact"]["path"] for link in own} == set(FILES)
    assert [link["artifact"]["path"] for link in others] == ["index.html"]
    assert (await stranger.get(others[0]["signedURL"]["url"])).content == b"content"


async def test_a_public_entity_is_in_no_listing_of_others_and_nobody_elses_to_use(
    platform: MemoryPlatform,
) -> None:
    made, stranger = await platform.created("models", **model()), await a_stranger(platform)
    await publish(platform, "models", made["id"], "public")
    assert (await stranger.get("/models", params={"id": made["id"]})).json() == []
    assert (await stranger.get(f"/models/{made['id']}")).json()["name"] == made["name"]
    labels = {"labels": {"dyff.io/access": None}}
    assert (await stranger.patch(f"/models/{made['id']}/labels", json=labels)).status_code in {403, 404}
    assert (await stranger.put(f"/models/{made['id']}/delete")).status_code in {403, 404}
    body = {"account": "other", **service(made["id"])}
    refused = await stranger.post("/inferenceservices", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "model")


async def test_a_mark_shows_no_session_to_others(platform: MemoryPlatform) -> None:
    session, stranger = await a_session(platform), await a_stranger(platform)
    await publish(platform, "inferencesessions", session["id"], "public")
    assert (await stranger.get(f"/inferencesessions/{session['id']}")).status_code == 404


async def test_a_token_is_needed(platform: MemoryPlatform) -> None:
    case = await a_case(platform)
    await publish(platform, "safetycases", case["id"], "public")
    assert set((await statuses(platform.client(None), case["id"])).values()) == {401}


def test_the_command_takes_the_kinds_of_the_api() -> None:
    assert {PLURALS[kind] for kind in PUBLISHED} == COLLECTIONS
