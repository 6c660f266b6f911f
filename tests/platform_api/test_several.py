"""Several API servers on the same engines: what one accepts all show, and whose rows are left another one sends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import httpx
import pytest

from steelyard.accounts.database import LeaseEnded
from steelyard.api.http.app import App, Platform, make_app
from steelyard.api.settings import ApiSettings
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, LogError, Message
from steelyard_schema.ids import random_id
from tests.platform_api.memory_platform import (
    Engines,
    client_of,
    grant,
    make_engines,
    make_platform,
    model,
    running_services,
)
from tests.platform_api.test_commands import Failing, creates, until
from tests.platform_api.test_repeats import HeldLog, close, deliveries, models_in, post, send
from tests.platform_api.test_served import serving

LEASE = 0.6
KEY = {"Idempotency-Key": "once"}


@dataclass
class Servers:
    engines: Engines
    apps: list[App]
    clients: list[httpx.AsyncClient]


def platform_of(engines: Engines, log: MemoryLog | None = None, lease: float = LEASE) -> Platform:
    return Platform(
        log or engines.log,
        engines.view,
        engines.accounts_database,
        engines.store,
        ApiSettings(lease_seconds=lease),
        b"secret",
        engines.clock,
        random_id,
    )


async def token_of(engines: Engines) -> str:
    """The token of an account that may do everything with models of acme."""
    async with make_platform(engines, services=False) as platform:
        client = await platform.holder(grant("models", ["*"], ["acme"]))
        return str(client.headers["authorization"])


@asynccontextmanager
async def two_servers(*logs: MemoryLog) -> AsyncIterator[Servers]:
    """Two API servers, each with its own log where logs are given; no command is applied."""
    engines = await make_engines()
    if logs:
        engines = replace(engines, log=logs[0])
    token = await token_of(engines)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engines.accounts_database.close)
        apps = [make_app(platform_of(engines, log)) for log in (logs or (None, None))]
        for app in apps:
            await stack.enter_async_context(app.running())
        clients = [await stack.enter_async_context(client_of(app, token.partition(" ")[2])) for app in apps]
        yield Servers(engines, apps, clients)


@asynccontextmanager
async def killed(app: App) -> AsyncIterator[None]:
    """Run a server, and leave it as a killed one is left: nothing more is noted, and its lease ends by time."""

    async def note_nothing() -> None:
        return

    async with app.running():
        app.api.relay.close = note_nothing  # type: ignore[method-assign]
        yield


async def test_what_one_server_accepts_the_other_shows_at_once() -> None:
    async with two_servers() as servers:
        first, second = servers.clients
        entity = await post(first)
        assert (await second.get(f"/models/{entity['id']}")).json() == entity
        async with running_services(servers.engines):
            edit = {"labels": {"a": "b"}}
            answer = await second.patch(f"/models/{entity['id']}/labels", json=edit)
            assert answer.status_code == 200, answer.text
            assert (await first.get(f"/models/{entity['id']}")).json()["labels"] == {"a": "b"}


@pytest.mark.parametrize("repeated", [True, False], ids=["its answer was a repeat's", "it was seen"])
async def test_what_its_server_has_not_sent_yet_can_be_edited_at_another_one(repeated: bool) -> None:
    """Every server shows the row, and the log must have the creation before the edit."""
    away, log = Failing(), MemoryLog()
    async with two_servers(away, log) as servers:
        first, second = servers.clients
        away.down = True
        body = {"account": "acme", **model()}
        assert (await first.post("/models", json=body, headers=KEY)).status_code == 503
        if repeated:
            id = (await second.post("/models", json=body, headers=KEY)).json()["id"]
        else:
            (entity,) = (await second.get("/models")).json()
            id = entity["id"]
        async with running_services(replace(servers.engines, log=log)):
            answer = await second.patch(f"/models/{id}/labels", json={"labels": {"a": "b"}})
            assert answer.status_code == 200, answer.text
            assert answer.json()["labels"] == {"a": "b"}
            # The first one sends it, too, once it can.
            (row,) = await servers.engines.accounts_database.outbox.unsent()
            await log.publish([Message(EVENTS, row.topic_key, row.value, row.headers)])
            again = await second.patch(f"/models/{id}/labels", json={"labels": {"c": "d"}})
            assert again.json()["labels"] == {"a": "b", "c": "d"}
            assert {record.key for record in await creates(log)} == {id}


async def test_a_key_gives_one_entity_wherever_it_comes() -> None:
    async with two_servers() as servers:
        body = {
            "account": "acme",
            "name": "model",
            "artifact": {"kind": "Mock"},
            "storage": {"medium": "Mock"},
        }
        body |= {"source": {"kind": "Mock"}, "resources": {"storage": "0"}}
        answers = await asyncio.gather(
            *(client.post("/models", json=body, headers=KEY) for client in servers.clients * 5)
        )
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert len(await creates(servers.engines.log)) == 1


async def test_a_repeat_at_another_server_of_what_broke_off_is_the_same_entity() -> None:
    """The first server lives, and its own request hangs: the second one waits until the first has noted the loss."""
    held = HeldLog()
    engines = replace(await make_engines(), log=held)
    token = await token_of(engines)
    second = make_app(platform_of(engines))
    async with serving(platform_of(engines)) as url, second.running():
        _, writer = await send(url, token)
        await held.arrived.wait()
        await close(writer, abort=True)
        held.may_return.set()
        async with client_of(second, token.partition(" ")[2]) as client:
            repeated = await post(client)
        assert await models_in(held) == {repeated["id"]}
    await engines.accounts_database.close()


async def test_an_equal_request_that_is_in_flight_elsewhere_is_another_entity() -> None:
    held = HeldLog()
    engines = replace(await make_engines(), log=held)
    token = await token_of(engines)
    second = make_app(platform_of(engines))
    async with serving(platform_of(engines)) as url, second.running():
        reader, writer = await send(url, token)
        await deliveries(engines, ["open"])
        async with client_of(second, token.partition(" ")[2]) as client:
            asking = asyncio.create_task(post(client))
            await deliveries(engines, ["open", "open"])
            held.may_return.set()
            await asking
        assert b"200" in await reader.readline()
        await close(writer)
        assert len(await models_in(held)) == 2
    await engines.accounts_database.close()


@pytest.mark.parametrize("ends", ["orderly", "killed"])
async def test_what_an_ended_server_could_not_send_another_one_sends(ends: str) -> None:
    log = Failing()
    engines = replace(await make_engines(), log=log)
    token = (await token_of(engines)).partition(" ")[2]
    first, second = make_app(platform_of(engines)), make_app(platform_of(engines))
    async with second.running():
        async with killed(first) if ends == "killed" else first.running():
            log.down = True
            async with client_of(first, token) as client:
                answer = await client.post("/models", json={"account": "acme", **model()})
            assert answer.status_code == 503
        log.down = False

        async def sent() -> bool:
            return len(await creates(log)) == 1

        await until(sent)
        async with client_of(second, token) as client:
            repeated = await post(client)
        assert await models_in(log) == {repeated["id"]}
        assert [row.server for row in await engines.accounts_database.outbox.pending()] == [
            second.api.relay.server
        ]
    await engines.accounts_database.close()


async def test_a_server_that_slept_beyond_its_lease_goes_on_as_a_new_one() -> None:
    async with two_servers() as servers:
        first, second = servers.apps
        before, outbox = first.api.relay.server, servers.engines.accounts_database.outbox
        await outbox.end(before)  # as if its time had passed
        await second.api.relay._take_over()
        with pytest.raises(LeaseEnded):
            await outbox.renew(before, LEASE)
        entities = await asyncio.gather(*(post(servers.clients[0]) for _ in range(5)))
        assert len(await models_in(servers.engines.log)) == len(entities)
        rows = await outbox.pending()
        assert {row.server for row in rows} == {first.api.relay.server}
        assert first.api.relay.server not in {before, ""}


async def test_a_server_sends_none_of_the_rows_of_others() -> None:
    away = Failing()
    log = MemoryLog()
    async with two_servers(away, log) as servers:
        away.down = True
        answer = await servers.clients[0].post("/models", json={"account": "acme", **model()})
        assert answer.status_code == 503
        await servers.apps[1].api.relay.resend()
        with pytest.raises(LogError):
            await servers.apps[0].api.relay.resend()
        assert await creates(log) == []
