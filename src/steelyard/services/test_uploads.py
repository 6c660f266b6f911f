"""What is left of uploads goes, and nothing else."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.broker.memory import MemoryLog
from steelyard.schema.commands import Command
from steelyard.services.doubles import create, forget, message, status
from steelyard.services.orchestrator.doubles import make_dataset
from steelyard.services.test_aggregator import judged
from steelyard.services.uploads import LEFT_FOR, discard_leftovers
from steelyard.storage.staging import Area
from steelyard.storage.store import open_store

WAITING = create(make_dataset(id="d" * 32, status="WaitingForUpload"))
ENTITY = WAITING.data
AREA = Area(ENTITY.id, "nonce")
FILE, MARK = AREA.key("data.parquet"), AREA.closed
DELETED = status(ENTITY, "Deleted")


@pytest.mark.parametrize(
    ("commands", "kept"),
    [
        ((WAITING,), {FILE, MARK}),
        ((WAITING, status(ENTITY, "Error")), {MARK}),
        ((WAITING, DELETED), {MARK}),
        ((WAITING, DELETED, forget(ENTITY)), set[str]()),
        ((), set[str]()),
    ],
    ids=["waits", "has expired", "was deleted", "was forgotten", "is not known"],
)
async def test_what_is_left_of_an_upload_whose_entity(commands: tuple[Command, ...], kept: set[str]) -> None:
    log, store = MemoryLog(), open_store("memory://uploads")
    sources = {"ForgetEntity": "reaper"}
    await judged(log, *(message(each, sources.get(each.command, "api")) for each in commands))
    for key in (FILE, MARK, "datasets/d/data.parquet"):
        await store.put(key, b"rows")
    late = datetime.now(UTC) + LEFT_FOR  # the store's clock is the machine's
    await discard_leftovers(store, log, late - timedelta(hours=1))
    assert {info.key async for info in store.list("staging/")} == {FILE, MARK}, "it is too young"
    await discard_leftovers(store, log, late + timedelta(minutes=1))
    assert {info.key async for info in store.list("staging/")} == kept
    assert await store.get("datasets/d/data.parquet") == b"rows"
