"""Entities in quarantine say so, are counted and listed, and administrators release or drop their messages."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import yaml

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import DEAD, EVENTS, OUTCOMES, BadMessage, Log, LogError, Message, Record
from steelyard.broker.open import open_log
from steelyard.broker.partition import find_partition
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant, make_engines, make_platform
from tests.platform_api.test_command_line import said, steelyard
from tests.platform_api.test_served import served

FAILING = b'{"schemaVersion":"0.1","command":"Explode"}'


async def put_aside(platform: MemoryPlatform) -> str:
    """The id of an entity with a command that cannot be read."""
    entity = await platform.created("datasets", **dataset())
    await platform.settled("Dataset", entity["id"])
    await explode(platform.engines.log, entity["id"])
    return str(entity["id"])


async def explode(log: Log, id: str) -> None:
    headers = {"id": "f" * 32, "source": "informer", "time": "2030-01-01T00:00:00Z"}
    await log.publish([Message(EVENTS, id, FAILING, headers)])


async def reads(client: httpx.AsyncClient, path: str, holds: Callable[[Any], bool]) -> Any:
    """The answer, once it holds."""
    async with asyncio.timeout(60):
        while not holds(answer := (await client.get(path)).json()):  # noqa: ASYNC110  (an answer tells nobody)
            await asyncio.sleep(0.05)
    return answer


async def test_an_entity_in_quarantine_says_so_until_it_is_out(platform: MemoryPlatform) -> None:
    id = await put_aside(platform)
    shown = await reads(
        platform.admin, f"/datasets/{id}", lambda entity: entity.get("reason") == "Quarantined"
    )
    assert shown["status"] == "WaitingForUpload"
    assert "command: " in shown["message"]
    assert "steelyard quarantine show" in shown["message"]
    (listed,) = (await platform.admin.get("/datasets")).json()
    assert listed == shown
    await reads_metric(platform, 'steelyard_quarantined_entities{consumer="commands"} 1.0')
    edit = asyncio.create_task(platform.admin.patch(f"/datasets/{id}/labels", json={"labels": {"a": "1"}}))
    (held,) = await reads(platform.admin, f"/quarantine/{id}", lambda entries: entries[0]["waiting"] == 2)
    assert [message["command"] for message in held["messages"]] == ["Explode", "EditEntityLabels"]
    assert (await platform.admin.put(f"/quarantine/{id}/drop")).json()["status"] == "Dropped"
    assert (await edit).status_code == 200, "it was the next one, and no more than late"
    shown = await reads(platform.admin, f"/datasets/{id}", lambda entity: entity.get("reason") is None)
    assert shown["labels"] == {"a": "1"}
    assert (await platform.admin.get("/quarantine")).json() == []
    assert (await platform.admin.get(f"/quarantine/{id}")).status_code == 404
    await reads_metric(platform, 'steelyard_quarantined_entities{consumer="commands"} 0.0')


async def reads_metric(platform: MemoryPlatform, line: str) -> None:
    async with asyncio.timeout(60):
        while line not in (await platform.admin.get("http://api/metrics")).text:  # noqa: ASYNC110  (an answer tells nobody)
            await asyncio.sleep(0.05)


async def test_what_is_released_and_fails_again_stays(platform: MemoryPlatform) -> None:
    id = await put_aside(platform)
    (held,) = await reads(platform.admin, "/quarantine", lambda entries: bool(entries))  # noqa: PLW0108
    assert (await platform.admin.put(f"/quarantine/{id}/release")).json()["status"] == "Released"
    log, partition = platform.engines.log, find_partition(id, 8)
    async with asyncio.timeout(60):
        while len(await log.read(DEAD, partition, 0)) < 2:
            await log.wait_for_change(log.version(), 1)
    (again,) = (await platform.admin.get("/quarantine")).json()
    assert {**again, "since": ""} == {**held, "since": ""}


async def test_it_takes_an_administrator(platform: MemoryPlatform) -> None:
    id = await put_aside(platform)
    await reads(platform.admin, "/quarantine", lambda entries: bool(entries))  # noqa: PLW0108
    other = await platform.holder(grant("*", ["*"], ["acme"]))
    for method, path in (("GET", ""), ("GET", f"/{id}"), ("PUT", f"/{id}/release"), ("PUT", f"/{id}/drop")):
        refused = await other.request(method, f"/quarantine{path}")
        assert refused.status_code == 403, path
    assert (await platform.admin.put(f"/quarantine/{'0' * 32}/drop")).status_code == 404
    assert (await platform.admin.put(f"/quarantine/{id}/drop?consumer=view-sink")).status_code == 404


async def test_an_outcome_that_cannot_be_read_keeps_no_client_waiting(platform: MemoryPlatform) -> None:
    entity = await platform.created("datasets", **dataset())
    await platform.settled("Dataset", entity["id"])
    for value in (b"{", b"[]"):
        await platform.engines.log.publish([Message(OUTCOMES, entity["id"], value)])
    edit = await platform.admin.patch(f"/datasets/{entity['id']}/labels", json={"labels": {"a": "1"}})
    assert edit.status_code == 200
    assert platform.app.api.healthy


class Refusing(MemoryLog):
    """Cannot write any message of one entity."""

    refused = ""
    down = False

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        if self.down:
            raise LogError("the log does not answer")
        if any(message.key == self.refused for message in messages):
            raise BadMessage("a header cannot be written")
        return await super().publish(messages)


async def test_a_create_that_cannot_be_sent_holds_up_no_other() -> None:
    log = Refusing()
    engines = replace(await make_engines(), log=log)
    async with make_platform(engines, services=False) as platform:
        log.down = True
        for name in "abc":
            await platform.admin.post("/datasets", json={"account": "acme", **dataset(), "name": name})
        rows = await engines.accounts_database.outbox.unsent()
        platform.app.api.relay._has_unsent = False  # it is dead: it does not try again
    assert len(rows) == 3
    log.down, log.refused = False, rows[0].entity
    async with make_platform(engines) as platform:
        for row in rows[1:]:
            await platform.settled("Dataset", row.entity)
        assert (await platform.admin.get(f"/datasets/{rows[0].entity}")).status_code == 200
    await engines.accounts_database.close()


async def test_from_the_command_line(tmp_path: Path) -> None:
    async with served(tmp_path) as to:
        assert await said(to, "quarantine", "list") == "nothing is in quarantine"
        described = json.dumps({"kind": "Dataset", "account": "acme", **dataset()})
        (tmp_path / "dataset.yaml").write_text(described)
        id = (await said(to, "create", "-f", str(tmp_path / "dataset.yaml"))).partition("/")[2]
        log = await open_log(f"sqlite:{tmp_path / 'log.db'}")
        await explode(log, id)
        await log.close()
        async with asyncio.timeout(60):
            while "Quarantined" not in await said(to, "get", "datasets"):  # noqa: ASYNC110  (an answer tells nobody)
                await asyncio.sleep(0.05)
        assert "Why:      Quarantined: a command could not be applied (command: " in await said(
            to, "describe", "dataset", id
        )
        assert f"{id}  commands  1        20" in await said(to, "quarantine", "list")
        (held,) = yaml.safe_load(await said(to, "quarantine", "show", id[:8]))
        assert held["messages"][0]["command"] == "Explode"
        (held,) = json.loads(await said(to, "quarantine", "list", "-o", "json"))
        assert held["id"] == await said(to, "quarantine", "list", "-o", "name") == id
        assert await said(to, "quarantine", "release", id) == f"{id}: commands will process it again"
        assert await said(to, "quarantine", "drop", id) == f"{id}: commands will process it again"
        async with asyncio.timeout(60):
            while "nothing" not in await said(to, "quarantine", "list"):  # noqa: ASYNC110  (an answer tells nobody)
                await asyncio.sleep(0.05)
        missing = await steelyard(to, "quarantine", "drop", "elsewhere")
        assert missing.exit_code == 1
        assert "elsewhere is not in quarantine" in str(missing.exception)
