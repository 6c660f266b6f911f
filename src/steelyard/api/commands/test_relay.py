"""Tests of what the relay does when the database fails beside a write."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from steelyard.accounts.database import AccountsDatabaseError, OutboxRow
from steelyard.accounts.open import open_accounts_database
from steelyard.api.commands.outcomes import OutcomeReader
from steelyard.api.commands.relay import OutboxRelay
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS
from steelyard.views.in_memory import MemoryView

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROW = OutboxRow("c1", "a", "Dataset", "d1", NOW, "d1", b"{}", {}, "request")


@pytest.mark.parametrize("order", ["the row first", "the failure first"])
async def test_a_row_that_is_written_beside_a_failure_is_sent(
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
    relay.answered("earlier")
    with monkeypatch.context() as patched:
        patched.setattr(outbox, "answered", fail)
        patched.setattr(outbox, "add", write)
        with pytest.raises(AccountsDatabaseError, match="the database is away"):
            await relay.add([ROW])

    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(60):
        while not sum((await log.ends(EVENTS)).values()):  # noqa: ASYNC110 - the relay signals no progress
            await asyncio.sleep(0.01)
    running.cancel()
    await database.close()
