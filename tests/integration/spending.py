"""Program that makes calls of a hosted model until it is killed, and what its kills leave in the ledger.

Arguments: the address of the store, the name of the writer, and whether it calls `for ever` or `a few` times. It prints
the tokens of each call when it is sent, which is when a provider charges them.
"""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import repeat

from steelyard.steps.exits import leave
from steelyard_evaluation.hosted.account import Account, CapBusy, CapReached
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.ledger import Caps, Ledger, Tokens
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.hosted_model import HostedModel

CAP = 20_000
CALLERS, FEW = 8, 5
KILLS = 3


async def check_killed_writers(store: Store, chance: random.Random) -> None:
    """Kill processes amid their calls: the ledger has what they were charged, and exactly what the last one was."""
    charged = 0
    for number in range(KILLS):
        charged += await _charged(store, f"writer-{number}", kill_after=chance.randrange(1, 20))
    killed = await _read(store)
    assert charged <= killed.sum_committed(datetime.now(UTC))[1].total <= CAP
    exact = await _charged(store, "last")
    ledger = await _read(store)
    assert ledger.total.tokens.total == killed.total.tokens.total + exact
    assert set(ledger.holds) == set(killed.holds), "the last one holds nothing any more"
    assert charged + exact <= ledger.sum_committed(datetime.now(UTC))[1].total <= CAP


async def _charged(store: Store, writer: str, kill_after: int | None = None) -> int:
    """Run the program, and kill it after so many calls; return what all its calls were charged."""
    calls = "for ever" if kill_after else "a few"
    command = [sys.executable, "-m", "tests.integration.spending", store.url, writer, calls]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout
    charged = count = 0
    # What it has printed before it was dead, it was charged.
    async for line in process.stdout:
        charged, count = charged + int(line), count + 1
        if count == kill_after:
            process.kill()
    status = await process.wait()
    assert status == (-signal.SIGKILL if kill_after else 0), (
        f"{writer} ended with {status} after {count} calls"
    )
    return charged


async def _read(store: Store) -> Ledger:
    book = Book(store)
    await book.open()
    assert book.last
    return book.last


async def spend(address: str, writer: str, calls: str) -> None:
    model = HostedModel(base_url="https://models.example/v1", model="m", tokens_total=CAP)
    spending = Account(Book(open_store(address)), Caps(model), writer, lambda: datetime.now(UTC))
    await spending.open()
    async with asyncio.TaskGroup() as group:
        for number in range(CALLERS):
            turns = repeat(None) if calls == "for ever" else repeat(None, FEW)
            group.create_task(_call(spending, random.Random(number), turns))
    await spending.close()


async def _call(spending: Account, chance: random.Random, turns: Iterable[None]) -> None:
    for _ in turns:
        most = Tokens(chance.randrange(1, 20), chance.randrange(1, 40))
        try:
            await spending.hold(most, 1.0)
        except (CapBusy, CapReached):
            await asyncio.sleep(0.1)  # a cap is reached where the kill comes late
            continue
        used = Tokens(most.input, chance.randrange(1, most.output + 1))
        print(used.total, flush=True)
        await asyncio.sleep(0.05)
        spending.settle(most, used)


if __name__ == "__main__":
    asyncio.run(spend(*sys.argv[1:]))
    leave(0)
