"""Costs of looks at a log in SQLite: statements and transactions are counted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.broker.log import EVENTS, Message
from steelyard.broker.sqlite.log import SqliteLog, open_sqlite_log


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    opened = await open_sqlite_log(tmp_path / "log.db")
    yield opened
    await opened.close()


@pytest.fixture
def statements(log: SqliteLog) -> list[str]:
    """Return the list of the statements that reads of the log execute from now on."""
    executed: list[str] = []
    log.file.read_now(lambda connection: connection.set_trace_callback(executed.append))
    return executed


async def test_a_look_at_all_partitions_is_one_statement(log: SqliteLog, statements: list[str]) -> None:
    starts = dict.fromkeys(range(log.partitions), 0)
    assert await log.read_each(EVENTS, starts) == {}
    assert len(statements) == 1
    await log.publish([Message(EVENTS, "a", b"1", partition=3)])
    assert list(await log.read_each(EVENTS, starts)) == [3]
    assert len(statements) == 1 + 2, "the records of the one partition that has some are a second one"


async def test_others_have_their_turn_between_two_partitions_with_many_records(
    log: SqliteLog, statements: list[str]
) -> None:
    """A service that was away reads all partitions at once, and the lease is renewed by the same loop."""
    partitions = range(log.partitions)
    await log.publish([Message(EVENTS, "a", b"1", partition=part) for part in partitions for _ in range(200)])
    statements.clear()
    most = 0

    async def take_turns() -> None:
        nonlocal most
        while True:
            most = max(most, len(statements))
            statements.clear()
            await asyncio.sleep(0)

    turns = asyncio.create_task(take_turns())
    news = await log.read_each(EVENTS, dict.fromkeys(partitions, 0))
    most = max(most, len(statements))
    turns.cancel()
    assert [len(records) for records in news.values()] == [200] * log.partitions
    assert most <= 2, "the first turn follows the search for news and one partition"


async def test_a_member_looks_at_its_partitions_by_one_statement(
    log: SqliteLog, statements: list[str]
) -> None:
    inbox = await log.inbox("group", EVENTS)
    assert not (await inbox.batch(500, 0)).records
    assert len([statement for statement in statements if "FROM records" in statement]) == 1
    await inbox.close()


async def test_where_there_is_nothing_to_publish_nothing_is_written(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(work: object) -> None:
        raise AssertionError("a transaction, which wakes everybody who waits for a change")

    with monkeypatch.context() as patch:
        patch.setattr(log.file, "write", write)
        assert await log.publish([]) == []
