"""Leftovers of uploads are removed, and nothing else."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.quarantine.marks import Aside
from steelyard.services.reaper.uploads import LEFT_FOR, discard_leftovers
from steelyard.services.simulation.commands import aggregate, create, forget, message, status
from steelyard.services.simulation.entities import make_dataset
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.staging import Area
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.commands import Command

WAITING = create(make_dataset(id="d" * 32, status="WaitingForUpload"))
ENTITY = WAITING.data
AREA = Area(ENTITY.id, "nonce")
FILE, MARK = AREA.key("data.parquet"), AREA.closing_mark
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
    aside = await Aside.open(log, "reaper")
    sources = {"ForgetEntity": "reaper"}
    await aggregate(log, *(message(command, sources.get(command.command, "api")) for command in commands))
    for key in (FILE, MARK, "datasets/d/data.parquet"):
        await store.put(key, b"rows")
    late = datetime.now(UTC) + LEFT_FOR  # the store's clock is the machine's
    await discard_leftovers(store, log, late - timedelta(hours=1), aside)
    assert {info.key async for info in store.list("staging/")} == {FILE, MARK}, "it is too young"
    await discard_leftovers(store, log, late + timedelta(minutes=1), aside)
    assert {info.key async for info in store.list("staging/")} == kept
    assert await store.get("datasets/d/data.parquet") == b"rows"


class Stubborn(ObjectStore):
    """Does not remove one entity's files."""

    async def delete(self, key: str) -> None:
        if key.startswith("staging/stubborn/"):
            raise ValueError("cannot be removed")
        await super().delete(key)


async def test_a_file_that_cannot_be_removed_stops_no_other() -> None:
    log, store = MemoryLog(), Stubborn("memory://stubborn")
    aside = await Aside.open(log, "uploads")
    late = datetime.now(UTC) + LEFT_FOR + timedelta(minutes=1)
    for id in ("a", "stubborn", "z"):
        await store.put(f"staging/{id}/nonce/file", b"rows")
    assert await discard_leftovers(store, log, late, aside) == 2
    assert await discard_leftovers(store, log, late, aside) == 0
    (held,) = await list_entries(log)
    assert (held.key, held.consumer, held.reason) == ("stubborn", "uploads", "ValueError: cannot be removed")
    await ObjectStore("memory://stubborn").delete("staging/stubborn/nonce/file")
    await discard_leftovers(store, log, late, aside)
    assert await list_entries(log) == []
