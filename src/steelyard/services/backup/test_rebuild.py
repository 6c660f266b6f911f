"""Rebuilding a log from its archive: `view(restore(backup(history))) == view(history)`, byte for byte."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import AGGREGATOR, EVENTS, STATE, Log, Message, Record
from steelyard.broker.simulation.replay import Crash, work_off
from steelyard.services.aggregator.aggregator import Aggregator
from steelyard.services.backup.archive import Archive
from steelyard.services.backup.entity import last_entry, living
from steelyard.services.backup.rebuild import check_empty, rebuild, survey
from steelyard.services.backup.record_files import Entry
from steelyard.services.backup.snapshots import make_snapshot, remove_old
from steelyard.services.backup.states import Reading
from steelyard.services.backup.test_archive import archive_all, new_store
from steelyard.services.simulation.commands import aggregate, create, forget, labels, message, status
from steelyard.services.simulation.entities import START, make_dataset, make_evaluation
from steelyard.services.sinks.view import ViewOutlet
from steelyard.services.test_replay import ENTITIES, histories
from steelyard.testing.engines.log import everything
from steelyard.views.in_memory import MemoryView
from steelyard_common.errors import Refused
from steelyard_evaluation.storage.store import Store
from steelyard_schema.base import DyffEntity

DAY = timedelta(days=1)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


async def viewed(log: Log, entities: Sequence[DyffEntity] = ENTITIES) -> dict[str, bytes]:
    """Read a log into a view, and return what that shows."""
    view = MemoryView()
    await ViewOutlet(view).apply(await everything(log, STATE), log.epoch, {0: 1})
    stored = [await view.find(entity.id) for entity in entities]
    return {entity.id: entity.json for entity in stored if entity is not None}


async def rebuilt(store: Store, partitions: int = 2, until: datetime | None = None) -> MemoryLog:
    log, archive = MemoryLog(partitions, epoch=2), Archive(store)
    await rebuild(log, archive, await archive.contents(), Reading(until), 2, NOW)
    return log


@settings(deadline=None)
@given(
    histories(), st.lists(st.sampled_from(["sink", "snapshot", "remove", ""]), max_size=40), st.integers(1, 3)
)
def test_random_histories(history: list[Message], backups: list[str], partitions: int) -> None:
    """Whenever the sink ran and snapshots were made, the rebuilt log shows the same, and goes on in the same way."""

    async def case() -> None:
        log, store = MemoryLog(2, clock=lambda: START), new_store()
        archive = Archive(store)
        for number, sent in enumerate(history):
            await log.publish([sent])
            await work_off(log, AGGREGATOR, EVENTS, Aggregator)
            match backups[number] if number < len(backups) else "":
                case "sink":
                    await archive_all(log, store)
                case "snapshot":
                    if (contents := await archive.contents()).segments:
                        await make_snapshot(archive, contents, 2, "l", START + timedelta(days=number))
                case "remove":
                    await remove_old(archive, timedelta(days=2), START + timedelta(days=number))
        await archive_all(log, store)
        other = await rebuilt(store, partitions)
        assert await viewed(other) == await viewed(log)
        # A sender that never learned that its commands were applied sends all of them again: nothing changes.
        before = {record.key: record.value for record in await everything(other, STATE)}
        creates = [sent for sent in history if b'"CreateEntity"' in (sent.value or b"")]
        late = [sent for sent in creates if before.get(sent.key) is not None]
        await other.publish(late)
        await work_off(other, AGGREGATOR, EVENTS, Aggregator)
        assert {record.key: record.value for record in await everything(other, STATE)} == before

    asyncio.run(case())


async def test_of_a_later_time_nothing_comes_back() -> None:
    first, second, third = make_evaluation("e1"), make_dataset("d1"), make_dataset("d2")
    clock = [START]
    log, store = MemoryLog(2, clock=lambda: clock[0]), new_store()
    sent = [message(create(first)), message(create(second)), message(labels(first, a="1"))]
    for number, command in enumerate((*sent, message(create(third)))):
        clock[0] = START + timedelta(hours=number)
        await aggregate(log, command)
        await archive_all(log, store)
    until = START + timedelta(hours=1.5)
    archive = Archive(store)
    counted = await survey(archive, await archive.contents(), Reading(until))
    assert (counted.entities, counted.undone) == (2, 1)
    other = await rebuilt(store, until=until)
    seen = await viewed(other, (first, second, third))
    assert set(seen) == {"e1", "d1"}
    assert b'"labels"' not in seen["e1"] or b'"a"' not in seen["e1"]
    # The backup of the rebuilt log forgets what was undone, too: a second restore does not bring it back.
    await archive_all(other, store)
    again, contents = MemoryLog(2, epoch=3), await archive.contents()
    await rebuild(again, archive, contents, Reading(), 3, NOW)
    assert set(await viewed(again, (first, second, third))) == {"e1", "d1"}


async def test_what_was_forgotten_stays_forgotten() -> None:
    entity, store = make_evaluation("e1"), new_store()
    log = MemoryLog(2)
    await aggregate(log, message(create(entity)), message(status(entity, "Deleted")))
    await aggregate(log, message(forget(entity), "reaper"))
    await archive_all(log, store)
    other = await rebuilt(store)
    await aggregate(other, message(create(entity)))
    assert await viewed(other) == {}


async def test_nothing_is_written_over() -> None:
    log = MemoryLog()
    await log.publish([Message(EVENTS, "e1", b"{}")])
    with pytest.raises(Refused, match="it has commands"):
        await check_empty(log, "newest")
    log = MemoryLog()
    await log.publish([Message(STATE, "e1", b"{}", {"offset": "0"})])
    with pytest.raises(Refused, match="it has e1, for one"):
        await check_empty(log, "newest")


async def test_whenever_it_dies_it_is_called_again() -> None:
    log, store = MemoryLog(2), new_store()
    entities = [make_dataset(f"d{number}") for number in range(1200)]
    await aggregate(log, *(message(create(entity)) for entity in entities))
    await archive_all(log, store)
    archive = Archive(store)
    contents = await archive.contents()
    for moment in range(4):
        other, writes = MemoryLog(2, epoch=2), [moment]

        def crash(writes: list[int] = writes) -> None:
            writes[0] -= 1
            if writes[0] == -1:
                raise Crash

        other.crash = crash
        try:
            await rebuild(other, archive, contents, Reading(), 2, NOW)
            died = False
        except Crash:
            died = True
        assert died == (moment < 3)
        await check_empty(other, "newest")
        other.crash = lambda: None
        await rebuild(other, archive, contents, Reading(), 2, NOW)
        assert await viewed(other, entities) == await viewed(log, entities)


async def test_one_entity_is_found_wherever_it_lies() -> None:
    entity, store, log = make_evaluation("e1"), new_store(), MemoryLog(2)
    archive = Archive(store)
    await aggregate(log, message(create(entity)), message(status(entity, "Failed"), "informer"))
    await archive_all(log, store)
    await aggregate(log, message(labels(entity, a="1")), message(status(entity, "Deleted")))
    snapshots = 0
    for what in ("archive", "snapshot", "forget", "archive", "snapshot", "bury", "archive", "snapshot"):
        match what:
            case "archive":
                await archive_all(log, store)
            case "snapshot":
                snapshots += 1
                assert await make_snapshot(archive, await archive.contents(), 2, "l", START + snapshots * DAY)
            case "forget":
                await aggregate(log, message(forget(entity), "reaper"))
            case "bury":
                await aggregate(log, message(forget(entity), "reaper", after=timedelta(days=15)))
        entry = await last_entry(archive, "e1")
        assert entry
        content = living(entry)
        assert content["status"] == "Failed"
        assert (what == "archive" and snapshots == 0) or content["labels"] == {"a": "1"}
        assert await last_entry(archive, "e2") is None
    assert await remove_old(archive, DAY, START + 9 * DAY)
    assert await last_entry(archive, "e1") is None, "nothing of it is left"


def test_what_was_deleted_while_it_ran_has_failed() -> None:
    content = orjson.dumps({"kind": "Evaluation", "status": "Deleted", "reason": "DeleteCommand"})
    for before in ("Admitted", "Created", ""):
        entry = Entry(1, Record(STATE, 0, 0, "e1", content, {"deleted-from": before}, START))
        assert living(entry)["status"] == "Failed"
        assert living(entry)["reason"] == "Restored"
