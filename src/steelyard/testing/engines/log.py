"""Behaviour of every log, apart from consumer groups (`log_groups`). Engines run each of `CASES`."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from steelyard.broker.log import EVENTS, QUARANTINE, READ_BYTES, STATE, Log, LogError, Message, Record

LATER = datetime.now(UTC) + timedelta(days=1)
Case = Callable[[Log], Awaitable[None]]


def message(key: str, value: str | None = "x", topic: str = EVENTS, **headers: str) -> Message:
    return Message(topic, key, None if value is None else value.encode(), headers)


async def everything(log: Log, topic: str) -> list[Record]:
    return [record for partition in range(log.partitions) for record in await log.read(topic, partition, 0)]


async def keys_keep_their_order(log: Log) -> None:
    await log.publish([message(f"k{number % 5}", str(number)) for number in range(50)])
    records = await everything(log, EVENTS)
    for key in {record.key for record in records}:
        mine = [record for record in records if record.key == key]
        assert len({record.partition for record in mine}) == 1
        assert [record.value for record in mine] == [str(n).encode() for n in range(50) if f"k{n % 5}" == key]
        assert [record.offset for record in mine] == sorted({record.offset for record in mine})


async def a_message_is_read_as_it_was_written(log: Log) -> None:
    (written,) = await log.publish([message("a", "v", source="api", id="1")])
    (read,) = await log.read(EVENTS, written.partition, written.offset)
    assert read == written
    assert dict(read.headers) == {"source": "api", "id": "1"}
    assert (await log.ends(EVENTS))[written.partition] > written.offset


async def a_partition_can_be_chosen(log: Log) -> None:
    (written,) = await log.publish([Message(EVENTS, "a", b"v", partition=log.partitions - 1)])
    assert written.partition == log.partitions - 1
    assert [record.key for record in await log.read(EVENTS, log.partitions - 1, 0)] == ["a"]


async def a_compacted_topic_keeps_the_newest(log: Log) -> None:
    await log.publish([message("a", "1", STATE), message("b", "2", STATE), message("a", "3", STATE)])
    assert sorted((record.key, record.value) for record in await everything(log, STATE)) == [
        ("a", b"3"),
        ("b", b"2"),
    ]
    newest = await log.latest(STATE, "a")
    assert newest is not None
    assert newest.value == b"3"
    assert await log.latest(STATE, "c") is None
    several = await log.find_latest(STATE, {"a", "b", "c"})
    assert {key: record.value for key, record in several.items()} == {"a": b"3", "b": b"2"}


async def a_tombstone_stays_until_it_expires(log: Log) -> None:
    await log.publish([message("a", "1", STATE), message("a", None, STATE), message("b", "1", STATE)])
    tombstone = await log.latest(STATE, "a")
    assert tombstone is not None
    assert tombstone.value is None
    assert await log.expire(STATE, LATER) == 1
    assert [record.key for record in await everything(log, STATE)] == ["b"]
    assert await log.latest(STATE, "a") is None


async def old_records_expire(log: Log) -> None:
    (first, _) = await log.publish([message("a"), message("b")])
    assert await log.expire(EVENTS, datetime(2000, 1, 1, tzinfo=UTC)) == 0
    # A log may count what is not a record of a reader, such as the end of a transaction.
    assert await log.expire(EVENTS, LATER) >= 2
    assert await everything(log, EVENTS) == []
    (again,) = await log.publish([message("a")])
    assert again.offset > first.offset, "an offset was given twice"


async def all_or_nothing_is_published(log: Log) -> None:
    refusal = ""
    try:
        await log.publish([message("a"), Message(EVENTS, "b", b"x", partition=log.partitions)])
    except LogError as error:
        refusal = str(error)
    assert EVENTS in refusal, "a partition that is not there was accepted"
    assert await everything(log, EVENTS) == []


async def state_and_quarantine_are_separate_topics(log: Log) -> None:
    await log.publish([message("a", "state", STATE), message("a", "mark", QUARANTINE)])
    newest = [await log.latest(topic, "a") for topic in (STATE, QUARANTINE, EVENTS)]
    assert [record.value if record else None for record in newest] == [b"state", b"mark", None]


async def many_at_once_are_all_there_and_each_learns_its_own(log: Log) -> None:
    written = await asyncio.gather(
        *(log.publish([message(f"k{n}", f"{n}-{m}") for m in range(n % 3)]) for n in range(60))
    )
    for number, records in enumerate(written):
        assert [record.value for record in records] == [f"{number}-{m}".encode() for m in range(number % 3)]
        for record in records:
            assert list(await log.read(EVENTS, record.partition, record.offset, 1)) == [record]
    assert len(await everything(log, EVENTS)) == sum(n % 3 for n in range(60))


async def one_who_gives_up_waiting_disturbs_no_other(log: Log) -> None:
    tasks = [asyncio.create_task(log.publish([message(f"k{n}")])) for n in range(5)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert {record.key for record in await everything(log, EVENTS)} >= {f"k{n}" for n in range(1, 5)}


async def a_topic_of_any_name_can_be_used(log: Log) -> None:
    (written,) = await log.publish([message("a", "1", "another.topic")])
    assert await log.read("another.topic", written.partition, 0) == [written]
    assert await everything(log, "never.written") == []


async def reading_stops_at_the_limit_and_goes_on_after_it(log: Log) -> None:
    await log.publish([Message(EVENTS, "a", str(n).encode(), partition=2) for n in range(300)])
    start, seen = 0, []
    while records := await log.read(EVENTS, 2, start, 70):
        assert len(records) <= 70
        seen += [record.value for record in records]
        start = records[-1].offset + 1
    assert seen == [str(n).encode() for n in range(300)]


async def reading_stops_at_a_number_of_bytes(log: Log) -> None:
    """A few hundred records of half a megabyte would hold up the process that reads them, and fill its memory.

    A read may return fewer records than fit: a log on servers does not wait for those that its broker has not sent yet.
    """
    sizes = [READ_BYTES // 2, READ_BYTES // 2, 1, READ_BYTES * 2, 1, READ_BYTES]
    await log.publish([Message(EVENTS, "a", b"x" * size, partition=0) for size in sizes])
    lengths, start = [], 0
    while records := await log.read(EVENTS, 0, start):
        lengths.append([len(record.value or b"") for record in records])
        start = records[-1].offset + 1
    assert [length for read in lengths for length in read] == sizes
    assert [read for read in lengths if len(read) > 1 and sum(read) > READ_BYTES] == []


async def several_partitions_are_read_at_once(log: Log) -> None:
    await log.publish([Message(EVENTS, "a", str(n).encode(), partition=n % 2 * 2) for n in range(7)])
    starts = dict.fromkeys(range(log.partitions), 0)
    seen: dict[int, list[bytes | None]] = {}
    while read := await log.read_each(EVENTS, starts, 2):
        for partition, records in read.items():
            assert 0 < len(records) <= 2
            assert {record.partition for record in records} == {partition}
            seen.setdefault(partition, []).extend(record.value for record in records)
            starts[partition] = records[-1].offset + 1
    assert seen == {0: [b"0", b"2", b"4", b"6"], 2: [b"1", b"3", b"5"]}


async def a_write_wakes_who_waits(log: Log) -> None:
    assert await everything(log, EVENTS) == []
    version = log.version()
    assert await log.wait_for_change(version, 0.01) == version
    await log.publish([message("b")])
    assert await log.wait_for_change(version, 30) != version


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        keys_keep_their_order,
        a_message_is_read_as_it_was_written,
        a_partition_can_be_chosen,
        a_compacted_topic_keeps_the_newest,
        a_tombstone_stays_until_it_expires,
        old_records_expire,
        all_or_nothing_is_published,
        state_and_quarantine_are_separate_topics,
        many_at_once_are_all_there_and_each_learns_its_own,
        one_who_gives_up_waiting_disturbs_no_other,
        a_topic_of_any_name_can_be_used,
        reading_stops_at_the_limit_and_goes_on_after_it,
        reading_stops_at_a_number_of_bytes,
        several_partitions_are_read_at_once,
        a_write_wakes_who_waits,
    )
}
