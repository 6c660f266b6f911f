"""Spending in storage: the cap is kept by many writers at once, by killed ones, and by a storage that fails."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from steelyard_evaluation.hosted.account import FLUSH_SECONDS, Account, CapBusy, CapReached, SpendingUnknown
from steelyard_evaluation.hosted.book import Book, LedgerDamaged
from steelyard_evaluation.hosted.ledger import CallTotals, Caps, Ledger, Tokens
from steelyard_evaluation.storage.store import StorageError, Store, open_store
from steelyard_schema.hosted_model import HostedModel

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PATIENCE = 30.0


def caps(**limits: Any) -> Caps:
    return Caps(HostedModel(base_url="https://models.example/v1", model="m", **limits))


@asynccontextmanager
async def account(store: Store, limits: Caps, writer: str = "me") -> AsyncIterator[Account]:
    opened = Account(Book(store), limits, writer, lambda: NOON)
    await opened.open()
    yield opened
    await opened.close()


async def read(store: Store) -> Ledger:
    book = Book(store)
    await book.open()
    assert book.last
    return book.last


async def kill(killed: Account) -> None:
    """End it as a SIGKILL would: what it has not written is gone."""
    assert killed._task
    killed._task.cancel()
    await asyncio.wait([killed._task])


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    # Not named after the folder: once it is removed, another test's may have its name.
    return open_store(f"file://{tmp_path}" if request.param == "file" else f"memory://{secrets.token_hex(8)}")


async def test_what_calls_have_used_stands_in_the_ledger(store: Store) -> None:
    async with account(store, caps(tokens_total=1000)) as spending:
        await spending.hold(Tokens(10, 90), PATIENCE)
        assert (await read(store)).sum_committed(NOON)[1].covers(Tokens(10, 90))
        spending.settle(Tokens(10, 90), Tokens(7, 5))
        await spending.hold(Tokens(10, 90), PATIENCE)
        spending.settle(Tokens(10, 90), None)
    ledger = await read(store)
    assert ledger.total == ledger.today == CallTotals(2, Tokens(17, 95), estimated=1)
    assert ledger.holds == {}


async def test_a_call_beyond_the_cap_is_refused_before_it_is_made(store: Store) -> None:
    async with account(store, caps(tokens_total=100)) as spending:
        await spending.hold(Tokens(0, 60), PATIENCE)
        spending.settle(Tokens(0, 60), Tokens(0, 50))
        with pytest.raises(
            CapReached, match="the cap of 100 tokens in total leaves no room for this call: 50 tokens are"
        ):
            await spending.hold(Tokens(0, 51), PATIENCE)
        await spending.hold(Tokens(0, 50), PATIENCE)


async def test_a_call_waits_for_those_in_flight(store: Store) -> None:
    async with account(store, caps(tokens_total=100)) as spending:
        await spending.hold(Tokens(0, 60), PATIENCE)
        waiting = asyncio.create_task(spending.hold(Tokens(0, 60), PATIENCE))
        async with asyncio.timeout(PATIENCE):
            while not (spending._waiting and spending._waiting[0].refusal):  # noqa: ASYNC110 - nothing else tells
                await asyncio.sleep(0)
        assert "calls in flight may use up the cap" in spending._waiting[0].refusal.message
        spending.settle(Tokens(0, 60), Tokens(0, 1))
        await waiting


async def test_a_call_that_is_given_up_holds_nothing(store: Store) -> None:
    async with account(store, caps(tokens_total=100)) as spending:
        waiting = asyncio.create_task(spending.hold(Tokens(0, 100), PATIENCE))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await spending.hold(Tokens(0, 100), PATIENCE)
        spending.settle(Tokens(0, 100), Tokens(0, 0))


async def test_what_a_killed_writer_held_is_spent(store: Store) -> None:
    async with account(store, caps(tokens_total=100), "killed") as spending:
        await spending.hold(Tokens(0, 60), PATIENCE)
        await kill(spending)
        async with account(store, caps(tokens_total=100)) as other:
            with pytest.raises(CapBusy):
                await other.hold(Tokens(0, 41), 0.05)
            await other.hold(Tokens(0, 40), PATIENCE)
            other.settle(Tokens(0, 40), Tokens(0, 40))
        spending._task = None
        spending._closing = True
    assert (await read(store)).sum_committed(NOON)[1].total == 100


async def test_most_calls_need_no_entry_of_their_own(store: Store) -> None:
    calls, wanted = 2000, Tokens(10, 10)
    async with account(store, caps(tokens_total=10_000_000)) as spending:
        for _ in range(calls):
            await spending.hold(wanted, PATIENCE)
            spending.settle(wanted, wanted)
    ledger = await read(store)
    assert ledger.total.calls == calls
    assert ledger.number < calls / 20


@pytest.mark.parametrize("seed", range(4))
async def test_many_writers_and_kills_never_pass_the_cap(store: Store, seed: int) -> None:
    """The provider counts for itself; every call is charged in full when it is sent, answered or not."""
    chance, cap, charged = random.Random(seed), 20_000, 0
    limits, begun = caps(tokens_total=cap), asyncio.Event()

    async def caller(spending: Account) -> None:
        nonlocal charged
        while True:
            most = Tokens(chance.randrange(1, 200), chance.randrange(1, 400))
            try:
                await spending.hold(most, 0.2)
            except CapBusy:
                continue
            except CapReached:
                return
            used = Tokens(chance.randrange(most.input + 1), chance.randrange(1, most.output + 1))
            charged += used.total
            begun.set()
            await asyncio.sleep(chance.random() / 1000)
            spending.settle(most, used if chance.random() < 0.9 else None)

    async def life(writer: str) -> None:
        spending = Account(Book(store), limits, writer, lambda: NOON)
        await spending.open()
        callers = [asyncio.create_task(caller(spending)) for _ in range(8)]
        await begun.wait()  # a slow disk may need longer for the first call than a life lasts
        _, pending = await asyncio.wait(callers, timeout=chance.random() / 5)
        for task in pending:
            task.cancel()
        if pending and chance.random() < 0.5:
            await kill(spending)
        await asyncio.gather(*callers, return_exceptions=True)
        await spending.close()

    async def generations(name: int) -> None:
        for number in range(4):
            with suppress(asyncio.CancelledError):  # it was killed
                await life(f"writer-{name}-{number}")

    await asyncio.gather(*(generations(name) for name in range(3)))
    ledger = await read(store)
    assert 0 < charged <= ledger.sum_committed(NOON)[1].total <= cap


class Failing:
    """A store whose writes wait while it is not open, and fail before or after they have happened."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.url = store.url
        self.fails: str | None = None
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def create(self, key: str, data: bytes) -> None:
        if not self.open.is_set():
            self.begun.set()
            await self.open.wait()
        if self.fails == "before":
            raise StorageError("no answer")
        await self.store.create(key, data)
        if self.fails == "after":
            raise StorageError("no answer")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_no_call_is_made_that_could_not_be_counted(store: Store, when: str) -> None:
    failing = Failing(store)
    async with account(failing, caps(tokens_total=100)) as spending:
        failing.fails = when
        with pytest.raises(SpendingUnknown, match="no answer"):
            await spending.hold(Tokens(0, 10), PATIENCE)
        failing.fails = None
        await spending.hold(Tokens(0, 10), PATIENCE)
        spending.settle(Tokens(0, 10), Tokens(0, 9))
    ledger = await read(store)
    assert (ledger.total, ledger.holds) == (CallTotals(1, Tokens(0, 9)), {})


async def test_what_is_given_back_is_given_to_no_other_call_meanwhile(store: Store) -> None:
    """Tokens are given to no call while an entry is being written: it is not known how many will be held."""
    failing, now = Failing(store), NOON
    spending = Account(Book(failing), caps(tokens_total=1000), "me", lambda: now)
    await spending.open()
    await spending.hold(Tokens(0, 60), PATIENCE)
    spending.settle(Tokens(0, 60), Tokens(0, 0), calls=0)
    failing.open.clear()
    now += timedelta(seconds=FLUSH_SECONDS)
    await failing.begun.wait()
    call = asyncio.create_task(spending.hold(Tokens(0, 60), PATIENCE))
    for _ in range(10):
        await asyncio.sleep(0)
    failing.open.set()
    await call
    assert (await read(store)).sum_committed(now)[1].output >= 60
    spending.settle(Tokens(0, 60), None)
    await spending.close()


async def test_an_entry_whose_answer_was_lost_counts_once(store: Store) -> None:
    failing = Failing(store)
    async with account(failing, caps(tokens_total=100)) as spending:
        await spending.hold(Tokens(0, 10), PATIENCE)
        spending.settle(Tokens(0, 10), Tokens(0, 9))
        failing.fails = "after"
        with pytest.raises(SpendingUnknown):
            await spending.hold(Tokens(0, 50), PATIENCE)
        failing.fails = None
    assert (await read(store)).total == CallTotals(1, Tokens(0, 9))


async def test_without_caps_nothing_waits(store: Store) -> None:
    failing = Failing(store)
    async with account(failing, caps()) as spending:
        await spending.hold(Tokens(10**9, 10**9), 0.0)
        spending.settle(Tokens(10**9, 10**9), Tokens(1, 2))
    assert (await read(store)).total.tokens == Tokens(1, 2)


async def test_a_damaged_ledger_is_not_taken_for_an_empty_one(store: Store) -> None:
    await store.put(".steelyard/spending/000000000001.json", b"{")
    with pytest.raises(LedgerDamaged, match=r"000000000001\.json is not an entry of a spending ledger"):
        await Book(store).open()


@pytest.mark.parametrize("entries", [0, 1, 2, 3, 7, 8, 9, 100])
async def test_the_last_entry_is_found(store: Store, entries: int) -> None:
    book, ledger = Book(store, "services/one"), Ledger(NOON.date())
    for _ in range(entries):
        ledger = ledger.after("me", CallTotals(1), None, NOON)
        assert await book.add(ledger)
    again = Book(store, "services/one")
    await again.open()
    assert (again.last.number if again.last else 0) == entries
