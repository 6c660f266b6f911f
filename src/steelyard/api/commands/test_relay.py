"""Tests of what the relay does when the database or the view fails."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import orjson
import pytest

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.outbox import OutboxRow
from steelyard.api.commands.outcomes import OutcomeReader
from steelyard.api.commands.relay import OutboxRelay
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, OUTCOMES, Message
from steelyard.views.in_memory import MemoryView
from steelyard.views.view import Change, Position, ViewError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROW = OutboxRow("c1", "a", "Dataset", "d1", NOW, "d1", b"{}", {}, "request")


@pytest.mark.parametrize("order", ["the row first", "the failure first"])
async def test_a_row_that_is_written_along_with_a_failure_is_sent(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers to earlier requests are noted at once with it: its request fails, and the row is there all the same."""
    log, view = MemoryLog(), MemoryView()
    database = await open_accounts_database("memory:")
    outbox = database.outbox
    add, first = outbox.add, asyncio.Event()

    async def fail(commands: Sequence[str]) -> None:
        if order == "the row first":
            await first.wait()
        first.set()
        raise AccountsDatabaseError("the database is away")

    async def write(row: OutboxRow, others: Sequence[OutboxRow] = ()) -> OutboxRow:
        if order == "the failure first":
            await first.wait()
        kept = await add(row, others)
        first.set()
        return kept

    relay = OutboxRelay(log, view, outbox, OutcomeReader(log), lambda: NOW, lambda: "server", 60.0)
    await relay.begin()
    relay.note_answer("earlier")
    with monkeypatch.context() as patched:
        patched.setattr(outbox, "note_answered", fail)
        patched.setattr(outbox, "add", write)
        with pytest.raises(AccountsDatabaseError, match="the database is away"):
            await relay.add([ROW])

    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(60):
        while not sum((await log.ends(EVENTS)).values()):  # noqa: ASYNC110 - the relay signals no progress
            await asyncio.sleep(0.01)
    running.cancel()
    await database.close()


class _FailingView(MemoryView):
    """A view that cannot be read the first time."""

    failures = 1

    async def kinds(self, ids: Collection[str]) -> Mapping[str, str]:
        if self.failures:
            self.failures -= 1
            raise ViewError("the view is away")
        return await super().kinds(ids)


async def with_a_sent_row(
    log: MemoryLog, view: MemoryView
) -> tuple[AccountsDatabase, OutcomeReader, OutboxRelay]:
    """Return a relay that has sent the row and does not run yet, with its database and its reader of outcomes."""
    database = await open_accounts_database("memory:")
    outcomes = OutcomeReader(log)
    relay = OutboxRelay(log, view, database.outbox, outcomes, lambda: NOW, lambda: "server", 60.0)
    await relay.begin()
    await relay.add([ROW])
    await relay.send([ROW])
    return database, outcomes, relay


async def test_a_look_that_fails_is_repeated_though_the_view_changes_no_more() -> None:
    """Reads would ask the outbox for the row, for as long as nothing else happens."""
    log, view = MemoryLog(), _FailingView()
    database, outcomes, relay = await with_a_sent_row(log, view)
    json = orjson.dumps({"kind": "Dataset", "id": ROW.entity, "account": "a"})
    await view.apply([Change(ROW.entity, json, Position(1, 0))], 1, {0: 1})
    outcome = orjson.dumps({"command": ROW.command, "outcome": "applied"})
    await log.publish([Message(OUTCOMES, ROW.topic_key, outcome)])
    running = [asyncio.create_task(relay.run()), asyncio.create_task(outcomes.run())]
    async with asyncio.timeout(60):
        while await database.outbox.pending():  # noqa: ASYNC110 - the relay signals no progress
            await asyncio.sleep(0.01)
    for task in running:
        task.cancel()
    assert not view.failures
    await database.close()


class _SilentView(MemoryView):
    """A view that cannot be waited for the first time."""

    failures = 1
    failed: asyncio.Event

    async def wait_for_change(self, since: int, timeout: float) -> int:
        if self.failures:
            self.failures -= 1
            self.failed.set()
            raise ViewError("the view is away")
        return await super().wait_for_change(since, timeout)


async def test_a_wait_for_the_view_that_fails_ends_no_relay() -> None:
    log, view = MemoryLog(), _SilentView()
    view.failed = asyncio.Event()
    database, outcomes, relay = await with_a_sent_row(log, view)
    outcome = orjson.dumps({"command": ROW.command, "outcome": "applied"})
    await log.publish([Message(OUTCOMES, ROW.topic_key, outcome)])
    running = [asyncio.create_task(relay.run()), asyncio.create_task(outcomes.run())]
    async with asyncio.timeout(60):
        await view.failed.wait()
        json = orjson.dumps({"kind": "Dataset", "id": ROW.entity, "account": "a"})
        await view.apply([Change(ROW.entity, json, Position(1, 0))], 1, {0: 1})
        while await database.outbox.pending():  # noqa: ASYNC110 - the relay signals no progress
            await asyncio.sleep(0.01)
    for task in running:
        task.cancel()
    await database.close()
