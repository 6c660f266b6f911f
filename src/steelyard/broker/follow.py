"""The loop of consumers whose effects lie in a database of their own, which also holds the positions.

Records go into an outlet, many at once. Of a batch that the outlet cannot take, the parts that it can take go in, and
a record at which it fails alone is put aside: a mark in QUARANTINE, under the consumer's name, says so
(`quarantine/marks.py`). The topic is compacted and a record is its key's whole state, so that nothing needs to wait:
the key's next record is tried as any other, and ends its quarantine. A release, and every start of the consumer,
tries the newest record once more.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from steelyard.broker.consume import BATCH, rest_until_changed
from steelyard.broker.log import Log, Record
from steelyard.broker.quarantine.dead_letters import MessagePosition, describe_error
from steelyard.broker.quarantine.marks import Aside
from steelyard.broker.retries import Retries
from steelyard_common.errors import is_engine_failure

_log = logging.getLogger(__name__)


class Outlet(Protocol):
    """A database that keeps positions along with its contents."""

    async def positions(self, epoch: int) -> Mapping[int, int]:
        """Positions at which each partition goes on; empty for a log of another epoch."""
        ...

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        """Write the records and the positions, both or neither. Records that come again change nothing."""
        ...


async def follow(  # noqa: PLR0913 (the outlet, and how it is followed)
    log: Log,
    topic: str,
    outlet: Outlet,
    *,
    consumer: str,
    stop: asyncio.Event,
    caught_up: Callable[[], None] = lambda: None,
    retries: Retries | None = None,
    pause_seconds: float = 0.0,
) -> None:
    """Bring every record into the outlet, until `stop`; `caught_up` is called once all from before the start are in.

    `consumer` is the name under which records that it cannot take are put aside. At the end of the log it pauses before
    it reads on: an outlet that writes a file for each key then writes the newest of a key's records alone.
    """
    follower = _Follower(log, topic, outlet, await Aside.open(log, consumer), retries or Retries())
    ends = await log.ends(topic)
    # Positions come from the outlet, not from a group in the log: they were committed with the contents, so a copy
    # that was put back from a backup goes on from where that copy stood.
    positions = await outlet.positions(log.epoch)
    at = {partition: positions.get(partition, 0) for partition in ends}
    behind = {partition for partition, end in ends.items() if at[partition] < end}
    ready = False
    # A new version of the program may be able to take what the last one could not.
    await follower.take_up(follower.aside.keys)
    async with rest_until_changed(log, stop) as rest:
        version = log.version()
        while not stop.is_set():
            news = await follower.read_on(at)
            # The last ones may have been compacted away.
            behind = {partition for partition in behind & news if at[partition] < ends[partition]}
            await follower.take_up(await follower.aside.read_releases())
            if not behind and not ready:
                ready = True
                caught_up()
            if news:
                version = log.version()
            elif pause_seconds and await _is_set_within(stop, pause_seconds):
                await follower.read_on(at)  # what came during the pause
            else:
                version = await rest(version)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class _Follower:
    """An outlet, and what it could not take."""

    def __init__(self, log: Log, topic: str, outlet: Outlet, aside: Aside, retries: Retries) -> None:
        self._log, self._topic, self._outlet, self._retries = log, topic, outlet, retries
        self.aside = aside

    async def read_on(self, at: dict[int, int]) -> set[int]:
        """Write the next records of each partition, and move `at` behind them; return the partitions that had some."""
        news = await self._log.read_each(self._topic, at, BATCH)
        for partition, records in news.items():
            at[partition] = records[-1].offset + 1
            await self.take(records)
            await asyncio.sleep(0)  # a loop that never waits would let no other task run
        return {*news}

    async def take(self, records: Sequence[Record]) -> None:
        """Write records of one partition, and the position after them."""
        try:
            await self._apply(records)
        except Exception as error:
            if is_engine_failure(error):
                raise
            if len(records) == 1:
                await self._alone(records[0], error)
                return
            middle = len(records) // 2
            await self.take(records[:middle])
            await self.take(records[middle:])

    async def _apply(self, records: Sequence[Record]) -> None:
        # A crash between this commit and the end of a quarantine leaves a mark too many, which the next start takes
        # up.
        position = {records[-1].partition: records[-1].offset + 1}
        await self._outlet.apply(records, self._log.epoch, position)
        for key in self.aside.keys & {record.key for record in records}:
            await self.aside.clear(key)

    async def _alone(self, record: Record, error: Exception) -> None:
        tries = 0
        while await self._retries.again(tries):
            tries += 1
            try:
                await self._apply([record])
            except Exception as again:
                if is_engine_failure(again):
                    raise
                error = again
            else:
                return
        _log.error(
            "%s: cannot take %s", self.aside.consumer, MessagePosition.from_record(record), exc_info=error
        )
        await self.aside.put(record.key, describe_error(error))  # first: a crash puts it aside once more
        # The record is passed over, though not forgotten: the mark, which is durable, names its key.
        await self._outlet.apply([], self._log.epoch, {record.partition: record.offset + 1})

    async def take_up(self, keys: frozenset[str]) -> None:
        """Try the newest records that were put aside once more."""
        for key in keys:
            # Not the record that failed: the key's state has moved on since, and an older state must not replace a
            # newer one.
            record = await self._log.latest(self._topic, key)
            try:
                if record is not None:
                    await self._outlet.apply([record], self._log.epoch, {})
            except Exception as error:
                if is_engine_failure(error):
                    raise
                await self.aside.put(key, describe_error(error))
            else:
                await self.aside.clear(key)
