"""Webhooks as an account registers them, and the sender along with the API."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from steelyard.accounts.webhooks.settings import WebhookSettings
from steelyard.client import AsyncClient, Client, Invalid, NotFound
from steelyard.services.simulation.receiver import receiver
from steelyard.services.webhooks.sender import Sending, run_webhooks
from steelyard_common.types import Json
from tests.platform_api.memory_platform import HOOKS, MemoryPlatform, grant, make_platform, model
from tests.platform_api.test_client import ENDPOINT, ThreadedClient

URL = "https://hooks.example.org/steelyard?token=hidden"


@pytest.fixture
async def platform() -> AsyncIterator[MemoryPlatform]:
    async with make_platform() as made:
        yield made


@asynccontextmanager
async def sending(platform: MemoryPlatform) -> AsyncIterator[None]:
    stop, database = asyncio.Event(), platform.engines.accounts_database
    parts = Sending(
        database.webhooks,
        database.accounts,
        HOOKS.policy("webhooks"),
        WebhookSettings(longest_pause_seconds=0.01),
        platform.engines.clock,
    )
    task = asyncio.create_task(run_webhooks(platform.engines.log, parts, "urn:steelyard:test", stop=stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def account(platform: MemoryPlatform, *readable: str) -> Json:
    """An account that may read what accounts own."""
    made: Json = (await platform.admin.post("/accounts", json={"name": f"of-{'-'.join(readable)}"})).json()
    grants = [grant("*", ["get"], list(readable)).dump()]
    path = f"/accounts/{made['id']}/permissions"
    assert (await platform.admin.put(path, json={"permissions": grants})).status_code == 200
    return made


async def registered(platform: MemoryPlatform, url: str = URL, **fields: Any) -> tuple[str, Json]:
    """The path of a new webhook, and the answer."""
    path = f"/accounts/{(await account(platform, 'acme'))['id']}/webhooks"
    response = await platform.admin.post(path, json={"url": url, **fields})
    assert response.status_code == 200, response.text
    made: Json = response.json()
    return f"{path}/{made['webhook']['id']}", made


async def until(platform: MemoryPlatform, path: str, holds: Callable[[Json], bool]) -> Json:
    async with asyncio.timeout(60):
        webhook: Json = (await platform.admin.get(path)).json()
        while not holds(webhook):
            await asyncio.sleep(0.01)
            webhook = (await platform.admin.get(path)).json()
    return webhook


async def test_an_end_is_reported_to_those_who_may_see_it(platform: MemoryPlatform) -> None:
    async with receiver() as mine, receiver() as others, sending(platform):
        path, made = await registered(platform, mine.url)
        stranger = await account(platform, "other")
        await platform.admin.post(f"/accounts/{stranger['id']}/webhooks", json={"url": others.url})
        created = await platform.created("models", **model())
        await platform.says("Model", created["id"], "Admitted", "orchestrator")
        await platform.says("Model", created["id"], "Ready", reason="Ready")
        await mine.until(1)
        webhook = await until(platform, path, lambda webhook: webhook["delivered"] == 1)
    (delivery,) = mine.deliveries
    # The platform lives in 2030, and `verify` takes only what was signed within five minutes.
    signed = datetime.fromtimestamp(int(delivery.headers["webhook-timestamp"]), UTC)
    signature = Webhook(made["secret"]).sign(delivery.headers["webhook-id"], signed, delivery.body.decode())
    assert delivery.headers["webhook-signature"] == signature
    assert delivery.event.get_type() == "steelyard.model.ready"
    assert delivery.event.get_subject() == f"models/{created['id']}"
    assert others.deliveries == []
    assert (webhook["status"], webhook["waiting"], webhook["url"]) == ("Active", 0, mine.url)


async def test_kinds_and_statuses_choose(platform: MemoryPlatform) -> None:
    async with receiver() as target, sending(platform):
        path, _ = await registered(platform, target.url, kinds=["Dataset", "Model"], statuses=["Deleted"])
        created = await platform.created("models", **model())
        await platform.says("Model", created["id"], "Admitted", "orchestrator")
        await platform.says("Model", created["id"], "Ready", reason="Ready")
        await platform.admin.put(f"/models/{created['id']}/delete")
        await target.until(1)
        await until(platform, path, lambda webhook: webhook["delivered"] == 1)
    assert [delivery.event.get_type() for delivery in target.deliveries] == ["steelyard.model.deleted"]


async def test_a_test_event_is_sent_at_once(platform: MemoryPlatform) -> None:
    async with receiver() as target, sending(platform):
        path, made = await registered(platform, target.url)
        id = (await platform.admin.post(f"{path}/test")).json()
        await target.until(1)
    event = target.deliveries[0].event
    assert (event.get_id(), event.get_type()) == (id, "steelyard.webhook.test")
    data = event.get_data()
    assert isinstance(data, dict)
    assert data["webhook"] == made["webhook"]["id"]


async def test_no_test_event_goes_to_a_suspended_account(platform: MemoryPlatform) -> None:
    path, made = await registered(platform)
    owner = f"/accounts/{made['webhook']['account']}"
    await platform.admin.put(f"{owner}/suspend")
    refused = await platform.admin.post(f"{path}/test")
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert "is Suspended" in refused.json()["detail"]
    await platform.admin.put(f"{owner}/reactivate")
    assert (await platform.admin.post(f"{path}/test")).status_code == 200


async def test_a_secret_is_answered_once(platform: MemoryPlatform, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    path, made = await registered(platform)
    rotated = (await platform.admin.post(f"{path}/secret")).json()
    secrets = {made["secret"], rotated["secret"]}
    assert len(secrets) == 2
    assert all(secret.startswith("whsec_") for secret in secrets)
    listed = path.rpartition("/")[0]
    owner = listed.rpartition("/")[0]
    answers = [(await platform.admin.get(place)).text for place in (path, listed, owner, "/accounts")]
    dump = str(await platform.engines.accounts_database.transfer.dump())
    for secret in secrets:
        assert secret.removeprefix("whsec_") not in " ".join([*answers, dump, caplog.text])
    assert "hidden" not in caplog.text


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"url": "https://elsewhere.example/"}, "url", "allowed are hooks.example.org"),
        ({"url": "http://hooks.example.org/"}, "url", "egress.webhooks has no pattern for http://hooks"),
        ({"url": "https://10.0.0.1/"}, "url", "egress.webhooks has no pattern"),
        ({"url": "ftp://hooks.example.org/"}, "url", "should be an http or https URL"),
        ({"url": "https://user:hidden@hooks.example.org/"}, "url", "should have no user or password"),
        ({}, "url", "is missing"),
        ({"url": URL, "kinds": ["Modell"]}, "kinds", "'Modell' should be one of"),
        ({"url": URL, "statuses": ["Created"]}, "statuses", "'Created' should be one of"),
    ],
)
async def test_what_is_wrong_is_named(platform: MemoryPlatform, body: Json, field: str, said: str) -> None:
    owner = await account(platform, "acme")
    response = await platform.admin.post(f"/accounts/{owner['id']}/webhooks", json=body)
    assert (response.status_code, response.json()["field"]) == (422, field)
    assert said in response.json()["detail"]
    assert "hidden" not in response.text


async def test_an_account_has_a_bounded_number(platform: MemoryPlatform) -> None:
    path = f"/accounts/{(await account(platform, 'acme'))['id']}/webhooks"
    for _ in range(20):
        assert (await platform.admin.post(path, json={"url": URL})).status_code == 200
    response = await platform.admin.post(path, json={"url": URL})
    assert (response.status_code, response.json()["reason"]) == (409, "Conflict")
    assert len((await platform.admin.get(path)).json()) == 20


async def test_a_deleted_account_gets_none(platform: MemoryPlatform) -> None:
    owner = await account(platform, "acme")
    await platform.admin.put(f"/accounts/{owner['id']}/delete")
    response = await platform.admin.post(f"/accounts/{owner['id']}/webhooks", json={"url": URL})
    assert response.status_code == 409


async def test_a_token_registers_no_more_than_it_may_see(platform: MemoryPlatform) -> None:
    """A token that may edit an account, and read nothing of what it owns, is sent nothing of it either."""
    owner = await account(platform, "acme")
    editor = await platform.holder(grant("accounts", ["get", "edit"], [owner["id"]]))
    async with receiver() as target, sending(platform):
        blind = (await editor.post(f"/accounts/{owner['id']}/webhooks", json={"url": target.url})).json()
        path = f"/accounts/{owner['id']}/webhooks/{blind['webhook']['id']}"
        created = await platform.created("models", **model())
        await platform.says("Model", created["id"], "Admitted", "orchestrator")
        await platform.says("Model", created["id"], "Ready", reason="Ready")
        await platform.admin.post(f"{path}/test")
        await target.until(1)
        await until(platform, path, lambda webhook: webhook["delivered"] == 1)
    assert [delivery.event.get_type() for delivery in target.deliveries] == ["steelyard.webhook.test"]


async def test_our_client_has_all_of_it(platform: MemoryPlatform) -> None:
    owner, ask = (await account(platform, "acme"))["id"], ThreadedClient(platform)

    def call(client: Client) -> None:
        made = client.webhooks.create(owner, URL, kinds=["Model"], statuses=["Ready", "Error"])
        id = made.webhook.id
        assert made.secret.startswith("whsec_")
        assert made.secret not in repr(made)
        assert client.webhooks.list(owner) == [client.webhooks.get(owner, id)] == [made.webhook]
        assert client.webhooks.test(owner, id)
        assert client.webhooks.get(owner, id).waiting == 1
        assert client.webhooks.enable(owner, id).status == "Active"
        assert client.webhooks.rotate_secret(owner, id).secret != made.secret
        client.webhooks.delete(owner, id)
        for missing in (
            client.webhooks.get,
            client.webhooks.test,
            client.webhooks.enable,
            client.webhooks.delete,
        ):
            with pytest.raises(NotFound, match="has no webhook"):
                missing(owner, id)
        with pytest.raises(Invalid, match=r"egress\.webhooks"):
            client.webhooks.create(owner, "https://elsewhere.example/")

    await ask(call)
    ask.client.close()


async def test_our_async_client_has_all_of_it(platform: MemoryPlatform) -> None:
    owner = (await account(platform, "acme"))["id"]
    token = platform.admin.headers["authorization"].removeprefix("Bearer ")
    http = httpx.AsyncClient(transport=httpx.ASGITransport(platform.app))
    async with AsyncClient(ENDPOINT, token, http=http) as client:
        made = await client.webhooks.create(owner, URL)
        id = made.webhook.id
        assert await client.webhooks.list(owner) == [await client.webhooks.get(owner, id)]
        assert await client.webhooks.test(owner, id)
        assert (await client.webhooks.enable(owner, id)).waiting == 1
        assert (await client.webhooks.rotate_secret(owner, id)).secret != made.secret
        await client.webhooks.delete(owner, id)
        assert await client.webhooks.list(owner) == []
