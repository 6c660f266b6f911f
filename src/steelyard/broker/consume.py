"""The one loop of every consumer. The services differ in what they do with a record.

`consume` is for services whose effects are messages: positions and outputs are one transaction. `follow` (`follow.py`)
is for those whose effects lie in a database of their own, which also holds the positions. A message that is malformed,
or at which the step fails although no engine does, is put aside (`quarantine/dead_letters.py`), and the others go on
without it. An engine that fails ends the process, and the log delivers again.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from steelyard.broker.log import Batch, Fenced, Log, Message, Record
from steelyard.broker.quarantine.dead_letters import (
    Malformed,
    MessagePosition,
    Quarantine,
    StepFailed,
    StopPartition,
    describe_error,
    drop,
    list_waiting,
    release,
)
from steelyard.broker.retries import Retries
from steelyard_common.errors import is_engine_failure

__all__ = [
    "Malformed",
    "Step",
    "StopPartition",
    "consume",
    "consume_once",
    "drop",
    "list_waiting",
    "release",
    "rest_until_changed",
]

BATCH = 500
WAIT_SECONDS = 5.0
"""A commit ends a wait; this only bounds how long a lease goes without being renewed."""
_log = logging.getLogger(__name__)


class Step(Protocol):
    """The work of a service on one record."""

    def begin(self) -> None:
        """A batch begins: forget the state of the last one, which may not have been committed."""
        ...

    async def prepare(self, records: Sequence[Record]) -> None:
        """Read at once what the records of the batch need: on some logs each look-up is a request to a server."""
        ...

    async def step(self, record: Record) -> Sequence[Message]:
        """Return the messages that follow from a record. Raises Malformed, StopPartition."""
        ...


Transact = Callable[[Batch, Sequence[Message]], Awaitable[Sequence[Record]]]


async def consume(
    log: Log, group: str, topic: str, step: Step, *, stop: asyncio.Event, retries: Retries | None = None
) -> None:
    """Work on each record once, in order per key, until `stop`."""
    inbox = await log.inbox(group, topic)
    retries = retries or Retries()
    try:
        async with rest_until_changed(log, stop) as rest:
            # Taken before the batch: a record that is written while the batch is empty makes the version another one,
            # and the rest ends at once.
            version = log.version()
            while not stop.is_set():
                batch = await inbox.batch(BATCH, 0)
                if not batch.records:
                    version = await rest(version)
                    continue
                try:
                    for partition in await consume_once(log, batch, inbox.transact, step, retries):
                        inbox.pause(partition)
                except Fenced as error:
                    # Nothing of the batch was written, and the other member gets the same records: what this one did
                    # was in vain, no more.
                    _log.warning("%s; the new owner continues there", error)
                version = log.version()
    finally:
        await inbox.close()


async def consume_once(
    log: Log, batch: Batch, transact: Transact, step: Step, retries: Retries | None = None
) -> frozenset[int]:
    """One batch: its outputs and positions in one transaction. The partitions that must not be read any further.

    A batch in which a record fails is worked off in parts, each with the positions up to its own end, so that only
    the record that fails alone is put aside. Every part begins again: nothing of what failed is kept.
    """
    work = _Work(log, batch, transact, step, retries or Retries())
    await work.off(batch.records)
    return frozenset(work.stopped)


class _Work:
    """One batch, whole or in parts. `stopped`: partitions that must not be read any further, and where."""

    def __init__(self, log: Log, batch: Batch, transact: Transact, step: Step, retries: Retries) -> None:
        self._log, self._transact, self._step, self._retries = log, transact, step, retries
        self._batch = batch
        self._at = dict(batch.starts)
        self._last = {record.partition: record.offset for record in batch.records}
        self.stopped: dict[int, int] = {}

    async def off(self, records: Sequence[Record]) -> None:
        """Raises what a failing engine raises, Fenced among it."""
        records = [record for record in records if record.partition not in self.stopped]
        if not records:
            return
        try:
            await self._attempt(records, {})
        except Exception as error:
            if is_engine_failure(error):
                raise
            if len(records) == 1:
                await self._alone(records[0], error)
                return
            middle = error.index if isinstance(error, StepFailed) else len(records) // 2
            after = middle + 1 if isinstance(error, StepFailed) else middle
            for part in (records[:middle], records[middle:after], records[after:]):
                await self.off(part)

    async def _alone(self, record: Record, error: Exception) -> None:
        """Try again, then put aside what fails: the record, or of a release the message that was tried again."""
        refused: dict[MessagePosition, str] = {}
        tries = 0
        while True:
            # A step names the record at which it failed; any other error is blamed on the record given here.
            if isinstance(error, StepFailed):
                failed, cause = error.record, error.__cause__ or error
            else:
                failed, cause = record, error
            if not await self._retries.again(tries):
                if MessagePosition.from_record(failed) in refused:
                    raise error  # it cannot even be put aside: that is not a record's fault
                _log.error(
                    "%s: the step fails at %s",
                    failed.topic,
                    MessagePosition.from_record(failed),
                    exc_info=cause,
                )
                refused[MessagePosition.from_record(failed)] = describe_error(cause)
                tries = 0
            tries += 1
            try:
                await self._attempt([record], refused)
            except Exception as again:
                if is_engine_failure(again):
                    raise
                error = again
            else:
                return

    async def _attempt(self, records: Sequence[Record], refused: dict[MessagePosition, str]) -> None:
        # What the step kept of an attempt that was not committed would be an effect that no record in the log
        # explains.
        self._step.begin()
        quarantine = Quarantine(self._log, self._step.step, refused)
        await quarantine.prepare(records)
        await self._step.prepare(records)
        outputs: list[Message] = []
        stopped: dict[int, int] = {}
        for index, record in enumerate(records):
            if record.partition in stopped:
                continue
            try:
                outputs += await quarantine.make_messages(record)
            except StepFailed as failure:
                failure.index = index
                raise
            except StopPartition as error:
                _log.critical(
                    "%s, partition %d, offset %d: %s; what comes after it waits: upgrade this program",
                    record.topic, record.partition, record.offset, error,
                )  # fmt: skip
                # The position stays before this record: a newer version of the program reads it as if nothing had
                # happened.
                stopped[record.partition] = record.offset
        positions = self._positions(records) | stopped
        # The log compares these with the group's positions in the same transaction: a member that lost the partition
        # meanwhile writes neither outputs nor positions.
        starts = {partition: self._at[partition] for partition in positions}
        await self._transact(Batch(records, starts, positions), outputs)
        self._at |= positions
        self.stopped |= stopped

    def _positions(self, records: Sequence[Record]) -> dict[int, int]:
        """Positions after these records; after the last of a partition, where the batch says."""
        reached = {record.partition: record.offset for record in records}
        return {
            partition: self._batch.positions[partition] if offset == self._last[partition] else offset + 1
            for partition, offset in reached.items()
        }


@contextlib.asynccontextmanager
async def rest_until_changed(log: Log, stop: asyncio.Event) -> AsyncIterator[Callable[[int], Awaitable[int]]]:
    """Yield a function that waits until the log changes or `stop` is set, whichever comes first.

    It returns the log's version then, so that the caller need not read it again.
    """
    stopped = asyncio.ensure_future(stop.wait())

    async def rest(version: int) -> int:
        await asyncio.sleep(0)  # other tasks get their turn also where the log has changed already
        loop = asyncio.get_running_loop()
        # A time limit that the stop brings forward: a task for each rest would be made and cancelled at every commit.
        limit = asyncio.timeout(None)

        def end(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the rest has ended by itself
                limit.reschedule(loop.time())

        try:
            async with limit:
                stopped.add_done_callback(end)
                version = await log.wait_for_change(version, WAIT_SECONDS)
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            stopped.remove_done_callback(end)
        return version

    try:
        yield rest
    finally:
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
