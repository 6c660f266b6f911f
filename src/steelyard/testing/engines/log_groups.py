"""Behaviour of the consumer groups of every log. Engines run each of `CASES`."""

import asyncio

from steelyard.broker.log import EVENTS, OUTCOMES, READ_BYTES, STATE, Batch, Fenced, Inbox, Log, Message
from steelyard.testing.engines.log import LATER, Case, everything, message


async def a_group_goes_on_where_it_was(log: Log) -> None:
    await log.publish([message(f"k{number}") for number in range(20)])
    first = await log.inbox("group", EVENTS)
    batch = await first.batch(limit=7, wait=0)
    assert len(batch.records) == 7
    await first.transact(batch)
    await first.close()
    second = await log.inbox("group", EVENTS)
    rest = await second.batch(limit=100, wait=0)
    assert {record.key for record in batch.records} | {record.key for record in rest.records} == {
        f"k{n}" for n in range(20)
    }
    assert len(rest.records) == 13
    await second.close()


async def records_without_a_commit_come_again(log: Log) -> None:
    await log.publish([message("a")])
    first = await log.inbox("group", EVENTS)
    assert len((await first.batch(wait=0)).records) == 1
    assert len((await first.batch(wait=0)).records) == 1
    await first.close()


async def outputs_and_positions_are_one(log: Log) -> None:
    await log.publish([message("a")])
    inbox = await log.inbox("group", EVENTS)
    batch = await inbox.batch(wait=0)
    written = await inbox.transact(batch, [message("a", "state", STATE), message("a", "done", OUTCOMES)])
    assert [record.topic for record in written] == [STATE, OUTCOMES]
    assert (await inbox.batch(wait=0)).records == []
    await inbox.close()


async def partitions_are_shared_out(log: Log) -> None:
    first, second = await log.inbox("group", EVENTS), await log.inbox("group", EVENTS)
    await log.publish([message(f"k{number}") for number in range(100)])
    seen: list[str] = []
    async with asyncio.timeout(60):
        while len(seen) < 100:
            for member in (first, second):
                batch = await member.batch(wait=0.05)
                await member.transact(batch)
                seen += [record.key for record in batch.records]
    assert sorted(seen) == sorted(f"k{n}" for n in range(100))
    await first.close()
    await second.close()


async def one_who_lost_its_partition_writes_nothing(log: Log) -> None:
    await log.publish([message("a")])
    inbox = await log.inbox("group", EVENTS)
    batch = await inbox.batch(wait=0)
    await inbox.close()
    try:
        await inbox.transact(batch, [message("a", "late", STATE)])
    except Fenced:
        assert await log.latest(STATE, "a") is None
        return
    raise AssertionError("a member without partitions could write")


async def fenced(inbox: Inbox, batch: Batch) -> bool:
    try:
        await inbox.transact(batch, [message("a", "late", STATE)])
    except Fenced:
        return True
    return False


async def a_batch_that_another_has_worked_off_is_refused(log: Log) -> None:
    """Even though the member has the partition again: it stalled, and another one came and went meanwhile."""
    await log.publish([message("a")])
    stalled = await log.inbox("group", EVENTS)
    batch = await stalled.batch(wait=0)
    await stalled.close()
    other = await log.inbox("group", EVENTS)
    await other.transact(await other.batch(wait=0), [message("a", "done", STATE)])
    await other.close()
    again = await log.inbox("group", EVENTS)
    assert (await again.batch(wait=0)).records == []
    assert await fenced(again, batch)
    (state,) = await everything(log, STATE)
    assert state.value == b"done"
    await again.close()


async def a_batch_is_committed_once(log: Log) -> None:
    await log.publish([message("a")])
    inbox = await log.inbox("group", EVENTS)
    batch = await inbox.batch(wait=0)
    assert not await fenced(inbox, batch)
    assert await fenced(inbox, batch)
    await inbox.close()


async def one_who_joins_gets_its_part_and_one_who_goes_gives_it_back(log: Log) -> None:
    first = await log.inbox("group", EVENTS)
    second = await log.inbox("group", EVENTS)
    await log.publish([message(f"k{n}") for n in range(100)])
    async with asyncio.timeout(8):  # neither waits for a lease to end
        mine, theirs = await _partitions(first), await _partitions(second)
        # One gives a part up before the other has it: for a moment neither does.
        while not (theirs and mine.isdisjoint(theirs) and mine | theirs == set(range(log.partitions))):
            mine, theirs = await _partitions(first), await _partitions(second)
        await second.close()
        while len(await _partitions(first)) < log.partitions:  # noqa: ASYNC110  (an inbox has no event for it)
            await asyncio.sleep(0.001)
    await first.close()


async def _partitions(inbox: Inbox) -> set[int]:
    """Return the partitions of a member, if every partition has records; nothing is committed."""
    return {record.partition for record in (await inbox.batch(wait=0)).records}


async def no_partition_waits_for_anothers_backlog(log: Log) -> None:
    await log.publish([Message(EVENTS, "a", b"x", partition=0)] * 200)
    await log.publish([Message(EVENTS, "b", b"y", partition=log.partitions - 1)])
    inbox = await log.inbox("group", EVENTS)
    batch = await inbox.batch(limit=50, wait=0)
    assert len(batch.records) == 50
    assert "b" in {record.key for record in batch.records}
    await inbox.close()


async def a_batch_stops_at_a_number_of_bytes(log: Log) -> None:
    """A batch and what follows from it are written as one transaction, which large records must not make endless."""
    await log.publish([Message(EVENTS, "a", b"x" * (READ_BYTES // 2), partition=0)] * 5)
    inbox = await log.inbox("group", EVENTS)
    given = []
    while records := (batch := await inbox.batch(wait=0)).records:
        given.append(sum(len(record.value or b"") for record in records))
        await inbox.transact(batch)
    assert sum(given) == READ_BYTES // 2 * 5
    assert max(given) <= READ_BYTES
    await inbox.close()


async def a_paused_partition_is_not_read(log: Log) -> None:
    await log.publish([Message(EVENTS, "a", b"x", partition=0), Message(EVENTS, "b", b"y", partition=1)])
    inbox = await log.inbox("group", EVENTS)
    inbox.pause(0)
    assert [record.key for record in (await inbox.batch(wait=0)).records] == ["b"]
    await inbox.close()
    another = await log.inbox("group", EVENTS)
    assert sorted(record.key for record in (await another.batch(wait=0)).records) == ["a", "b"]
    await another.close()


async def groups_are_strangers(log: Log) -> None:
    await log.publish([message("a")])
    first, second = await log.inbox("one", EVENTS), await log.inbox("two", EVENTS)
    await first.transact(await first.batch(wait=0))
    assert len((await second.batch(wait=0)).records) == 1
    assert (await first.batch(wait=0)).records == []
    await first.close()
    await second.close()


async def a_groups_position_and_what_it_has_not_read_are_known_to_others(log: Log) -> None:
    assert not await log.positions("group", EVENTS)
    inbox = await log.inbox("group", EVENTS)
    await log.publish([message(f"k{number}") for number in range(20)])
    everywhere = dict.fromkeys(range(log.partitions), 0)
    assert (
        sum((await log.unread(EVENTS, {**everywhere, **(await log.positions("group", EVENTS))})).values())
        >= 20
    )
    batch = await inbox.batch(limit=100, wait=0)
    await inbox.transact(batch)
    positions = await log.positions("group", EVENTS)
    assert {partition: positions[partition] for partition in batch.positions} == dict(batch.positions)
    # A log that has nothing but offsets counts the marks of transactions as well: less than what was read.
    read = await log.unread(EVENTS, positions)
    assert sum(read.values()) < 20
    (late,) = await log.publish([message("k1")])
    assert (await log.unread(EVENTS, positions))[late.partition] > read[late.partition]
    await inbox.close()


async def records_that_a_group_has_yet_to_read_do_not_expire(log: Log) -> None:
    """A log that was shut for weeks still knows what it has accepted."""
    inbox = await log.inbox("group", EVENTS)
    await log.publish([message("a", "1"), message("a", "2")])
    assert await log.expire(EVENTS, LATER) == 0
    await inbox.transact(await inbox.batch(limit=1, wait=0))
    assert await log.expire(EVENTS, LATER) >= 1
    assert [record.value for record in (await inbox.batch(wait=0)).records] == [b"2"]
    await inbox.close()


async def a_tombstone_that_a_group_has_yet_to_read_does_not_expire(log: Log) -> None:
    inbox = await log.inbox("group", STATE)
    await log.publish([message("a", None, STATE), message("b", None, STATE)])
    assert await log.expire(STATE, LATER) == 0
    first = await inbox.batch(limit=1, wait=0)
    await inbox.transact(first)
    assert await log.expire(STATE, LATER) == 1
    (left,) = (await inbox.batch(wait=0)).records
    assert [record.key for record in await everything(log, STATE)] == [left.key]
    await inbox.close()


async def a_message_wakes_a_member_that_waits(log: Log) -> None:
    inbox = await log.inbox("group", EVENTS)
    waiting = asyncio.create_task(inbox.batch(wait=300))
    await asyncio.sleep(0.01)
    await log.publish([message("a")])
    async with asyncio.timeout(60):
        assert len((await waiting).records) == 1
    await inbox.close()


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        a_group_goes_on_where_it_was,
        records_without_a_commit_come_again,
        outputs_and_positions_are_one,
        partitions_are_shared_out,
        one_who_lost_its_partition_writes_nothing,
        a_batch_that_another_has_worked_off_is_refused,
        a_batch_is_committed_once,
        one_who_joins_gets_its_part_and_one_who_goes_gives_it_back,
        no_partition_waits_for_anothers_backlog,
        a_batch_stops_at_a_number_of_bytes,
        a_paused_partition_is_not_read,
        groups_are_strangers,
        a_groups_position_and_what_it_has_not_read_are_known_to_others,
        records_that_a_group_has_yet_to_read_do_not_expire,
        a_tombstone_that_a_group_has_yet_to_read_does_not_expire,
        a_message_wakes_a_member_that_waits,
    )
}
