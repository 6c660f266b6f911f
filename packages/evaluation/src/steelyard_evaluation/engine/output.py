"""Writes finished rows as numbered, create-only parts: each is whole or not there, and is never touched again.

Rows that wait longer for their part than half a second stand in the journal meanwhile.

The engine adds rows; encoding happens in threads and writing in tasks of the writer's own, off the hot path. The order
of one part's files matters: errors, then the part, then its row set. So a row set never speaks of rows that are not
there, whenever the process ends.
"""

import asyncio

import pyarrow as pa

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.engine.checkpoint import Checkpoint, write_checkpoint
from steelyard_evaluation.engine.epoch import Epoch
from steelyard_evaluation.engine.errors import Fenced
from steelyard_evaluation.engine.journal import Journal
from steelyard_evaluation.engine.parts import FinishedRow, encode
from steelyard_evaluation.engine.rowset import RowSet
from steelyard_evaluation.storage.store import ObjectExists, Store

PARTS_AT_ONCE = 1
"""One part is written while the next one fills."""
PART_SECONDS = 5.0
SAFE_SECONDS, SAFE_CHECK_SECONDS = 0.5, 0.25
"""Seconds that a row may wait without being durable, and between two looks at that: together less than one."""
CHECKPOINT_PARTS = 100


class Writer:
    """The output of one attempt."""

    def __init__(
        self,
        store: Store,
        epoch: Epoch,
        schema: pa.Schema,
        batch_rows: int,
        resumed: Checkpoint,
        first: int = 0,
    ) -> None:
        """`first` is the number of the parts that this epoch has already."""
        self._store = store
        self._epoch = epoch
        self._schema = schema
        self._batch_rows = batch_rows
        self._pending: list[FinishedRow] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._seq = first
        self._journal = Journal(store, epoch.name, schema)
        self._safe = 0
        """Number of the pending rows, from the first on, that the journal holds."""
        self._unsafe_since: float | None = None
        """Time at which the first pending row was added that the journal does not hold."""
        self._entry: asyncio.Task[None] | None = None
        self._names = list(resumed.parts)
        self._durable = RowSet(resumed.rows.total)
        self._durable.add_ranges(resumed.rows.ranges())
        self._tokens = resumed.tokens
        self._checkpointed = len(resumed.parts)
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when a part cannot be written; never succeeds."""

    @property
    def behind(self) -> bool:
        """Return whether rows come faster than they can be written: the engine then waits, so that memory stays
        bounded.
        """
        return len(self._pending) >= self._batch_rows

    @property
    def durable_rows(self) -> int:
        return len(self._durable)

    async def caught_up(self) -> None:
        """Wait until rows may be added again; raises what keeps them from being written."""
        while self.behind:
            if self.failure.done():
                self.failure.result()
            # The set is copied: a task that ends takes itself out of it while others are awaited.
            await asyncio.wait(set(self._tasks), return_when=asyncio.FIRST_COMPLETED)

    def add(self, row: FinishedRow) -> None:
        self._pending.append(row)
        if self._unsafe_since is None:
            self._unsafe_since = asyncio.get_running_loop().time()
        self._flush_full()

    def _flush_full(self) -> None:
        if self.behind and len(self._tasks) < PARTS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Begin to write a part of the added rows, if any."""
        # After a failure the output may belong to another attempt: nothing more is begun.
        if not self._pending or self.failure.done():
            return
        rows, self._pending = self._pending[: self._batch_rows], self._pending[self._batch_rows :]
        self._safe = max(0, self._safe - len(rows))
        if len(self._pending) == self._safe:
            self._unsafe_since = None
        # The name holds the epoch: a part of an earlier attempt can never be overwritten by this one, nor counted as
        # its own.
        name = layout.PartName(self._epoch.name, 0, self._seq)
        self._seq += 1
        task = asyncio.get_running_loop().create_task(self._write(name, rows))
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    async def flush_often(self) -> None:
        """Let no row wait longer than PART_SECONDS, and notice a higher epoch meanwhile. Runs until cancelled."""
        while True:
            await asyncio.sleep(PART_SECONDS)
            # While a part is being written, what waits goes into the next one, full or not.
            if not self._tasks:
                self.flush()
            # An attempt whose calls all hang writes no part, and would learn of its successor only at its
            # end.
            await self._epoch.check()

    async def keep_journal(self) -> None:
        """Let no row wait longer than a second without being durable. Runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SAFE_CHECK_SECONDS)
            # Where parts fill fast, no row waits that long, and the journal costs nothing.
            if self._unsafe_since is not None and loop.time() - self._unsafe_since >= SAFE_SECONDS:
                # Shielded: an entry that is begun ends before the attempt does.
                self._entry = loop.create_task(self._write_piece())
                await asyncio.shield(self._entry)

    async def _write_piece(self) -> None:
        """Write the rows that the next part will get, as far as the journal does not hold them."""
        rows = self._pending[self._safe : self._batch_rows]
        if not rows:
            return
        key = self._journal.name(self._seq)
        self._safe += len(rows)
        self._unsafe_since = None if self._safe == len(self._pending) else self._unsafe_since
        content = await asyncio.to_thread(self._journal.encode, rows)
        await self._store.create(key, content)

    async def drain(self) -> None:
        """Write all that has been added, and wait until it is durable; raises what kept it from being so."""
        if self._entry is not None:
            await asyncio.wait([self._entry])
            self._entry.exception()  # retrieved: the parts are tried all the same
        while (self._pending and not self.failure.done()) or self._tasks:
            self.flush()
            await asyncio.wait(set(self._tasks))
        if self.failure.done():
            self.failure.result()

    async def abandon(self) -> None:
        """Write nothing more: another attempt does, or the storage takes nothing."""
        self._pending = []
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write(self, name: layout.PartName, rows: list[FinishedRow]) -> None:
        encoded = await asyncio.to_thread(encode, rows, self._schema)
        # A writer that was replaced must not add parts that no checkpoint adopts. One that passes here and is replaced
        # a moment later writes a part that the new writer's first checkpoint leaves out.
        await self._epoch.check()
        try:
            if encoded.errors is not None:
                # Before the part, so that no durable row without an answer lacks its reason.
                await self._store.create(name.errors, encoded.errors)
            await self._store.create(name.part, encoded.part)
            await self._store.create(name.rows, encoded.rows)
        # Names are this epoch's alone, so another process claims to be this attempt: one of the two has to end.
        except ObjectExists as error:
            raise Fenced(self._epoch.name, f"{self._epoch.name} (of {error})") from None
        # Counted only now, when all three files are durable: a checkpoint that names a row before it is would lose
        # it.
        self._durable.add(row.position for row in rows)
        await self._journal.drop(name.seq)
        if self._tokens is not None:
            self._tokens += encoded.tokens or Usage()
        self._names.append(name.name)
        if len(self._names) - self._checkpointed >= CHECKPOINT_PARTS:
            self._checkpointed = len(self._names)
            checkpoint = Checkpoint(tuple(self._names), self._durable, self._tokens)
            number = len(self._names) // CHECKPOINT_PARTS
            await write_checkpoint(self._store, self._epoch.name, number, checkpoint)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        # The task is not awaited; a failure that stayed in it would be lost, and the rows with it.
        self._tasks.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)
            self.failure.exception()  # retrieved here, so that no caller has to
        self._flush_full()
