"""The aggregator on a log: batches, malformed commands, a schema of the future, and being killed at any write."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import orjson
import pytest

from steelyard.broker.consume import Malformed, StopPartition, consume_once, drop, release
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import (
    AGGREGATOR,
    DEAD,
    EVENTS,
    OUTCOMES,
    STATE,
    Batch,
    Fenced,
    Log,
    Message,
    Record,
)
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.simulation.replay import crash_everywhere, work_off, work_off_again
from steelyard.services.aggregator.aggregator import Aggregator
from steelyard.services.simulation.commands import (
    aggregate,
    create,
    documentation,
    forget,
    labels,
    message,
    record,
    status,
)
from steelyard.services.simulation.entities import make_evaluation
from steelyard.testing.engines.log import everything

EVALUATION = make_evaluation()


async def outcomes(log: Log) -> list[str]:
    return [orjson.loads(record.value or b"")["outcome"] for record in await everything(log, OUTCOMES)]


async def test_commands_of_one_batch_see_one_another() -> None:
    log = MemoryLog()
    await aggregate(log, *(message(command) for command in (create(EVALUATION), labels(EVALUATION, a="1"))))
    (state,) = await everything(log, STATE)
    assert orjson.loads(state.value or b"")["labels"] == {"a": "1"}
    assert await outcomes(log) == ["applied", "applied"]


async def test_what_an_aborted_batch_has_made_is_forgotten() -> None:
    """Another one worked it off meanwhile, and more: what this one kept of it is old."""

    async def fenced(batch: Batch, outputs: Sequence[Message]) -> Sequence[Record]:
        raise Fenced("another has this partition")

    log = MemoryLog()
    await aggregate(log, message(create(EVALUATION)))
    await log.publish([message(labels(EVALUATION, a="1"))])
    stalled, inbox = Aggregator(log), await log.inbox(AGGREGATOR, EVENTS)
    with pytest.raises(Fenced):
        await consume_once(log, await inbox.batch(wait=0), fenced, stalled)
    await inbox.close()
    await aggregate(log, message(labels(EVALUATION, b="2")))
    await log.publish([message(labels(EVALUATION, c="3"))])
    inbox = await log.inbox(AGGREGATOR, EVENTS)
    await consume_once(log, await inbox.batch(wait=0), inbox.transact, stalled)
    (state,) = await everything(log, STATE)
    assert orjson.loads(state.value or b"")["labels"] == {"a": "1", "b": "2", "c": "3"}


async def test_what_a_command_leads_to_stops_no_other_entity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any unforeseen error ends the work on one entity alone: half a batch's states are not kept of it."""
    log, other = MemoryLog(1), make_evaluation("e2")
    sent = [message(create(entity)) for entity in (EVALUATION, other)]
    odd = message(labels(EVALUATION, a="1"), odd="1")
    real = Aggregator.step

    async def step(self: Aggregator, record: Record) -> Sequence[Message]:
        outputs = await real(self, record)
        if "odd" in record.headers:
            raise OverflowError("Integer exceeds 64-bit range")
        return outputs

    monkeypatch.setattr(Aggregator, "step", step)
    await aggregate(log, *sent, odd, message(labels(other, b="2")), message(labels(EVALUATION, c="3")))
    states = {
        record.key: orjson.loads(record.value or b"")["labels"] for record in await everything(log, STATE)
    }
    assert states == {"e1": {}, "e2": {"b": "2"}}
    (held,) = await list_entries(log)
    assert (held.key, held.waiting) == ("e1", 2)
    monkeypatch.setattr(Aggregator, "step", real)
    await release(log, EVENTS, "e1")
    await aggregate(log)
    states = {
        record.key: orjson.loads(record.value or b"")["labels"] for record in await everything(log, STATE)
    }
    assert states == {"e1": {"a": "1", "c": "3"}, "e2": {"b": "2"}}


async def test_a_state_lies_in_its_events_partition() -> None:
    log = MemoryLog()
    (event,) = await log.publish([replace(message(create(EVALUATION)), partition=5)])
    await aggregate(log)
    (state,) = await everything(log, STATE)
    assert (state.partition, event.partition) == (5, 5)


def _without(sent: Message, name: str) -> Message:
    return replace(sent, headers={key: value for key, value in sent.headers.items() if key != name})


GOOD = message(labels(EVALUATION, a="1"))
MALFORMED = {
    "headers.id": _without(GOOD, "id"),
    "headers.source": _without(GOOD, "source"),
    "headers.time": _without(GOOD, "time"),
    "headers.time: 'noon'": replace(GOOD, headers={**GOOD.headers, "time": "noon"}),
    "headers.time: '2030-01-01T00:00:00'": replace(
        GOOD, headers={**GOOD.headers, "time": "2030-01-01T00:00:00"}
    ),
    "value": replace(GOOD, value=None),
    "data.id": replace(GOOD, key="other"),
    "command": replace(GOOD, value=b'{"schemaVersion":"0.1","command":"Explode"}'),
}


@pytest.mark.parametrize(("named", "sent"), MALFORMED.items(), ids=MALFORMED)
async def test_what_is_malformed_is_named(named: str, sent: Message) -> None:
    with pytest.raises(Malformed, match=f"^{named}"):
        await Aggregator(MemoryLog()).step(record(sent, 1))


async def test_a_schema_of_the_future_stops_the_partition() -> None:
    newer = replace(GOOD, value=(GOOD.value or b"").replace(b'"0.1"', b'"0.2"'))
    with pytest.raises(StopPartition, match=r"schemaVersion 0\.2"):
        await Aggregator(MemoryLog()).step(record(newer, 1))


async def test_an_entity_that_a_newer_program_wrote_stops_the_partition() -> None:
    log = MemoryLog()
    await aggregate(log, message(create(EVALUATION)))
    (state,) = await everything(log, STATE)
    newer = (state.value or b"").replace(b'"0.1"', b'"0.2"')
    await log.publish([Message(STATE, state.key, newer, state.headers, state.partition)])
    with pytest.raises(StopPartition, match=r"entity's schemaVersion 0\.2"):
        await Aggregator(log).step(record(GOOD, 9))


async def test_an_entity_of_no_version_is_malformed() -> None:
    log = MemoryLog()
    await aggregate(log, message(create(EVALUATION)))
    (state,) = await everything(log, STATE)
    broken = (state.value or b"").replace(b'"0.1"', b'"new"')
    await log.publish([Message(STATE, state.key, broken, state.headers, state.partition)])
    with pytest.raises(Malformed, match=r"entity's schemaVersion: 'new' is not a version"):
        await Aggregator(log).step(record(GOOD, 9))


async def test_what_was_put_aside_is_not_put_aside_again() -> None:
    """Records that were dealt with lead to nothing when they are read again."""
    log = MemoryLog()
    bad = replace(GOOD, value=b"{")
    sent = [message(create(EVALUATION)), bad, message(labels(EVALUATION, b="2"))]
    await aggregate(log, *sent)
    assert len(await everything(log, DEAD)) == 1
    await drop(log, EVENTS, EVALUATION.id)
    await aggregate(log)
    assert await outcomes(log) == ["applied", "applied"]
    aggregator = Aggregator(log)
    again = [record for record in await everything(log, EVENTS) if record.value is not None]
    assert len(again) == 3
    assert [output for event in again for output in await aggregator.step(event)] == []


async def test_whenever_it_dies_every_command_counts_once() -> None:
    """The process dies at each of its writes, before and after it is durable; in small batches and in one."""
    expected = await _states(_history())
    for limit in (2, 500):
        async for log in crash_everywhere(_history(), partial(_work_off, limit=limit)):
            assert await _content(log) == expected
            assert len(await everything(log, OUTCOMES)) == len(_history())


async def _work_off(log: Log, limit: int = 500) -> None:
    await work_off(log, AGGREGATOR, EVENTS, Aggregator, [limit])


@pytest.mark.parametrize("start", range(9))
async def test_a_member_that_lost_its_positions_changes_nothing(start: int) -> None:
    """Records that were put aside, or wait, are not put aside again either."""
    log = MemoryLog(1)
    bad = replace(GOOD, value=b"{")
    await log.publish([*_history()[:2], bad, message(labels(EVALUATION, b="2"))])
    await _work_off(log)
    await drop(log, EVENTS, EVALUATION.id)
    await log.publish([*_history()[2:4], bad, message(labels(EVALUATION, c="3"))])
    await _work_off(log)
    assert await work_off_again(log, AGGREGATOR, EVENTS, Aggregator, {0: start}) == 0


def _history() -> Sequence[Message]:
    days = timedelta(days=1)
    return [
        replace(sent, headers={**sent.headers, "id": f"{at:02}" * 16})
        for at, sent in enumerate(
            [
                message(create(EVALUATION)),
                message(status(EVALUATION, "Admitted"), "orchestrator"),
                message(documentation(EVALUATION, title="t")),
                message(status(EVALUATION, "Complete"), "informer"),
                message(status(EVALUATION, "Admitted"), "orchestrator"),
                message(status(EVALUATION, "Deleted")),
                message(forget(EVALUATION), "reaper", after=7 * days),
                message(labels(EVALUATION, a="1"), after=8 * days),
                message(forget(EVALUATION), "reaper", after=21 * days),
            ]
        )
    ]


async def _states(history: Sequence[Message]) -> list[object]:
    log = MemoryLog()
    await aggregate(log, *history)
    return await _content(log)


async def _content(log: Log) -> list[object]:
    return [(record.key, record.value, record.headers) for record in await everything(log, STATE)]
