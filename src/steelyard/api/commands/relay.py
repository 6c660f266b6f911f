"""Takes the rows of the outbox to the log, and notes what becomes of them.

A row is sent when its command is in the log, answered when the client has its response, and visible when the view shows
the entity or the command was rejected: reads then do without it. Sent and answered are noted a moment later, many rows
at once; so a process that starts looks into the log before it sends a row again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from steelyard.accounts.database import Outbox, OutboxRow
from steelyard.api.commands.outcomes import Outcome, OutcomeReader
from steelyard.broker.log import EVENTS, STATE, Log, LogError, Message
from steelyard.broker.partition import partition_of
from steelyard.broker.scan import PIECE, partition_records
from steelyard.errors import is_engine_failure
from steelyard.sqlite import DatabaseError
from steelyard.views.view import View

_log = logging.getLogger(__name__)
_BATCH_SECONDS = 0.05
_IDLE_SECONDS = 1.0
KEPT = timedelta(days=1)
"""Time for which visible rows are kept: a repeated key finds its entity here, and later by the entity's id."""


class OutboxRelay:
    """Sends the rows of one API process, and follows them until the view shows their entities."""

    def __init__(
        self, log: Log, view: View, outbox: Outbox, outcomes: OutcomeReader, clock: Callable[[], datetime]
    ) -> None:
        self._log = log
        self._view = view
        self._outbox = outbox
        self._outcomes = outcomes
        self._clock = clock
        self._ends: dict[int, int] = {}
        """Offsets of the log, by partition, below which no command lies that is sent from now on."""
        self._sending: set[str] = set()
        self._sent: dict[str, tuple[int, int]] = {}
        """Partition and offset of commands whose sending is not noted yet."""
        self._answered: dict[str, None] = {}
        """Commands whose answers are not noted yet, in order."""
        self._lost: list[str] = []
        """Commands whose broken connections are not noted yet."""
        self._applied: dict[str, OutboxRow] = {}
        """Rows that the view does not show yet."""
        self._visible: list[str] = []
        """Commands whose rows reads do without, which is not noted yet."""
        self._has_unsent = False
        self._view_version = -1
        self._new_applied = False
        self._expired = clock()
        self._work = asyncio.Event()

    def end(self, partition: int) -> int:
        """Return an offset below which no command lies that is sent from now on."""
        return self._ends.get(partition, 0)

    def answered(self, command: str) -> None:
        """Note that the client has its response: the same request again is a new one."""
        self._answered[command] = None
        self._work.set()

    def lost(self, command: str) -> None:
        """Note that the connection broke before the response: the same request again is its repeat."""
        self._lost.append(command)
        self._work.set()

    async def add(self, rows: Sequence[OutboxRow]) -> OutboxRow:
        """Add rows to the outbox, and return the first row that is kept: this one, or that of an equal request.

        The answers and losses until now are noted in the same commit, and before: whether an equal request is a repeat
        depends on them.
        """
        answered, lost, commands = list(self._answered), self._take_lost(), {row.command for row in rows}
        self._sending |= commands  # a repeat that comes now must not send them a second time
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
        """Take over from an earlier process: send the rows that it did not send, and follow the others."""
        # A process that ended can have answered nothing more: its clients' next requests are repeats.
        await self._outbox.lost()
        # Read before anything is sent: rows note from where on a later process has to look for their commands.
        self._ends = dict(await self._log.ends(EVENTS))
        pending = await self._outbox.pending()
        futures = await self._outcomes.expect_earlier([row.command for row in pending]) if pending else []
        for number, (row, future) in enumerate(zip(pending, futures, strict=True), 1):
            if number % PIECE == 0:
                await asyncio.sleep(0)
            self._follow(row, future)
            if await self._log.latest(STATE, row.entity) is not None:
                self._applied[row.command] = row
        await self.resend()

    async def drop(self, rows: Sequence[OutboxRow]) -> None:
        """Give rows up that are not to be sent."""
        commands = [row.command for row in rows]
        await self._outbox.visible(commands)
        self._sending.difference_update(commands)

    async def send(self, rows: Sequence[OutboxRow]) -> None:
        """Send all rows or none. Raises LogError; the rows are then sent later."""
        commands = {row.command for row in rows}
        self._sending |= commands
        try:
            for row in rows:
                self._follow(row, await self._outcomes.expect(row.command))
            records = await self._log.publish(
                [Message(EVENTS, row.topic_key, row.value, row.headers) for row in rows]
            )
            for row, record in zip(rows, records, strict=True):
                self._ends[record.partition] = max(self._ends.get(record.partition, 0), record.offset + 1)
                self._sent[row.command] = (record.partition, record.offset)
        except LogError:
            self._has_unsent = True
            raise
        finally:
            self._sending -= commands
            self._work.set()

    async def resend(self) -> None:
        """Send the rows whose commands are not in the log. Raises LogError."""
        rows = [row for row in await self._outbox.unsent() if row.command not in self._sending]
        # A process may have ended between sending a command and noting it: the log knows.
        missing = [row for row in rows if not await self._is_in_log(row)]
        if missing:
            await self._send_singly_after_failure(missing)
        self._has_unsent = False

    async def _send_singly_after_failure(self, rows: Sequence[OutboxRow]) -> None:
        """Send rows in one batch; if one of them cannot be written, send each by itself, and leave that one."""
        try:
            await self.send(rows)
        except Exception as error:
            if is_engine_failure(error):
                raise
            # The log refuses this one message whatever happens: it must not keep the others of the batch from being
            # sent.
            if len(rows) == 1:
                _log.critical("%s %s cannot be sent", rows[0].kind, rows[0].entity, exc_info=error)
                return
            for row in rows:
                await self._send_singly_after_failure([row])

    async def run(self) -> None:
        """Note and follow rows until cancelled."""
        while True:
            try:
                await self.flush()
                if self._has_unsent:
                    await self.resend()
                await self._note_visible()
                if self._clock() - self._expired > timedelta(hours=1):
                    self._expired = self._clock()
                    await self._outbox.expire(self._expired - KEPT)
            except Exception as error:  # noqa: BLE001 - the outermost edge: the API answers also while this fails
                defect = None if is_engine_failure(error) else error
                _log.warning("cannot note what became of accepted commands: %s", error, exc_info=defect)
                await asyncio.sleep(_IDLE_SECONDS)
            await self._pause()

    async def flush(self) -> None:
        """Note the commands that were sent, answered and lost."""
        sent, answered = dict(self._sent), list(self._answered)
        # At once, so that they share a commit.
        await asyncio.gather(*(self._outbox.sent(command, place) for command, place in sent.items()))
        if answered:
            await self._outbox.answered(answered)
        if lost := self._take_lost():
            try:
                await self._outbox.lost(lost)
            # Kept for the next try: a loss that is forgotten would turn the client's repeat into a second entity (rule
            # 7).
            except DatabaseError:
                self._lost += lost
                raise
        for command in sent:
            self._sent.pop(command, None)
        self._forget(answered)

    def _take_lost(self) -> list[str]:
        """Return the lost commands, each once: noted again after a repeat has taken its row over, it would be wrong."""
        lost, self._lost = self._lost, []
        return lost

    def _forget(self, answered: Sequence[str]) -> None:
        for command in answered:
            self._answered.pop(command, None)

    async def _note_visible(self) -> None:
        """Note the rows that reads do without."""
        version = self._view.version()
        # Looked up only when the view may show more than last time.
        if version != self._view_version or self._new_applied:
            self._view_version, self._new_applied = version, False
            for command, row in list(self._applied.items()):
                if await self._view.get(row.kind, row.entity) is not None:
                    self._visible.append(command)
                    del self._applied[command]
        if visible := list(self._visible):
            await self._outbox.visible(visible)
            del self._visible[: len(visible)]  # more may have come in between

    async def _pause(self) -> None:
        if self._applied:
            await self._view.changed(self._view_version, _BATCH_SECONDS)
        else:
            try:
                async with asyncio.timeout(_IDLE_SECONDS):  # wait_for may swallow a cancellation
                    await self._work.wait()
            except TimeoutError:
                return
        self._work.clear()
        await asyncio.sleep(_BATCH_SECONDS)  # so that one commit notes many commands

    def _follow(self, row: OutboxRow, future: "asyncio.Future[Outcome]") -> None:
        def take(future: "asyncio.Future[Outcome]") -> None:
            # The process ends: the next one follows the row.
            if future.cancelled():
                return
            if (outcome := future.result()).outcome == "rejected":
                _log.warning("%s %s was rejected: %s", row.kind, row.entity, outcome.message)
                self._visible.append(row.command)
            else:
                self._applied[row.command] = row
                self._new_applied = True
            self._work.set()

        future.add_done_callback(take)

    async def _is_in_log(self, row: OutboxRow) -> bool:
        """Return whether the log has the row's command, and remember where."""
        partition, start = partition_of(row.topic_key, self._log.partitions), row.ends
        async for record in partition_records(self._log, EVENTS, partition, start):
            if record.headers.get("id") == row.command:
                self._sent[row.command] = (record.partition, record.offset)
                return True
        return False
