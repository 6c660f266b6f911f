"""The spending of one writer: tokens are held before a call is sent, and settled by its answer.

Many calls share an entry of the ledger: while one is written, others gather. A little more is held than calls need, so
that most calls need not wait for an entry of their own.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from steelyard_common.errors import EngineError, SteelyardError
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.ledger import (
    ACTIVE_SECONDS,
    LEAST,
    CallTotals,
    Caps,
    Ledger,
    Refusal,
    Tokens,
    UnrecordedSpending,
    refusal,
)

FLUSH_SECONDS = 5.0
"""Seconds after which what calls have used is written to the ledger, if no caller waits for it."""
WATCH_SECONDS = 1.0
"""Seconds after which the entries of other writers are read, while a call waits for what they hold."""
RENEW_SECONDS = 20.0
"""Seconds after which a writer that makes calls creates an entry at the latest, so that others know of it."""


class CapReached(SteelyardError):
    """A cap of the service leaves no room for this call, now or later."""


class CapBusy(SteelyardError):
    """Calls in flight may use what is left of a cap: once they have ended there may be room."""


class SpendingUnknown(SteelyardError):
    """The ledger cannot be read or written: no call is made that could not be counted."""


@dataclass(eq=False)
class _Waiting:
    wanted: Tokens
    granted: "asyncio.Future[None]"
    refusal: Refusal | None = None


@dataclass(frozen=True)
class _Entry:
    """The next entry of the ledger, and what it means for this writer once it has been created."""

    ledger: Ledger
    spent: CallTotals
    hold: Tokens
    granted: tuple[_Waiting, ...]


class Account:
    """Spending of one writer. It is made in a running event loop; `open` begins, `close` settles what is left."""

    def __init__(self, book: Book, caps: Caps, writer: str, now: Callable[[], datetime]) -> None:
        self._book = book
        self._caps = caps
        self._writer = writer
        self._now = now
        self._spent = CallTotals()
        """Spending that the ledger does not have yet."""
        self._in_flight = Tokens()
        self._held = Tokens()
        """Tokens that the ledger says are held."""
        self._lately = Tokens()
        """Tokens that were granted since the last entry."""
        self._waiting: list[_Waiting] = []
        self._entry: _Entry | None = None
        """An entry that is being created, or whose fate an error left open."""
        self._wanted = asyncio.Event()
        self._closing = False
        self._called_at: datetime | None = None
        self._written_at: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def active(self) -> int:
        """Number of writers that make calls, this one included."""
        last = self._book.last
        return max(1, last.active(self._now())) if last else 1

    async def open(self) -> None:
        """Read the ledger. Raises StorageError, LedgerDamaged."""
        await self._book.open()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write the usage so far; the holds of calls in flight stay, and so counts as spent."""
        self._closing = True
        self._wanted.set()
        if self._task is not None:
            await self._task

    def check(self) -> None:
        """Raise CapReached where the spending leaves no room for any call, as far as this writer knows."""
        now = self._now()
        last = self._book.last or Ledger(now.date())
        own = UnrecordedSpending(self._spent, self._in_flight)
        refused = refusal(last, self._writer, own, LEAST, self._caps, now)
        if refused is not None and refused.final:
            raise CapReached(refused.message)

    async def hold(self, tokens: Tokens, patience: float) -> None:
        """Hold the tokens that a call may use, after at most `patience` seconds.

        Raises CapReached, CapBusy, SpendingUnknown: then nothing is held.
        """
        self._called_at = self._now()
        if self._task is None or self._task.done():
            raise SpendingUnknown("the spending ledger is not open")
        if not self._caps.model.capped:
            self._in_flight += tokens
            return
        if not self._waiting and self._is_free(tokens):
            self._grant(tokens)
            return
        waiting = _Waiting(tokens, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._wanted.set()
        try:
            # The limit cancels nothing: a grant of the same moment would be lost, and its tokens held for ever.
            await asyncio.wait([waiting.granted], timeout=patience)
        except asyncio.CancelledError:
            self._leave(waiting)
            raise
        if not waiting.granted.done():
            self._leave(waiting)
            raise CapBusy(waiting.refusal.message if waiting.refusal else "the ledger of spending is busy")
        waiting.granted.result()

    def settle(self, held: Tokens, used: Tokens | None, *, calls: int = 1) -> None:
        """Note what a call has used; None where that is unknown, which counts as all that was held for it."""
        self._in_flight -= held
        self._spent += CallTotals(calls, held if used is None else used, int(used is None))
        if self._waiting:
            self._wanted.set()

    def _leave(self, waiting: _Waiting) -> None:
        """End the wait of a call that is not made."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        if waiting.granted.done() and waiting.granted.exception() is None:
            self._in_flight -= waiting.wanted
        else:
            waiting.granted.cancel()

    def _is_free(self, tokens: Tokens) -> bool:
        """Return whether the tokens are held already, and for no other call."""
        # While an entry is being created, it is not known how much will be held.
        return self._entry is None and (self._held - self._in_flight - self._spent.tokens).covers(tokens)

    def _grant(self, tokens: Tokens) -> None:
        self._in_flight += tokens
        self._lately += tokens

    async def _run(self) -> None:
        try:
            while not self._closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(WATCH_SECONDS):
                        await self._wanted.wait()
                self._wanted.clear()
                await self._round()
            await self._round()
        finally:
            for waiting in self._waiting:
                _fail(waiting, CapBusy("the replica is being ended"))

    async def _round(self) -> None:
        """Create entries for as long as there is something that has to be written."""
        try:
            if self._waiting and self._entry is None:
                await self._book.follow()  # others may have spent, or left something
            while (entry := self._entry or self._next_entry()) is not None:
                self._entry = entry
                added = await self._book.add(entry.ledger)
                self._entry = None
                if added:
                    self._commit(entry)
        except EngineError as error:
            for waiting in self._waiting:
                _fail(waiting, SpendingUnknown(f"the spending cannot be recorded: {error}"))
            self._waiting.clear()

    def _next_entry(self) -> _Entry | None:
        """Return the next entry; None where none is needed now."""
        now = self._now()
        last = self._book.last or Ledger(now.date())
        granted = self._decide(last, now)
        held = sum((waiting.wanted for waiting in granted), self._in_flight)
        hold = held + self._reserve(last, held, now)
        calling = self._called_at is not None and (now - self._called_at).total_seconds() <= ACTIVE_SECONDS
        kept = hold if hold or (calling and not self._closing) else None
        if not granted and not self._is_due(last, kept, now):
            return None
        ledger = last.after(self._writer, self._spent, kept, now)
        return _Entry(ledger, self._spent, hold, tuple(granted))

    def _decide(self, last: Ledger, now: datetime) -> list[_Waiting]:
        """Return the calls that wait and may be made now; those that may never be made fail."""
        granted: list[_Waiting] = []
        held = self._in_flight
        for waiting in list(self._waiting):
            if self._is_free(waiting.wanted) and not granted:
                self._waiting.remove(waiting)
                self._grant(waiting.wanted)
                held += waiting.wanted
                waiting.granted.set_result(None)
                continue
            own = UnrecordedSpending(self._spent, held)
            waiting.refusal = refusal(last, self._writer, own, waiting.wanted, self._caps, now)
            if waiting.refusal is None:
                granted.append(waiting)
                held += waiting.wanted
            elif waiting.refusal.final:
                self._waiting.remove(waiting)
                _fail(waiting, CapReached(waiting.refusal.message))
        return granted

    def _reserve(self, last: Ledger, held: Tokens, now: datetime) -> Tokens:
        """Return what to hold for calls to come: as much as was needed lately, at most a hundredth of a cap."""
        most = self._caps.hundredth()
        # What is left of a cap is for calls that wait.
        if most is None or self._closing or any(waiting.refusal for waiting in self._waiting):
            return Tokens()
        lately = self._lately + held - self._in_flight
        reserve = Tokens(min(lately.input, most.input), min(lately.output, most.output))
        refused = refusal(last, self._writer, UnrecordedSpending(self._spent, held), reserve, self._caps, now)
        return Tokens() if refused else reserve

    def _is_due(self, last: Ledger, kept: Tokens | None, now: datetime) -> bool:
        """Return whether an entry is needed although no caller waits for it."""
        mine = last.holds.get(self._writer)
        changed = self._spent.calls > 0 or (mine.tokens if mine else None) != kept
        age = (now - self._written_at).total_seconds() if self._written_at else FLUSH_SECONDS
        if self._closing:
            return changed
        return (changed and age >= FLUSH_SECONDS) or (mine is not None and age >= RENEW_SECONDS)

    def _commit(self, entry: _Entry) -> None:
        """Take over what an entry says that has been created."""
        # Calls that ended while it was created stand in the next one.
        self._spent -= entry.spent
        self._held, self._lately, self._written_at = entry.hold, Tokens(), self._now()
        for waiting in entry.granted:
            if not waiting.granted.done():
                self._waiting.remove(waiting)
                self._grant(waiting.wanted)
                waiting.granted.set_result(None)


def _fail(waiting: _Waiting, error: SteelyardError) -> None:
    if not waiting.granted.done():
        waiting.granted.set_exception(error)
