"""Takes the rows of the outbox to the log, and notes what becomes of them.

A row is sent when its command is in the log, answered when the client has its response, and visible when the view shows
the entity or the command was rejected: reads then do without it. The database learns a moment later, for many rows at
once, that they were sent and answered; so a process that starts searches the log before it sends a row again.

Several API servers may share the outbox. Each row belongs to one of them, which holds a lease: it sends and follows the
rows of its own, and takes over those of servers that have ended.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from steelyard.accounts.database import LeaseEnded
from steelyard.accounts.outbox import Outbox, OutboxRow
from steelyard.api.commands.outcomes import Outcome, OutcomeReader
from steelyard.api.http.errors import Unavailable
from steelyard.broker.log import EVENTS, STATE, Log, LogError, Message
from steelyard.broker.partition import find_partition
from steelyard.broker.scan import PIECE, partition_records
from steelyard.engines.processes import own_process
from steelyard.views.view import View
from steelyard_common.errors import ContentError, is_engine_failure

_log = logging.getLogger(__name__)
_BATCH_SECONDS = 0.05
_IDLE_SECONDS = 1.0
_RENEWALS = 3
"""Renewals of a lease in its time: one may fail."""
_DOUBT_SECONDS = 0.1
"""Pause between checks whether a request repeats one of another server."""
KEPT = timedelta(days=1)
"""Time for which visible rows are kept: a repeated key finds its entity here, and later by the entity's id."""


class OutboxRelay:
    """Sends the rows of one API process, and follows them until the view shows their entities."""

    def __init__(
        self,
        log: Log,
        view: View,
        outbox: Outbox,
        outcomes: OutcomeReader,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        lease_seconds: float,
    ) -> None:
        self._log = log
        self._view = view
        self._outbox = outbox
        self._outcomes = outcomes
        self._clock = clock
        self._new_id = new_id
        self._lease_seconds = lease_seconds
        self.server = ""
        """Id of this server in the outbox; a new one whenever the lease was lost."""
        self._ends: dict[int, int] = {}
        """Offsets of the log, by partition, below which no command lies that is sent from now on."""
        self._sending: set[str] = set()
        self._sent: dict[str, tuple[int, int]] = {}
        """Partition and offset of commands whose sending is not noted yet."""
        self._answered: dict[str, None] = {}
        """Commands whose answers are not noted yet, in order."""
        self._lost: list[str] = []
        """Commands whose broken connections are not noted yet."""
        self._noting_lost = asyncio.Lock()
        self._registering = asyncio.Lock()
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

    def note_answer(self, command: str) -> None:
        """Note that the client has its response: the same request again is a new one."""
        self._answered[command] = None
        self._work.set()

    def note_loss(self, command: str) -> None:
        """Note that the connection broke before the response: the same request again is its repeat."""
        self._lost.append(command)
        self._work.set()

    async def add(self, rows: Sequence[OutboxRow]) -> OutboxRow:
        """Add rows to the outbox, and return the first row that is kept: this one, or that of an equal request.

        The losses until now are noted before: whether an equal request is a repeat depends on them.
        """
        commands = {row.command for row in rows}
        self._sending |= commands  # a repeat that comes now must not send them a second time
        try:
            if self._lost or self._noting_lost.locked():
                await self._note_lost()
            # At once, so that they share a commit. Both are waited for: one may fail while the other is carried out.
            noted, kept = await asyncio.gather(
                self._note_answered(), self._add_own(rows), return_exceptions=True
            )
            if isinstance(kept, BaseException):
                raise kept
            if noted is not None:
                raise noted
        except BaseException:
            self._sending -= commands
            # The rows may be there all the same, and no request sends them any more.
            self._has_unsent = True
            self._work.set()
            raise
        if kept.command != rows[0].command:
            self._sending -= commands
        return kept

    async def find_repeat(self, row: OutboxRow) -> OutboxRow | None:
        """Return the row of an earlier request that a row repeats, as `add` would; nothing is added."""
        await self.resolve_doubt(row)
        await self._note_lost()
        server = self.server
        try:
            return await self._outbox.find_repeat(replace(row, server=server))
        except LeaseEnded:
            await self._register(instead_of=server)
            return await self._outbox.find_repeat(replace(row, server=self.server))

    async def _add_own(self, rows: Sequence[OutboxRow]) -> OutboxRow:
        """Add rows as rows of this server, which becomes a new one where its lease has ended."""
        server = self.server
        try:
            return await self._outbox.add(*_assign_server(rows, server))
        except LeaseEnded:
            await self._register(instead_of=server)
            return await self._outbox.add(*_assign_server(rows, self.server))

    async def resolve_doubt(self, row: OutboxRow) -> None:
        """Wait until it is known of every equal request that is open at another server whether this one repeats it.

        A server that renews its lease has noted before which connections broke: connections that are open then are in
        flight. A loss becomes known when the lease has ended. Raises Unavailable if neither happens in the time of
        two leases.
        """
        row = replace(row, server=self.server)
        if not (doubts := await self._outbox.in_doubt(row)):
            return
        await self._take_over()  # of a server that was killed on this machine nothing has to be waited for
        first = doubts
        looks = 2 * self._lease_seconds / _DOUBT_SECONDS
        while any(doubts.get(server) == renewals for server, renewals in first.items()):
            if (looks := looks - 1) < 0:
                raise Unavailable(
                    "an equal request is open at another server, which does not answer; try again"
                )
            await asyncio.sleep(_DOUBT_SECONDS)
            doubts = await self._outbox.in_doubt(row)

    async def begin(self) -> None:
        """Register this server, and take over the rows of those that have ended."""
        # Read before anything is sent: rows note from which offset a later process has to search for their commands.
        self._ends = dict(await self._log.ends(EVENTS))
        await self._register()
        await self._take_over()
        await self.resend()

    async def _register(self, instead_of: str = "") -> None:
        """Become a new server, unless another task has seen to it since this server was `instead_of`."""
        async with self._registering:
            if self.server == instead_of:
                server = self._new_id()
                await self._outbox.begin(server, self._lease_seconds, own_process())
                self.server = server

    async def _take_over(self) -> None:
        """Follow the rows of servers that have ended, and have those sent that are not in the log yet."""
        rows = await self._outbox.take_over(self.server)
        futures = await self._outcomes.expect_earlier([row.command for row in rows]) if rows else []
        for number, (row, future) in enumerate(zip(rows, futures, strict=True), 1):
            if number % PIECE == 0:
                await asyncio.sleep(0)
            self._follow(row, future)
            if await self._log.latest(STATE, row.entity) is not None:
                self._applied[row.command] = row
        if rows:
            self._has_unsent = True
            self._work.set()

    async def keep_lease(self) -> None:
        """Renew the lease until cancelled, and take over from servers that end."""
        while True:
            try:
                # A renewal promises the other servers that every broken connection until then is noted.
                await self._note_lost()
                server = self.server
                try:
                    await self._outbox.renew(server, self._lease_seconds)
                except LeaseEnded:
                    _log.warning("the lease of this API server had ended: it goes on as a new one")
                    await self._register(instead_of=server)
                await self._take_over()
            except Exception as error:  # noqa: BLE001 - the outermost edge: the API answers also while this fails
                defect = None if is_engine_failure(error) else error
                _log.warning("cannot renew the lease of the API server: %s", error, exc_info=defect)
            await asyncio.sleep(self._lease_seconds / _RENEWALS)

    async def close(self) -> None:
        """Note what became of the rows, and leave those that are not settled to other servers at once."""
        await self.flush()
        await self._outbox.end(self.server)

    async def drop(self, rows: Sequence[OutboxRow]) -> None:
        """Give rows up that are not to be sent."""
        commands = [row.command for row in rows]
        await self._outbox.visible(commands)
        self._sending.difference_update(commands)

    def send_later(self, rows: Sequence[OutboxRow]) -> None:
        """Leave rows that were added, and that their request does not send, to the relay."""
        self._sending.difference_update(row.command for row in rows)
        self._has_unsent = True
        self._work.set()

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
        except (LogError, asyncio.CancelledError) as error:
            # A message that the log refuses whatever happens would be sent again for ever.
            if not isinstance(error, ContentError):
                self._has_unsent = True
            raise
        finally:
            self._sending -= commands
            self._work.set()

    async def send_before(self, entity: str) -> None:
        """Send the commands that create an entity, if they may not be in the log yet, before one that is about it.

        Reads show the entity already, and its row may belong to a server that is suspended or has ended: the other
        command would find no entity. The server of the row may send it once more, which the aggregator takes as the
        same. Raises LogError.
        """
        rows = [row for row in await self._outbox.pending(entity=entity) if row.position is None]
        if missing := [row for row in rows if row.command not in self._sent]:
            await self._log.publish(
                [Message(EVENTS, row.topic_key, row.value, row.headers) for row in missing]
            )

    async def resend(self) -> None:
        """Send the rows whose commands are not in the log. Raises LogError."""
        # Taken before the search, not after the sending: a row that fails meanwhile is not among the rows of this
        # search.
        self._has_unsent = False
        try:
            rows = [row for row in await self._outbox.unsent(self.server) if row.command not in self._sending]
            # A process may have ended between sending a command and noting it: the log knows.
            missing = [row for row in rows if not await self._is_in_log(row)]
            if missing:
                await self._send_singly_after_failure(missing)
        except BaseException:
            self._has_unsent = True
            raise

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
                await self._pause()
            except Exception as error:  # noqa: BLE001 - the outermost edge: the API answers also while this fails
                defect = None if is_engine_failure(error) else error
                _log.warning("cannot note what became of accepted commands: %s", error, exc_info=defect)
                await asyncio.sleep(_IDLE_SECONDS)

    async def flush(self) -> None:
        """Note the commands that were sent, answered and lost."""
        sent = dict(self._sent)
        # At once, so that they share a commit.
        await asyncio.gather(
            self._note_answered(),
            *(self._outbox.note_sent(command, place) for command, place in sent.items()),
        )
        await self._note_lost()
        for command in sent:
            self._sent.pop(command, None)

    async def _note_lost(self) -> None:
        """Note the broken connections until now; also those that another task is noting are noted then."""
        async with self._noting_lost:
            # Each once: noted again after a repeat has taken its row over, it would be wrong.
            lost, self._lost = self._lost, []
            try:
                if lost:
                    await self._outbox.note_lost(lost)
            # Kept for the next try: a loss that is forgotten would turn the client's repeat into a second entity (rule
            # 7).
            except BaseException:
                self._lost += lost
                raise

    async def _note_answered(self) -> None:
        """Note the answers until now.

        Each answer is noted by one task: tasks that write the same rows would wait for each other's commits.
        """
        answered, self._answered = self._answered, {}
        if not answered:
            return
        try:
            await self._outbox.note_answered(list(answered))
        except BaseException:
            self._answered |= answered
            raise

    async def _note_visible(self) -> None:
        """Note the rows that reads do without."""
        version = self._view.version()
        # The rows are looked up only when the view may show more than last time. The version is taken before: a change
        # after that may be found now, and gives another version for the next time.
        if version != self._view_version or self._new_applied:
            self._view_version, self._new_applied = version, False
            try:
                await self._find_visible(list(self._applied.values()))
            except BaseException:
                # This version is still to be looked up, and a view that changes no more gives no other version.
                self._new_applied = True
                raise
        if visible := list(self._visible):
            await self._outbox.visible(visible)
            del self._visible[: len(visible)]  # more may have come in between

    async def _find_visible(self, rows: Sequence[OutboxRow]) -> None:
        for start in range(0, len(rows), PIECE):
            piece = rows[start : start + PIECE]
            # In one read: from a server, one for each row would take the time of as many round trips.
            kinds = await self._view.kinds({row.entity for row in piece})
            for row in piece:
                if kinds.get(row.entity) == row.kind:
                    self._visible.append(row.command)
                    del self._applied[row.command]

    async def _pause(self) -> None:
        if self._applied:
            await self._view.wait_for_change(self._view_version, _BATCH_SECONDS)
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
        partition, start = find_partition(row.topic_key, self._log.partitions), row.ends
        async for record in partition_records(self._log, EVENTS, partition, start):
            if record.headers.get("id") == row.command:
                self._sent[row.command] = (record.partition, record.offset)
                return True
        return False


def _assign_server(rows: Sequence[OutboxRow], server: str) -> tuple[OutboxRow, Sequence[OutboxRow]]:
    """Return the first of the rows and the others, as rows of a server."""
    first, *others = (replace(row, server=server) for row in rows)
    return first, others
