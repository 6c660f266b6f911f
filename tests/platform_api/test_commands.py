"""Accepted commands are never lost or doubled, and their clients read what they wrote, across crashes and repeats."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import httpx
import pytest

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.outbox import OutboxRow
from steelyard.api.settings import ApiSettings
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, Log, LogError, Message, Record
from steelyard.views.in_memory import MemoryView
from steelyard.views.view import Change, Query, StoredEntity, ViewError
from steelyard_common.types import Json
from tests.platform_api.memory_platform import (
    Engines,
    MemoryPlatform,
    make_engines,
    make_platform,
    model,
    running_services,
    service,
)

KEY = {"Idempotency-Key": "once"}


async def creates(log: Log) -> list[Record]:
    return [record for partition in range(log.partitions) for record in await log.read(EVENTS, partition, 0)]


async def post(
    platform: MemoryPlatform,
    headers: dict[str, str] | None = None,
    client: httpx.AsyncClient | None = None,
    **fields: object,
) -> Json:
    body = {"account": "acme", **model(), **fields}
    made: Json = (await (client or platform.admin).post("/models", json=body, headers=headers)).json()
    return made


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds: the relay signals no progress."""
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Failing(MemoryLog):
    """Refuses to publish while `down`; with `after`, says so after it has published."""

    down = after = False

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        if self.down and not self.after:
            raise LogError("the log is away")
        records = await super().publish(messages)
        if self.down:
            raise LogError("the answer is lost")
        return records


async def failing() -> tuple[Engines, Failing]:
    log = Failing()
    return replace(await make_engines(), log=log), log


async def test_a_request_that_the_end_of_the_process_interrupts_may_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with make_platform(services=False) as platform:
        outbox, began = platform.engines.accounts_database.outbox, asyncio.Event()

        async def hang(*rows: object) -> None:
            began.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(outbox, "add", hang)
            request = asyncio.create_task(
                platform.admin.post("/models", json={"account": "acme", **model()}, headers=KEY)
            )
            await began.wait()
            request.cancel()  # as uvicorn does after the time that requests have to end
            refused = await request
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert (await post(platform, KEY))["id"]


async def test_what_the_view_does_not_show_yet_is_seen_all_the_same() -> None:
    async with make_platform(services=False) as platform:
        made = await post(platform)
        path = f"/models/{made['id']}"
        assert (await platform.admin.get(path)).json() == made
        assert (await platform.admin.get("/models")).json() == [made]
        assert (await platform.admin.get("/models", params={"name": "other"})).json() == []
        assert (await platform.admin.get("/models", params={"orderBy": "name", "limit": "1"})).json() == [
            made
        ]
        body = {"account": "acme", **service(made["id"])}
        assert (await platform.admin.post("/inferenceservices", json=body)).json()["model"]["id"] == made[
            "id"
        ]
        async with running_services(platform.engines):
            assert await platform.settled("Model", made["id"]) == made
            await nothing_pending(platform)
            assert (await platform.admin.get("/models")).json() == [made]


async def nothing_pending(platform: MemoryPlatform) -> None:
    async def none() -> bool:
        return not await platform.engines.accounts_database.outbox.pending()

    await until(none)


async def test_equal_requests_one_after_another_are_two(platform: MemoryPlatform) -> None:
    assert (await post(platform))["id"] != (await post(platform))["id"]


async def test_of_creates_at_once_one_notes_the_answers_before_them(
    platform: MemoryPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that all write the same rows would wait for each other's commits."""
    outbox, noted = platform.engines.accounts_database.outbox, list[str]()
    answered = outbox.note_answered

    async def note(commands: Sequence[str]) -> None:
        noted.extend(commands)
        await answered(commands)

    monkeypatch.setattr(outbox, "note_answered", note)
    for turn in range(3):
        await asyncio.gather(*(post(platform, name=f"{turn}-{number}") for number in range(10)))

    async def all_noted() -> bool:
        return len(noted) >= 30

    await until(all_noted)
    assert len(noted) == len(set(noted)) == 30


async def test_an_answer_that_could_not_be_noted_is_noted_later(
    platform: MemoryPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox, noted = platform.engines.accounts_database.outbox, list[str]()
    answered, failures = outbox.note_answered, iter([AccountsDatabaseError("the database is away")])

    async def note(commands: Sequence[str]) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        noted.extend(commands)
        await answered(commands)

    monkeypatch.setattr(outbox, "note_answered", note)
    await post(platform, name="first")

    async def first_noted() -> bool:
        return len(noted) == 1

    await until(first_noted)


async def test_a_key_gives_one_entity_whenever_it_comes(platform: MemoryPlatform) -> None:
    made = await post(platform, KEY)
    assert (await post(platform, KEY))["id"] == made["id"]
    await platform.admin.patch(f"/models/{made['id']}/labels", json={"labels": {"a": "b"}})
    again = await post(platform, KEY)
    assert (again["id"], again["labels"]) == (made["id"], {"a": "b"})
    await nothing_pending(platform)
    assert await platform.engines.accounts_database.outbox.expire(platform.engines.clock()) == 1
    assert (await post(platform, KEY))["id"] == made["id"]
    await nothing_pending(platform)
    assert len(await creates(platform.engines.log)) == 2  # the entity and its label


async def test_a_key_belongs_to_one_request(platform: MemoryPlatform) -> None:
    await post(platform, KEY)
    for path, body in (
        ("/models", {"account": "acme", **model(), "name": "another"}),
        ("/inferenceservices", {"account": "acme", **service()}),
    ):
        response = await platform.admin.post(path, json=body, headers=KEY)
        assert (response.status_code, response.json()["field"]) == (422, "Idempotency-Key")
    assert len(await creates(platform.engines.log)) == 1
    other = await post(platform, KEY, account="other")
    assert other["account"] == "other"
    bad = await platform.admin.post("/models", json={}, headers={"Idempotency-Key": "a b"})
    assert bad.status_code in {400, 422}


async def test_a_key_belongs_to_its_request_also_when_its_row_has_gone(platform: MemoryPlatform) -> None:
    made = await post(platform, KEY)
    await platform.settled("Model", made["id"])
    await nothing_pending(platform)
    assert await platform.engines.accounts_database.outbox.expire(platform.engines.clock()) == 1
    for _ in range(2):
        other = {"account": "acme", **model(), "name": "another"}
        refused = await platform.admin.post("/models", json=other, headers=KEY)
        assert (refused.status_code, refused.json()["field"]) == (422, "Idempotency-Key")
        assert "'once'" in refused.json()["detail"]
        assert (await post(platform, KEY))["id"] == made["id"]
        await nothing_pending(platform)
        await platform.engines.accounts_database.outbox.expire(platform.engines.clock())
    assert len(await creates(platform.engines.log)) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before it was written", "after it was written"])
async def test_a_create_that_could_not_be_sent_is_sent_once(after: bool) -> None:
    engines, log = await failing()
    async with make_platform(engines) as platform:
        log.down, log.after = True, after
        refused = await platform.admin.post("/models", json={"account": "acme", **model()})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        log.down = False
        made = await post(platform)
        assert (await platform.settled("Model", made["id"]))["id"] == made["id"]
        await nothing_pending(platform)
    assert {record.key for record in await creates(log)} == {made["id"]}
    await engines.accounts_database.close()


class GatedLog(MemoryLog):
    """Refuses messages while `down`; else holds the first ones back until `opened` is set."""

    down = True

    def __init__(self) -> None:
        super().__init__()
        self.opened, self.waiting = asyncio.Event(), asyncio.Event()

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        if self.down:
            raise LogError("the log is away")
        self.waiting.set()
        await self.opened.wait()
        return await super().publish(messages)


async def test_a_create_that_fails_while_others_are_sent_again_is_sent_too() -> None:
    log = GatedLog()
    engines = replace(await make_engines(), log=log)
    async with make_platform(engines) as platform:
        body = {"account": "acme", **model()}
        assert (await platform.admin.post("/models", json=body)).status_code == 503
        log.down = False
        await log.waiting.wait()
        log.down = True
        body["name"] = "another"
        assert (await platform.admin.post("/models", json=body)).status_code == 503
        log.down = False
        log.opened.set()
        await nothing_pending(platform)
    assert len(await creates(log)) == 2
    await engines.accounts_database.close()


class Away(MemoryView):
    """Finds nothing while `down`, and says so."""

    down = False

    async def find(self, id: str) -> StoredEntity | None:
        if self.down:
            raise ViewError("the view is away")
        return await super().find(id)


@pytest.mark.parametrize("repeated", [True, False], ids=["repeated", "not repeated"])
async def test_a_create_with_a_key_that_met_a_view_that_is_away_is_sent_once(repeated: bool) -> None:
    """The row was written, and the view could not tell whether an earlier request had made the entity."""
    view = Away()
    engines = replace(await make_engines(), view=view)
    async with make_platform(engines) as platform:
        view.down = True
        refused = await platform.admin.post("/models", json={"account": "acme", **model()}, headers=KEY)
        assert refused.status_code == 503
        view.down = False
        (row,) = await engines.accounts_database.outbox.pending()
        if repeated:
            assert (await post(platform, KEY))["id"] == row.entity
        assert (await platform.settled("Model", row.entity))["id"] == row.entity
        await nothing_pending(platform)
    assert len(await creates(engines.log)) == 1
    await engines.accounts_database.close()


@pytest.mark.parametrize("after", [False, True], ids=["before it was written", "after it was written"])
async def test_a_process_that_starts_again_sends_what_was_not(after: bool) -> None:
    """`kill -9` between the row in the outbox and the command in the log, or before that was noted."""
    engines, log = await failing()
    async with make_platform(engines, services=False) as platform:
        log.down, log.after = True, after
        await platform.admin.post("/models", json={"account": "acme", **model()})
        rows: Sequence[OutboxRow] = await engines.accounts_database.outbox.unsent()
        assert len(rows) == 1
        log.down = False
        platform.app.api.relay._has_unsent = False  # it is dead: it does not try again
    async with make_platform(engines) as platform:
        assert (await platform.settled("Model", rows[0].entity))["id"] == rows[0].entity
        await nothing_pending(platform)
    assert len(await creates(log)) == 1
    await engines.accounts_database.close()


async def test_an_edit_that_is_not_decided_is_answered_503_and_stays_accepted() -> None:
    async with make_platform(services=False, settings=ApiSettings(outcome_seconds=0.05)) as platform:
        made = await post(platform)
        late = await platform.admin.patch(f"/models/{made['id']}/labels", json={"labels": {"a": "b"}})
        assert (late.status_code, late.json()["reason"]) == (503, "Unavailable")
        assert late.headers["Retry-After"]
        async with running_services(platform.engines):

            async def applied() -> bool:
                return bool((await platform.settled("Model", made["id"]))["labels"] == {"a": "b"})

            await until(applied)
            await platform.admin.patch(f"/models/{made['id']}/labels", json={"labels": {"a": "b"}})


class Singly(MemoryView):
    """Counts the reads of single entities, each a round trip where the view is on a server."""

    reads = 0

    async def get(self, kind: str, id: str) -> StoredEntity | None:
        self.reads += 1
        return await super().get(kind, id)


async def test_that_many_are_visible_is_found_without_a_read_for_each() -> None:
    view = Singly()
    engines = replace(await make_engines(), view=view)
    async with make_platform(engines) as platform:
        await asyncio.gather(*(post(platform, name=f"m{number}") for number in range(8)))
        await nothing_pending(platform)
        assert len(await view.query(Query("Model"))) == 8
    assert view.reads == 0
    await engines.accounts_database.close()


class Late(MemoryView):
    """Shows applied commands a while later."""

    async def apply(self, changes: Sequence[Change], epoch: int, positions: Mapping[int, int]) -> None:
        await asyncio.sleep(0.03)
        await super().apply(changes, epoch, positions)


async def test_an_edit_is_answered_once_the_view_shows_it() -> None:
    engines = replace(await make_engines(), view=Late())
    async with make_platform(engines) as platform:
        made = await post(platform)
        await platform.settled("Model", made["id"])
        await platform.admin.patch(f"/models/{made['id']}/labels", json={"labels": {"a": "b"}})
        assert (await platform.admin.get(f"/models/{made['id']}")).json()["labels"] == {"a": "b"}
    await engines.accounts_database.close()


async def test_an_edit_that_changes_nothing_is_answered_in_a_log_of_a_later_epoch_too() -> None:
    """The entity's last command is of an earlier epoch, and the view says so."""
    engines = await make_engines()
    async with make_platform(engines) as platform:
        made = await post(platform)
        path, same = f"/models/{made['id']}/labels", {"labels": {"a": "1"}}
        assert (await platform.admin.patch(path, json=same)).status_code == 200
    await engines.log.begin_epoch(2)
    await engines.view.set_origin("memory", 2)
    async with make_platform(engines) as platform:
        assert (await platform.admin.patch(path, json=same)).status_code == 200
        assert (await platform.admin.patch(path, json={"labels": {"a": "2"}})).status_code == 200
    await engines.accounts_database.close()


async def test_if_match_is_honoured(platform: MemoryPlatform) -> None:
    made = await post(platform)
    path = f"/models/{made['id']}/labels"
    stale = {"If-Match": f'"{made["metadata"]["revision"]}"'}
    assert (await platform.admin.patch(path, json={"labels": {"a": "1"}}, headers=stale)).status_code == 200
    conflict = await platform.admin.patch(path, json={"labels": {"a": "2"}}, headers=stale)
    assert (conflict.status_code, conflict.json()["reason"]) == (409, "Conflict")
    now = (await platform.admin.get(f"/models/{made['id']}")).json()
    assert now["labels"] == {"a": "1"}
    fresh = {"If-Match": now["metadata"]["revision"]}
    assert (await platform.admin.patch(path, json={"labels": {"a": "3"}}, headers=fresh)).status_code == 200


@pytest.mark.parametrize("match", ["", '""', '"one", "another"', "r" * 256])
async def test_an_if_match_that_cannot_be_kept_to_is_refused(platform: MemoryPlatform, match: str) -> None:
    made = await post(platform)
    answer = await platform.admin.patch(
        f"/models/{made['id']}/labels", json={"labels": {"a": "1"}}, headers={"If-Match": match}
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "If-Match")
    assert not (await platform.settled("Model", made["id"]))["labels"]


async def test_a_repeated_edit_with_a_key_is_one(platform: MemoryPlatform) -> None:
    """The first answer was lost; without the key, If-Match would refuse the repeat."""
    made = await post(platform)
    headers = {"If-Match": made["metadata"]["revision"], "Idempotency-Key": "edit"}
    for _ in range(2):
        answer = await platform.admin.patch(
            f"/models/{made['id']}/labels", json={"labels": {"a": "1"}}, headers=headers
        )
        assert answer.json() == {"labels": {"a": "1"}}


async def test_every_id_comes_from_the_source_that_it_was_given() -> None:
    numbers = count(1)
    async with make_platform(new_id=lambda: f"{next(numbers):032}") as platform:
        made = await post(platform)
        await platform.admin.patch(f"/models/{made['id']}/labels", json={"labels": {"a": "b"}})
        created, edited = await creates(platform.engines.log)
        # The first is the API server's own, in the outbox.
        assert [int(id) for id in (made["id"], created.headers["id"], edited.headers["id"])] == [2, 3, 4]
        owner = (await platform.admin.post("/accounts", json={"name": "owner"})).json()
        body = {"grants": [], "expires": "2100-01-01T00:00:00Z"}
        await platform.admin.post(f"/accounts/{owner['id']}/tokens", json=body)
        keys = (await platform.admin.get(f"/accounts/{owner['id']}/tokens")).json()
        assert [int(key["id"]) for key in keys] == [5]


async def test_commands_say_where_they_come_from(platform: MemoryPlatform) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = await post(platform, {"X-Request-Id": "r1", "traceparent": trace})
    (record,) = await creates(platform.engines.log)
    headers = dict(record.headers)
    assert headers["id"] == made["metadata"]["revision"]
    assert headers["source"] == "api"
    assert headers["time"].endswith("Z")
    assert headers["actor"].startswith("accounts/")
    assert len(headers["token"]) == 32
    assert (headers["request"], headers["traceparent"]) == ("r1", trace)
    assert record.key == made["id"]
