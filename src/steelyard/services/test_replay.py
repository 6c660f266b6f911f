"""Random histories of a log: whatever is read again, from wherever, leads to the same and says nothing new.

A history has commands of several entities in any order: doubled, late, of the wrong source, about entities that are
deleted, restored, forgotten or never existed. Each service is given it once, in batches of any size, and then again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounts.open import open_accounts_database
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, OUTCOMES, STATE, Message, Record
from steelyard.services.aggregator.aggregator import Aggregator
from steelyard.services.orchestrator.claim_parser import parse_claim
from steelyard.services.reaper.reaper import due, reap
from steelyard.services.simulation.commands import (
    create,
    documentation,
    forget,
    headers,
    labels,
    restore,
    status,
)
from steelyard.services.simulation.entities import START, make_dataset, make_evaluation
from steelyard.services.sinks.view import BackupOutlet, ViewOutlet
from steelyard.testing.engines.log import everything
from steelyard.views.in_memory import MemoryView
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import Command
from steelyard_schema.status import TERMINAL

ENTITIES: tuple[DyffEntity, ...] = (
    make_evaluation("e1"),
    make_dataset("d1", status="WaitingForUpload"),
)
SOURCES = ("api", "orchestrator", "informer", "reaper")
STATUSES = ("Created", "Admitted", "Ready", "Complete", "Failed", "Error", "Terminated", "Deleted")
_numbers = count()


DOINGS: dict[str, Callable[[DyffEntity, str | None, str], Command]] = {
    "create": lambda entity, value, new: create(entity),
    "status": lambda entity, value, new: status(entity, new),
    "reason": lambda entity, value, new: status(entity, "Created", "QuotaLimit", value),
    "labels": lambda entity, value, new: labels(entity, a=value),
    "documentation": lambda entity, value, new: documentation(entity, title=value),
    "delete": lambda entity, value, new: status(entity, "Deleted"),
    "restore": lambda entity, value, new: restore(entity),
    "forget": lambda entity, value, new: forget(entity),
}
LIFE = ("create", "labels", "delete", "restore", "documentation", "delete", "forget", "forget", "create")


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Messages of `workflows.events`: what happens in a life, in between anything at all, and what comes twice."""
    sent: list[Message] = []
    lives = {entity.id: iter(LIFE) for entity in ENTITIES}
    day = 0
    for _ in range(draw(st.sampled_from((6, 12, 24, 36)))):
        entity = draw(st.sampled_from(ENTITIES))
        what = draw(st.integers(0, 9))
        if what == 0 and sent:
            sent.append(draw(st.sampled_from(sent)))
            continue
        doing = next(lives[entity.id], "labels") if what > 3 else draw(st.sampled_from(sorted(DOINGS)))
        day += 14 if doing == "forget" else 0
        value, new = draw(st.sampled_from(("1", "2", None))), draw(st.sampled_from(STATUSES))
        source = "reaper" if doing == "forget" else "api"
        if doing in ("status", "reason"):
            source = draw(st.sampled_from(SOURCES))
        message_headers = headers(source, timedelta(days=day))
        sent.append(
            Message(EVENTS, entity.id, DOINGS[doing](entity, value, new).dump_json(), message_headers)
        )
    return sent


@dataclass
class WrittenHistory:
    """The aggregator's work on a history: the log, and each record that it ever wrote."""

    log: MemoryLog
    states: list[Record] = field(default_factory=list)
    outcomes: list[Record] = field(default_factory=list)


async def _judged(history: Sequence[Message], sizes: Sequence[int]) -> WrittenHistory:
    """Let the aggregator work on a history in batches of these sizes, over and over."""
    written = WrittenHistory(MemoryLog(2, clock=lambda: START))
    await written.log.publish(history)
    events = await _events(written.log, {})
    for batch in _batches(events, sizes):
        aggregator = Aggregator(written.log)
        aggregator.begin()
        outputs = [output for record in batch for output in await aggregator.step(record)]
        for record in await written.log.publish(outputs):
            (written.states if record.topic == STATE else written.outcomes).append(record)
    return written


async def _events(log: MemoryLog, starts: dict[int, int]) -> list[Record]:
    return [
        record
        for partition in range(log.partitions)
        for record in await log.read(EVENTS, partition, starts.get(partition, 0))
    ]


def _batches(records: Sequence[Record], sizes: Sequence[int]) -> list[Sequence[Record]]:
    batches: list[Sequence[Record]] = []
    at = 0
    while at < len(records):
        size = sizes[len(batches) % len(sizes)]
        batches.append(records[at : at + size])
        at += size
    return batches


SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=4)
STARTS = st.dictionaries(st.integers(0, 1), st.integers(0, 12), max_size=2)


@settings(deadline=None)
@given(histories(), SIZES, STARTS)
def test_the_aggregator(history: list[Message], sizes: list[int], starts: dict[int, int]) -> None:
    """Commands that an entity's state has seen say nothing at all; one that changed nothing says the same words."""

    async def case() -> None:
        written = await _judged(history, sizes)
        before = {state.key: state for state in written.states}
        said = defaultdict(set)
        for outcome in written.outcomes:
            said[outcome.headers["id"]].add(outcome.value)
        aggregator = Aggregator(written.log)
        aggregator.begin()
        for event in await _events(written.log, starts):
            outputs = await aggregator.step(event)
            assert [output.topic for output in outputs] in ([], [OUTCOMES])
            seen = event.key in before and event.offset <= int(before[event.key].headers["offset"])
            assert not (seen and outputs)
            for output in outputs:
                assert output.value in said[event.headers["id"]]

    asyncio.run(case())


@settings(max_examples=25, deadline=None)
@given(histories(), SIZES)
def test_the_size_of_batches_does_not_matter(history: list[Message], sizes: list[int]) -> None:
    async def case() -> None:
        one, other = await _judged(history, sizes), await _judged(history, [1])
        for topic in ("states", "outcomes"):
            assert [(record.key, record.value, record.headers) for record in getattr(one, topic)] == [
                (record.key, record.value, record.headers) for record in getattr(other, topic)
            ]

    asyncio.run(case())


@settings(deadline=None)
@given(histories())
def test_what_no_history_may_do(history: list[Message]) -> None:
    """Ended entities stay or are deleted, deleted ones are restored or forgotten, and forgotten ones stay so."""

    async def case() -> None:
        written = await _judged(history, [5])
        before: dict[str, Record] = {}
        for state in written.states:
            old = before.get(state.key)
            command = next(message for message in history if message.headers["id"] == state.headers["id"])
            kind = orjson.loads(command.value or b"")["command"]
            if old is None or old.value is None:
                assert kind == "CreateEntity"
            elif "forgotten" in old.headers:
                assert kind == "ForgetEntity"
                assert state.value is None
            else:
                assert int(state.headers["offset"]) > int(old.headers["offset"])
                _check_step(orjson.loads(old.value), state, kind)
            before[state.key] = state
        assert len({outcome.headers["id"] for outcome in written.outcomes}) == len(
            {message.headers["id"] for message in history}
        ), "every command has an outcome"

    asyncio.run(case())


def _check_step(old: dict[str, str], state: Record, command: str) -> None:
    if command == "ForgetEntity":
        assert old["status"] == "Deleted"
        return
    new = orjson.loads(state.value or b"")
    assert new != old
    if old["status"] == "Deleted":
        assert command == "RestoreEntity"
    elif old["status"] in TERMINAL:
        assert new["status"] in (old["status"], "Deleted")


@settings(max_examples=30, deadline=None)
@given(histories(), st.integers(0, 30), st.booleans())
def test_the_view_sink(history: list[Message], start: int, shuffled: bool) -> None:
    async def case() -> None:
        states = (await _judged(history, [4])).states
        view = MemoryView()
        outlet = ViewOutlet(view)
        await outlet.apply(states, 1, {0: 1})
        before = [await view.find(entity.id) for entity in ENTITIES]
        again = states[start:]
        await outlet.apply(again[::-1] if shuffled else again, 1, {0: 1})
        assert [await view.find(entity.id) for entity in ENTITIES] == before
        for id, stored in zip((entity.id for entity in ENTITIES), before, strict=True):
            newest = next((state for state in reversed(states) if state.key == id), None)
            shown = newest is not None and newest.value is not None and "forgotten" not in newest.headers
            assert (stored is not None) == shown
            assert stored is None or (newest and stored.json == newest.value)

    asyncio.run(case())


@settings(max_examples=25, deadline=None)
@given(histories(), st.integers(0, 30), SIZES)
def test_the_backup_sink(history: list[Message], start: int, sizes: list[int]) -> None:
    async def case() -> None:
        states = (await _judged(history, [4])).states
        store = open_store(f"memory://replay-{next(_numbers)}")
        outlet = BackupOutlet(store)
        for batch in _batches(states, sizes):
            await outlet.apply(batch, 1, {0: 1})
        before = await _objects(store)
        for batch in _batches(states[start:], sizes):
            await BackupOutlet(store).apply(batch, 1, {0: 1})
        assert await _objects(store) == before
        newest = {state.key: state.value for state in states}
        living = {id: text for id, text in newest.items() if text not in (None, b"{}")}
        assert {key.rpartition("/")[2]: text for key, text in before.items()} == {
            f"{id}.json": text for id, text in living.items()
        }

    asyncio.run(case())


async def _objects(store: Store) -> dict[str, bytes]:
    return {info.key: await store.get(info.key) async for info in store.list("entities/")}


@settings(max_examples=20, deadline=None)
@given(histories(), st.integers(0, 30), st.integers(0, 25))
def test_the_orchestrators_claims(history: list[Message], start: int, moment: int) -> None:
    """Admissions and releases in between change nothing."""

    async def case() -> None:
        states = (await _judged(history, [4])).states
        changes = [parse_claim(state, lambda entity: {"slots": "1"}) for state in states]
        accounts_database = await open_accounts_database("memory:")
        claims = accounts_database.claims
        leader = await claims.lead("one", START)
        await claims.apply(changes[:moment], 1, {0: 1}, leader)
        await claims.admit([entity.id for entity in ENTITIES], START, lambda id, counted: None, leader)
        await claims.apply(changes[moment:], 1, {0: 1}, leader)
        before = [await claims.get(entity.id) for entity in ENTITIES]
        # The topic is compacted: of an entity that was forgotten and made again, the forgetting is not read again.
        await claims.apply(list(dict(changes[start:]).items()), 1, {0: 1}, leader)
        assert [await claims.get(entity.id) for entity in ENTITIES] == before
        await accounts_database.close()

    asyncio.run(case())


@settings(max_examples=25, deadline=None)
@given(histories(), st.integers(0, 60))
def test_the_reaper(history: list[Message], days: int) -> None:
    """The reaper sends the same command until it is applied, then none; sent twice it counts once."""

    async def case() -> None:
        log = (await _judged(history, [4])).log
        now = START + timedelta(days=days)
        first, again = await _reaped(log, now), await _reaped(log, now)
        assert [output.headers["id"] for output in again] == [output.headers["id"] for output in first]
        aggregator = Aggregator(log)
        aggregator.begin()
        made = [
            output
            for message in (*first, *again)
            for output in await aggregator.step(await _at_the_end(log, message))
        ]
        assert len([output for output in made if output.topic == STATE]) == len(first)
        await log.publish(made)
        assert await reap(log, now) == 0

    asyncio.run(case())


async def _reaped(log: MemoryLog, now: datetime) -> list[Message]:
    """The commands that one pass gives."""
    commands = [
        command for record in await everything(log, STATE) if (command := due(record, now)) is not None
    ]
    assert await reap(log, now) == len(commands)
    return commands


_offsets = count(1000)


async def _at_the_end(log: MemoryLog, message: Message) -> Record:
    (first,) = await log.publish([replace(message, topic="elsewhere")])
    return replace(first, topic=EVENTS, offset=next(_offsets))
