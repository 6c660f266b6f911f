"""Reading a whole topic without holding up the process that reads: in pieces, bounded in number and in bytes.

A read of the SQLite log is made on the event loop's thread and never waits, so a loop of reads would let no other task
run: a lease could not be renewed, a request not be answered. Code that reads more than one batch does it by `pieces`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from steelyard.broker.log import Log, Record

PIECE = 200
"""Records between two pauses; `Log.read` bounds their bytes."""


async def pieces(
    log: Log, topic: str, partition: int, start: int = 0, end: int | None = None
) -> AsyncIterator[Sequence[Record]]:
    """The records of a partition from an offset on, piece by piece; all other tasks have their turn in between.

    `end`: the offset before which it stops, for who writes to the topic what would make it read on for ever.
    """
    while records := await log.read(topic, partition, start, PIECE):
        start = records[-1].offset + 1
        if end is not None and start > end:
            yield [record for record in records if record.offset < end]
            return
        yield records
        await asyncio.sleep(0)


async def partition_records(log: Log, topic: str, partition: int, start: int = 0) -> AsyncIterator[Record]:
    """Records of a partition, one by one."""
    async for records in pieces(log, topic, partition, start):
        for record in records:
            yield record


async def topic_pieces(
    log: Log, topic: str, starts: Mapping[int, int] | None = None
) -> AsyncIterator[Sequence[Record]]:
    """The pieces of every partition, one partition after the other, up to the ends of now."""
    for partition, end in (await log.ends(topic)).items():
        async for records in pieces(log, topic, partition, (starts or {}).get(partition, 0), end):
            yield records
        await asyncio.sleep(0)
