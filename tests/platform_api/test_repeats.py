"""Equal requests without an idempotency key: entities of their own, unless one is known to repeat another.

A request is a repeat where an equal one was accepted within the last minute and never answered: its connection broke
before, its process died, or the answer was an error.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message

from steelyard.api.http.app import Platform
from steelyard.api.settings import ApiSettings
from steelyard.broker import log as broker
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, Log, Record
from steelyard.views.in_memory import MemoryView
from steelyard.views.view import StoredEntity
from steelyard_common.types import Json
from steelyard_schema.ids import random_id
from tests.platform_api.memory_platform import (
    Engines,
    MemoryPlatform,
    dataset,
    grant,
    make_engines,
    make_platform,
    model,
    service,
)
from tests.platform_api.test_audits import audit, procedure
from tests.platform_api.test_collection import a_service
from tests.platform_api.test_served import served, serving

BODY = {"account": "acme", **model()}


async def post(client: httpx.AsyncClient, **fields: object) -> Json:
    answer = await client.post("/models", json={**BODY, **fields})
    assert answer.status_code == 200, answer.text
    entity: Json = answer.json()
    return entity


async def models_in(log: Log) -> set[str]:
    """Ids of all the entities that commands have made."""
    records = [
        record for partition in range(log.partitions) for record in await log.read(EVENTS, partition, 0)
    ]
    return {record.key for record in records}


async def test_a_hundred_equal_creates_at_once_are_a_hundred_entities(platform: MemoryPlatform) -> None:
    entities = await asyncio.gather(*(post(platform.admin) for _ in range(100)))
    ids = {entity["id"] for entity in entities}
    assert len(ids) == 100
    for id in ids:
        assert (await platform.admin.get(f"/models/{id}")).json()["id"] == id
    assert await models_in(platform.engines.log) == ids


async def test_equal_audits_one_after_another_are_two(platform: MemoryPlatform) -> None:
    data, served_model = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    made = await procedure(platform, (data, "one"))
    first, second = await audit(platform, made, served_model), await audit(platform, made, served_model)
    assert (first["kind"], second["kind"]) == ("Audit", "Audit")
    assert first["id"] != second["id"]


class HeldLog(MemoryLog):
    """Writes, but does not return from it until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_return = asyncio.Event()
        self.arrived = asyncio.Event()

    async def publish(self, messages: Sequence[broker.Message]) -> Sequence[Record]:
        records = await super().publish(messages)
        self.arrived.set()
        await self.may_return.wait()
        return records


@asynccontextmanager
async def listening(log: MemoryLog) -> AsyncIterator[tuple[str, str, Engines]]:
    """The API's address, a token, and its engines, without any service."""
    engines = replace(await make_engines(), log=log)
    async with make_platform(engines, services=False) as memory:
        client = await memory.holder(grant("models", ["*"], ["acme"]), grant("accounts", ["*"], ["acme"]))
        token = client.headers["authorization"]
    platform = Platform(
        engines.log,
        engines.view,
        engines.accounts_database,
        engines.store,
        ApiSettings(),
        b"secret",
        engines.clock,
        random_id,
        secret_keys=engines.secret_keys,
    )
    async with serving(platform) as url:
        yield url, token, engines
    await engines.accounts_database.close()


async def send(
    url: str, token: str, content: Json = BODY
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Asks for a model, and does not wait for the answer."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    body = httpx.Request("POST", url, json=content).content  # byte by byte as the repeat
    head = f"POST /v0/models HTTP/1.1\r\nHost: api\r\nAuthorization: {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


async def close(writer: asyncio.StreamWriter, *, abort: bool = False) -> None:
    if abort:
        writer.transport.abort()
    else:
        writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def deliveries(engines: Engines, wanted: list[str]) -> None:
    """Waits until the outbox's rows are such. No task is woken when they change."""
    async with asyncio.timeout(60):
        while sorted(row.delivery for row in await engines.accounts_database.outbox.pending()) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("abort", [False, True], ids=["closed", "reset"])
async def test_a_repeat_of_what_broke_off_is_the_same_entity(abort: bool) -> None:
    """The repeat comes while the first request is still at work, as after a time-out of a client or a proxy's 504."""
    log = HeldLog()
    async with listening(log) as (url, token, engines):
        _, writer = await send(url, token)
        await log.arrived.wait()
        await close(writer, abort=abort)
        await deliveries(engines, ["lost"])
        log.may_return.set()
        async with httpx.AsyncClient(base_url=f"{url}/v0", headers={"Authorization": token}) as client:
            repeated, another = await asyncio.gather(post(client), post(client))
        assert repeated["id"] != another["id"]
        assert await models_in(log) == {repeated["id"], another["id"]}


async def test_each_repeat_finds_an_entity_of_its_own() -> None:
    log = HeldLog()
    async with listening(log) as (url, token, engines):
        connections = [await send(url, token) for _ in range(3)]
        await deliveries(engines, ["open"] * 3)
        for _, writer in connections[:2]:
            await close(writer)
        await deliveries(engines, ["lost", "lost", "open"])
        log.may_return.set()
        async with httpx.AsyncClient(base_url=f"{url}/v0", headers={"Authorization": token}) as client:
            repeats = await asyncio.gather(post(client), post(client))
            line = await connections[2][0].readline()
            assert b"200" in line
            await close(connections[2][1])
            assert len(await models_in(log)) == 3
            assert {entity["id"] for entity in repeats} < await models_in(log)
            await deliveries(engines, ["answered"] * 3)
            await post(client)
        assert len(await models_in(log)) == 4


async def test_a_repeat_finds_its_entity_also_after_the_secret_that_it_names_was_deleted() -> None:
    log = HeldLog()
    hub = {"kind": "HuggingFaceHub", "huggingFaceHub": {"repoID": "org/gated", "revision": "main"}}
    fields: Json = {"source": hub, "secrets": {"source": "hub-token"}}
    async with listening(log) as (url, token, engines):
        secret = f"{url}/v0/accounts/acme/secrets/hub-token"
        async with httpx.AsyncClient(base_url=f"{url}/v0", headers={"Authorization": token}) as client:
            assert (await client.put(secret, json={"value": "hf_0123456789"})).is_success
            _, writer = await send(url, token, {**BODY, **fields})
            await log.arrived.wait()
            await close(writer)
            await deliveries(engines, ["lost"])
            log.may_return.set()
            assert (await client.delete(secret)).is_success
            repeated = await post(client, **fields)
            assert await models_in(log) == {repeated["id"]}
            # What was answered is not repeated: this one is refused, as every other that names no secret.
            refused = await client.post("/models", json={**BODY, **fields})
            assert (refused.status_code, refused.json()["field"]) == (422, "secrets.source")


async def test_what_was_answered_is_not_repeated() -> None:
    """The client closes its connection after it has read the answer: nothing broke."""
    log = HeldLog()
    log.may_return.set()
    async with listening(log) as (url, token, engines):
        for number in range(1, 4):
            reader, writer = await send(url, token)
            assert b"200" in await reader.readline()
            await close(writer)
            await deliveries(engines, ["answered"] * number)
        assert len(await models_in(log)) == 3


class Slow(MemoryView):
    """Holds a read of an entity until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.may_return = asyncio.Event(), asyncio.Event()

    async def get(self, kind: str, id: str) -> StoredEntity | None:
        self.reached.set()
        await self.may_return.wait()
        return await super().get(kind, id)


async def test_who_has_gone_before_it_was_accepted_leaves_nothing() -> None:
    """A repeat may already be there: a request whose client has gone must not make a second entity."""
    view = Slow()
    engines = replace(await make_engines(), view=view)
    async with make_platform(engines, services=False) as platform:
        body = [json.dumps({"account": "acme", **service((await post(platform.admin))["id"])}).encode()]

        async def receive() -> Message:
            if body:
                return {"type": "http.request", "body": body.pop(), "more_body": False}
            await view.reached.wait()
            asyncio.get_running_loop().call_soon(view.may_return.set)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            raise AssertionError(f"{message} was sent, and nobody is there")

        headers = [(b"authorization", platform.admin.headers["authorization"].encode())]
        scope = {"type": "http", "method": "POST", "path": "/v0/inferenceservices", "headers": headers}
        await platform.app({**scope, "query_string": b""}, receive, send)
        assert len(await models_in(engines.log)) == 1
    await engines.accounts_database.close()


SERVER = """
import asyncio, sys
from collections.abc import Sequence
from pathlib import Path
from steelyard.accounts.open import open_accounts_database
from steelyard.api.http.app import Platform, make_app
from steelyard.api.http.serve import serve
from steelyard.api.settings import ApiSettings
from steelyard.broker.open import open_log
from steelyard_schema.ids import random_id
from steelyard_evaluation.storage.store import open_store
from steelyard.views.open import open_view
from tests.platform_api.test_served import now

async def main(state):
    accounts_database = await open_accounts_database(f"sqlite:{state}/accounts.db")
    log, view = await open_log(f"sqlite:{state}/log.db"), await open_view(f"sqlite:{state}/view.db")
    publish = log.publish
    async def held(messages):
        await publish(messages)
        print("written", flush=True)
        await asyncio.Event().wait()
    log.publish = held
    store = open_store(f"file://{state}/storage")
    platform = Platform(log, view, accounts_database, store, ApiSettings(), b"secret", now, random_id)
    await serve(make_app(platform), "127.0.0.1", 0, stop=asyncio.Event(), ready=lambda url: print(url, flush=True))

asyncio.run(main(sys.argv[1]))
"""


async def test_a_repeat_of_what_a_killed_process_has_accepted_is_the_same_entity(tmp_path: Path) -> None:
    async with served(tmp_path) as api, httpx.AsyncClient(base_url=api.url, headers=api.headers) as client:
        owner = (await client.post("/accounts", json={"name": "owner"})).json()
        grants = [{"resources": ["models"], "functions": ["*"], "accounts": ["acme"]}]
        await client.put(f"/accounts/{owner['id']}/permissions", json={"permissions": grants})
        body = {"grants": grants, "expires": "2100-01-01T00:00:00Z"}
        token = (await client.post(f"/accounts/{owner['id']}/tokens", json=body)).json()
    headers = {"Authorization": f"Bearer {token}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    async with httpx.AsyncClient(base_url=f"{url}/v0", headers=headers) as client:
        asking = asyncio.create_task(client.post("/models", json=BODY))
        assert (await process.stdout.readline()).decode().strip() == "written"
        process.send_signal(signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            await asking
    await process.wait()
    async with served(tmp_path) as api, httpx.AsyncClient(base_url=api.url, headers=headers) as client:
        accepted = await models_in(api.engines.log)
        repeated = await post(client)
        assert accepted == {repeated["id"]}
        assert (await post(client))["id"] != repeated["id"]
