"""What becomes of the outbox's rows after they were written: sent, answered, and at last shown by the view.

A row is sent once its command is in the log. That it was sent or answered is noted a moment later, many at once: a
process that starts again looks into the log before it sends anything a second time. A row that the view shows, or whose
command was rejected, is settled, and reads do without it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from steelyard.accounts.database import Outbox, OutboxRow
from steelyard.api.commands.outcomes import Outcome, Outcomes
from steelyard.broker.log import EVENTS, STATE, Log, LogError, Message
from steelyard.broker.partition import partition_of
from steelyard.broker.scan import PIECE, partition_records
from steelyard.errors import is_engine_failure
from steelyard.sqlite import DatabaseError
from steelyard.views.view import View

_log = logging.getLogger(__name__)
_PAUSE = 0.05
_IDLE = 1.0
KEPT = timedelta(days=1)
"""How long settled rows are kept: so long a repeated key finds its entity here, later by the entity's id."""


class Settling:
    """The rows of one API process."""

    def __init__(
        self, log: Log, view: View, outbox: Outbox, outcomes: Outcomes, clock: Callable[[], datetime]
    ) -> None:
        self._log = log
        self._view = view
        self._outbox = outbox
        self._outcomes = outcomes
        self._clock = clock
        self._ends: dict[int, int] = {}
        self._sending: set[str] = set()
        self._sent: dict[str, tuple[int, int]] = {}
        self._answered: dict[str, None] = {}
        self._lost: list[str] = []
        self._judged: dict[str, OutboxRow] = {}
        self._settled: list[str] = []
        self._unsent = False
        self._seen = -1
        self._fresh = False
        self._expired = clock()
        self._nudge = asyncio.Event()

    def end(self, partition: int) -> int:
        """An offset at or before which nothing of what is sent from now on lies."""
        return self._ends.get(partition, 0)

    def answered(self, command: str) -> None:
        """The response is out: the same request again is a new one."""
        self._answered[command] = None
        self._nudge.set()

    def lost(self, command: str) -> None:
        """The connection broke before the response was out: the same request again is its repeat."""
        self._lost.append(command)
        self._nudge.set()

    async def add(self, rows: Sequence[OutboxRow]) -> OutboxRow:
        """Add rows to the outbox; the row that was kept has to be sent next.

        What was answered or lost until now is noted in the same commit, and before.
        """
        answered, lost, commands = list(self._answered), self._take_lost(), {row.command for row in rows}
        self._sending |= commands  # a repeat that comes meanwhile leaves the sending to this one
        try:
            *_, kept = await asyncio.gather(
                self._outbox.answered(answered), self._outbox.lost(lost), self._outbox.add(rows[0], rows[1:])
            )
        except BaseException:
            self._lost += lost
            self._sending -= commands
            raise
        if kept.command != rows[0].command:
            self._sending -= commands
        self._forget(answered)
        return kept

    async def begin(self) -> None:
        """Take over from the process before: send what it did not, and wait for the rest."""
        await self._outbox.lost()  # what the process before has not answered
        self._ends = dict(await self._log.ends(EVENTS))
        pending = await self._outbox.pending()
        futures = await self._outcomes.expect_earlier([row.command for row in pending]) if pending else []
        for number, (row, future) in enumerate(zip(pending, futures, strict=True), 1):
            if number % PIECE == 0:
                await asyncio.sleep(0)
            self._follow(row, future)
            if await self._log.latest(STATE, row.entity) is not None:
                self._judged[row.command] = row
        await self.resend()

    async def drop(self, rows: Sequence[OutboxRow]) -> None:
        """Instead of sending them."""
        commands = [row.command for row in rows]
        await self._outbox.visible(commands)
        self._sending.difference_update(commands)

    async def send(self, rows: Sequence[OutboxRow]) -> None:
        """All of them or none. Raises LogError; they are sent later then."""
        commands = {row.command for row in rows}
        self._sending |= commands
        try:
            for row in rows:
                self._follow(row, await self._outcomes.expect(row.command))
            records = await self._log.publish([_message(row) for row in rows])
            for row, record in zip(rows, records, strict=True):
                self._ends[record.partition] = max(self._ends.get(record.partition, 0), record.offset + 1)
                self._sent[row.command] = (record.partition, record.offset)
        except LogError:
            self._unsent = True
            raise
        finally:
            self._sending -= commands
            self._nudge.set()

    async def resend(self) -> None:
        """Send what is accepted and not in the log. Raises LogError."""
        rows = [row for row in await self._outbox.unsent() if row.command not in self._sending]
        missing = [row for row in rows if not await self._find(row)]
        if missing:
            await self._send_apart(missing)
        self._unsent = False

    async def _send_apart(self, rows: Sequence[OutboxRow]) -> None:
        """All at once; or, where one of them cannot be written, each for itself, and that one stays behind."""
        try:
            await self.send(rows)
        except Exception as error:
            if is_engine_failure(error):
                raise
            if len(rows) == 1:
                _log.critical("%s %s cannot be sent", rows[0].kind, rows[0].entity, exc_info=error)
                return
            for row in rows:
                await self._send_apart([row])

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._round()
            except Exception as error:  # noqa: BLE001 - the outermost edge: the API answers also while this fails
                defect = None if is_engine_failure(error) else error
                _log.warning("cannot settle what was accepted: %s", error, exc_info=defect)
                await asyncio.sleep(_IDLE)
            await self._pause()

    async def flush(self) -> None:
        """Note what was sent, answered and lost."""
        sent, answered = dict(self._sent), list(self._answered)
        await asyncio.gather(*(self._outbox.sent(*each) for each in sent.items()))
        if answered:
            await self._outbox.answered(answered)
        if lost := self._take_lost():
            try:
                await self._outbox.lost(lost)
            except DatabaseError:
                self._lost += lost
                raise
        for command in sent:
            self._sent.pop(command, None)
        self._forget(answered)

    def _take_lost(self) -> list[str]:
        """Take the lost commands, to write them once: a second write might come after a repeat took the row over."""
        lost, self._lost = self._lost, []
        return lost

    def _forget(self, answered: Sequence[str]) -> None:
        for command in answered:
            self._answered.pop(command, None)

    async def _round(self) -> None:
        await self.flush()
        if self._unsent:
            await self.resend()
        await self._look()
        if settled := list(self._settled):
            await self._outbox.visible(settled)
            del self._settled[: len(settled)]  # others may have come meanwhile
        if self._clock() - self._expired > timedelta(hours=1):
            self._expired = self._clock()
            await self._outbox.expire(self._expired - KEPT)

    async def _look(self) -> None:
        """Which of those that were judged the view shows, where either has changed."""
        version = self._view.version()
        if version == self._seen and not self._fresh:
            return
        self._seen, self._fresh = version, False
        for command, row in list(self._judged.items()):
            if await self._view.get(row.kind, row.entity) is not None:
                self._settled.append(command)
                del self._judged[command]

    async def _pause(self) -> None:
        if self._judged:
            await self._view.changed(self._seen, _PAUSE)
        else:
            try:
                async with asyncio.timeout(_IDLE):  # wait_for may swallow a cancellation
                    await self._nudge.wait()
            except TimeoutError:
                return
        self._nudge.clear()
        await asyncio.sleep(_PAUSE)  # so that many are noted at once

    def _follow(self, row: OutboxRow, future: "asyncio.Future[Outcome]") -> None:
        def judged(done: "asyncio.Future[Outcome]") -> None:
            if done.cancelled():
                return
            if (outcome := done.result()).outcome == "rejected":
                _log.warning("%s %s was rejected: %s", row.kind, row.entity, outcome.message)
                self._settled.append(row.command)
            else:
                self._judged[row.command] = row
                self._fresh = True
            self._nudge.set()

        future.add_done_callback(judged)

    async def _find(self, row: OutboxRow) -> bool:
        """Whether the command is in the log after all."""
        partition, start = partition_of(row.topic_key, self._log.partitions), row.ends
        async for record in partition_records(self._log, EVENTS, partition, start):
            if record.headers.get("id") == row.command:
                self._sent[row.command] = (record.partition, record.offset)
                return True
        return False


def _message(row: OutboxRow) -> Message:
    return Message(EVENTS, row.topic_key, row.value, row.headers)
