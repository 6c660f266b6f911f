"""Due records: when the reaper sends a command, and what the aggregator makes of it."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, HORIZON, OUTCOMES, STATE, Message, Record
from steelyard.broker.quarantine.administration import list_entries
from steelyard.services.aggregator.apply import apply_command
from steelyard.services.aggregator.messages import read_state
from steelyard.services.backup.archive import Archive, Segment
from steelyard.services.reaper.reaper import COMMANDS_FOR, due, reap, run_reaper
from steelyard.services.simulation.commands import (
    aggregate,
    create,
    forget,
    labels,
    message,
    record,
    restore,
    status,
)
from steelyard.services.simulation.entities import START, make_evaluation
from steelyard.testing.engines.log import everything
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.commands import Command
from steelyard_schema.retention import DELETED_FOR

EVALUATION = make_evaluation()
DAY = timedelta(days=1)


def state(*commands: Command) -> Record:
    """The newest state record after these commands; the last of them came at the start."""
    newest: Record | None = None
    for at, command in enumerate(commands):
        sent = record(message(command, "reaper" if command.command == "ForgetEntity" else "api"), at)
        applied = apply_command(command, sent, read_state(newest), 1)
        assert applied
        assert applied.state
        newest = replace(sent, topic=STATE, value=applied.state.value, headers=applied.state.headers)
    assert newest
    return newest


CREATED = (create(EVALUATION),)
DELETED = (*CREATED, status(EVALUATION, "Deleted"))
FORGOTTEN = (*DELETED, forget(EVALUATION))
DUE: dict[str, tuple[tuple[Command, ...], timedelta, bool]] = {
    "what lives is not": (CREATED, 1000 * DAY, False),
    "what was deleted a moment ago is not": (DELETED, DELETED_FOR - timedelta(seconds=1), False),
    "what was deleted a week ago is": (DELETED, DELETED_FOR, True),
    "what was restored is not": ((*DELETED, restore(EVALUATION)), 1000 * DAY, False),
    "a marker is kept as long as commands": (FORGOTTEN, COMMANDS_FOR - timedelta(seconds=1), False),
    "and no longer": (FORGOTTEN, COMMANDS_FOR, True),
}


@pytest.mark.parametrize(("commands", "after", "expected"), DUE.values(), ids=DUE)
def test_what_is_due(commands: tuple[Command, ...], after: timedelta, expected: bool) -> None:
    assert (due(state(*commands), START + after) is not None) == expected


def test_a_tombstone_is_left_alone() -> None:
    gone = replace(state(*FORGOTTEN), value=None)
    assert due(gone, START + 1000 * DAY) is None


def test_it_says_whom_it_means_and_in_which_state() -> None:
    deleted = state(*DELETED)
    command = due(deleted, START + DELETED_FOR)
    assert command
    assert (command.topic, command.key, command.headers["source"]) == (EVENTS, EVALUATION.id, "reaper")
    data = orjson.loads(command.value or b"")["data"]
    revision = orjson.loads(deleted.value or b"")["metadata"]["revision"]
    assert data == {
        "id": EVALUATION.id, "kind": "Evaluation", "expectedStatus": "Deleted", "expectedRevision": revision
    }  # fmt: skip
    later = due(deleted, START + 2 * DELETED_FOR)
    assert later
    assert later.headers["id"] == command.headers["id"], "said twice of one state, it is one command"


@pytest.mark.parametrize("restored", [True, False])
async def test_what_was_restored_meanwhile_stays(restored: bool) -> None:
    log = MemoryLog(clock=lambda: START)
    await aggregate(log, *(message(command) for command in DELETED))
    (newest,) = await everything(log, STATE)
    command = due(newest, START + DELETED_FOR)
    assert command
    meanwhile = [message(restore(EVALUATION)), message(status(EVALUATION, "Deleted"))] if restored else []
    await aggregate(log, *meanwhile, command)
    (newest,) = await everything(log, STATE)
    assert ("forgotten" in newest.headers) == (not restored)


async def test_an_entity_goes_step_by_step() -> None:
    now = START

    def clock() -> datetime:
        return now

    log = MemoryLog(clock=clock)
    await aggregate(log, *(message(command) for command in DELETED))
    for days, text in ((6, b"{...}"), (7, b"{}"), (20, b"{}"), (21, None), (34, None)):
        now = START + days * DAY
        await reap(log, now)
        await aggregate(log)
        (newest,) = await everything(log, STATE)
        assert (newest.value if newest.value in (b"{}", None) else b"{...}") == text
        if text == b"{}":
            assert await _refused(log, now)
    now = START + 36 * DAY
    await reap(log, now)
    assert await everything(log, STATE) == []
    assert await everything(log, EVENTS) == []


async def _refused(log: MemoryLog, now: datetime) -> bool:
    """Return whether a create and an edit of a forgotten entity come to nothing."""
    (before,) = await everything(log, STATE)
    late = [
        message(command, after=now - START) for command in (create(EVALUATION), labels(EVALUATION, a="1"))
    ]
    await aggregate(log, *late)
    return await everything(log, STATE) == [before]


async def test_commands_and_outcomes_have_their_time() -> None:
    now = START
    log = MemoryLog(clock=lambda: now)
    await aggregate(log, message(create(EVALUATION)))
    now = START + timedelta(hours=2)
    await reap(log, now)
    assert await everything(log, OUTCOMES) == []
    assert len(await everything(log, EVENTS)) == 1
    now = START + COMMANDS_FOR + timedelta(seconds=1)
    await reap(log, now)
    assert await everything(log, EVENTS) == []
    assert len(await everything(log, STATE)) == 1, "the state is the truth, and stays"


async def test_commands_that_are_not_applied_yet_are_kept() -> None:
    log = MemoryLog(clock=lambda: START)
    await aggregate(log)
    await log.publish([message(create(EVALUATION))])
    await reap(log, START + 2 * COMMANDS_FOR)
    await aggregate(log)
    assert len(await everything(log, STATE)) == 1


async def test_it_ends_on_request() -> None:
    stop = asyncio.Event()
    log = MemoryLog(clock=lambda: START)
    await aggregate(log, *(message(command) for command in DELETED))
    running = asyncio.create_task(
        run_reaper(log, open_store("memory://reaper"), stop=stop, clock=lambda: START + DELETED_FOR)
    )
    async with asyncio.timeout(60):
        while not _forgets(await everything(log, EVENTS)):
            await log.wait_for_change(log.version(), 0.01)
        stop.set()
        await running


def _forgets(events: list[Record]) -> list[Message | Record]:
    return [event for event in events if b"ForgetEntity" in (event.value or b"")]


async def test_an_entity_that_it_cannot_read_stops_no_other() -> None:
    now = START
    log = MemoryLog(clock=lambda: now)
    await aggregate(log, *(message(command) for command in DELETED))
    (good,) = await everything(log, STATE)
    broken = (good.value or b"").replace(b'"lastTransitionTime":"2026', b'"lastTransitionTime":"soon')
    assert broken != good.value
    cut = b'{"status":"Deleted"'
    await log.publish(
        [Message(STATE, key, value, good.headers) for key, value in (("a", broken), ("b", cut))]
    )
    now = START + DELETED_FOR
    for _ in range(2):
        assert await reap(log, now) == 1
    assert {(entity.key, entity.consumer) for entity in await list_entries(log)} == {
        ("a", "reaper"),
        ("b", "reaper"),
    }
    await log.publish([Message(STATE, key, None, good.headers) for key in ("a", "b")])
    await reap(log, now)
    assert await list_entries(log) == []


@pytest.mark.parametrize(("behind", "stays"), [(1, True), (0, True), (-1, False), (-2, False)])
async def test_a_tombstone_goes_only_after_the_record_itself_is_in_the_backup(
    behind: int, stays: bool
) -> None:
    """`behind` is by how many records the backup ends before the tombstone; at 0 it is the next one to be read."""
    log = MemoryLog()
    commands = (message(create(EVALUATION)), message(status(EVALUATION, "Deleted")))
    await aggregate(log, *commands, message(forget(EVALUATION), "reaper"))
    await aggregate(log, message(forget(EVALUATION), "reaper", after=COMMANDS_FOR))
    state = await log.latest(STATE, EVALUATION.id)
    assert state
    assert state.value is None
    archived = {state.partition: state.offset - behind}
    await reap(log, datetime.now(UTC) + 1000 * DAY, archived=archived)
    assert (await log.latest(STATE, EVALUATION.id) is not None) is stays


async def test_a_tombstone_that_the_backup_lacks_stays() -> None:
    log, backup = MemoryLog(), open_store("memory://reaper-backup")
    commands = (message(create(EVALUATION)), message(status(EVALUATION, "Deleted")))
    await aggregate(log, *commands, message(forget(EVALUATION), "reaper"))
    await aggregate(log, message(forget(EVALUATION), "reaper", after=COMMANDS_FOR))
    late = datetime.now(UTC) + 1000 * DAY
    archive = Archive(backup)
    await reap(log, late, archived=await archive.positions(log.epoch))
    state = await log.latest(STATE, EVALUATION.id)
    assert state
    assert await log.latest(HORIZON, f"{STATE}/{state.partition}") is None
    segment = Segment(log.epoch, state.partition, 0, state.offset)
    await archive.write(log.id, log.partitions, segment, [state])
    await reap(log, late, archived=await archive.positions(log.epoch))
    assert await log.latest(STATE, EVALUATION.id) is None
