"""What every log keeps to. `test_memory.py` and `test_sqlite.py` run these cases; a new form adds a file like them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from steelyard.broker.log import EVENTS, OUTCOMES, STATE, Fenced, Log, Message, Record

LATER = datetime.now(UTC) + timedelta(days=1)
Case = Callable[[Log], Awaitable[None]]


def message(key: str, value: str | None = "x", topic: str = EVENTS, **headers: str) -> Message:
    return Message(topic, key, None if value is None else value.encode(), headers)


async def everything(log: Log, topic: str) -> list[Record]:
    return [each for partition in range(log.partitions) for each in await log.read(topic, partition, 0)]


async def keys_keep_their_order(log: Log) -> None:
    await log.publish([message(f"k{number % 5}", str(number)) for number in range(50)])
    found = await everything(log, EVENTS)
    for key in {each.key for each in found}:
        mine = [each for each in found if each.key == key]
        assert len({each.partition for each in mine}) == 1
        assert [each.value for each in mine] == [str(n).encode() for n in range(50) if f"k{n % 5}" == key]
        assert [each.offset for each in mine] == sorted({each.offset for each in mine})


async def a_message_is_read_as_it_was_written(log: Log) -> None:
    (written,) = await log.publish([message("a", "v", source="api", id="1")])
    (read,) = await log.read(EVENTS, written.partition, written.offset)
    assert read == written
    assert dict(read.headers) == {"source": "api", "id": "1"}
    assert (await log.ends(EVENTS))[written.partition] == written.offset + 1


async def a_partition_can_be_chosen(log: Log) -> None:
    (written,) = await log.publish([Message(STATE, "a", b"v", partition=log.partitions - 1)])
    assert written.partition == log.partitions - 1
    assert [each.key for each in await log.read(STATE, log.partitions - 1, 0)] == ["a"]


async def a_compacted_topic_keeps_the_newest(log: Log) -> None:
    await log.publish([message("a", "1", STATE), message("b", "2", STATE), message("a", "3", STATE)])
    assert sorted((each.key, each.value) for each in await everything(log, STATE)) == [
        ("a", b"3"),
        ("b", b"2"),
    ]
    newest = await log.latest(STATE, "a")
    assert newest is not None
    assert newest.value == b"3"
    assert await log.latest(STATE, "c") is None


async def a_tombstone_stays_until_it_expires(log: Log) -> None:
    await log.publish([message("a", "1", STATE), message("a", None, STATE), message("b", "1", STATE)])
    found = await log.latest(STATE, "a")
    assert found is not None
    assert found.value is None
    assert await log.expire(STATE, LATER) == 1
    assert [each.key for each in await everything(log, STATE)] == ["b"]
    assert await log.latest(STATE, "a") is None


async def old_records_expire(log: Log) -> None:
    (first, _) = await log.publish([message("a"), message("b")])
    assert await log.expire(EVENTS, datetime(2000, 1, 1, tzinfo=UTC)) == 0
    assert await log.expire(EVENTS, LATER) == 2
    (again,) = await log.publish([message("a")])
    assert again.offset > first.offset, "an offset was given twice"


async def a_group_goes_on_where_it_was(log: Log) -> None:
    await log.publish([message(f"k{number}") for number in range(20)])
    first = await log.inbox("group", EVENTS)
    batch = await first.batch(limit=7, wait=0)
    assert len(batch.records) == 7
    await first.transact(batch)
    await first.close()
    second = await log.inbox("group", EVENTS)
    rest = await second.batch(limit=100, wait=0)
    assert {each.key for each in batch.records} | {each.key for each in rest.records} == {
        f"k{n}" for n in range(20)
    }
    assert len(rest.records) == 13
    await second.close()


async def what_was_not_committed_comes_again(log: Log) -> None:
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
    assert [each.topic for each in written] == [STATE, OUTCOMES]
    assert (await inbox.batch(wait=0)).records == []
    await inbox.close()


async def partitions_are_shared_out(log: Log) -> None:
    first, second = await log.inbox("group", EVENTS), await log.inbox("group", EVENTS)
    await log.publish([message(f"k{number}") for number in range(100)])
    seen: list[str] = []
    async with asyncio.timeout(20):
        while len(seen) < 100:
            for member in (first, second):
                batch = await member.batch(wait=0.05)
                await member.transact(batch)
                seen += [each.key for each in batch.records]
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


async def a_write_wakes_who_waits(log: Log) -> None:
    inbox = await log.inbox("group", EVENTS)
    waiting = asyncio.create_task(inbox.batch(wait=30))
    await asyncio.sleep(0.01)
    await log.publish([message("a")])
    async with asyncio.timeout(5):
        assert len((await waiting).records) == 1
    version = log.version()
    assert await log.changed(version, 0.01) == version
    await log.publish([message("b")])
    assert await log.changed(version, 30) != version
    await inbox.close()


CASES: dict[str, Case] = {
    each.__name__: each
    for each in (
        keys_keep_their_order,
        a_message_is_read_as_it_was_written,
        a_partition_can_be_chosen,
        a_compacted_topic_keeps_the_newest,
        a_tombstone_stays_until_it_expires,
        old_records_expire,
        a_group_goes_on_where_it_was,
        what_was_not_committed_comes_again,
        outputs_and_positions_are_one,
        partitions_are_shared_out,
        one_who_lost_its_partition_writes_nothing,
        a_write_wakes_who_waits,
    )
}
