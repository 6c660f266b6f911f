"""Several processes on one database at once, and processes that are killed in the middle of it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.tokens import Tokens, Unauthenticated

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
IMPORTS = """
import asyncio, sys
from datetime import UTC, datetime
from steelyard.testing.engines.claims import admit, at_most, claim
from steelyard.testing.engines.outbox import row
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.tokens import bootstrap
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
"""
WRITES = """
async def requests(accounts_database):
    for n in range(1_000_000):
        await accounts_database.outbox.add(row(f"c{n}"), [row(f"c{n}-1"), row(f"c{n}-2")])
        await accounts_database.outbox.note_sent(f"c{n}", (0, n))
        print("request", n, flush=True)

async def states(accounts_database):
    leader = await accounts_database.claims.lead("one", NOW)
    for n in range(1_000_000):
        await accounts_database.claims.apply([(f"e{n}", claim(f"e{n}"))], 1, {0: n + 1}, leader)
        await admit(accounts_database.claims, f"e{n}", NOW, at_most(20), leader)
        print("state", n, flush=True)

async def main():
    accounts_database = await open_accounts_database(sys.argv[1])
    await asyncio.gather(requests(accounts_database), states(accounts_database))
"""
STARTS = """
async def main():
    accounts_database = await open_accounts_database(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    token = await bootstrap(accounts_database.accounts, "administrator", NOW)
    leader = await accounts_database.claims.lead("one", NOW)
    added = await accounts_database.outbox.add(row(sys.argv[2], key="k"))
    await accounts_database.close()
    print(token, leader, added.command, flush=True)
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    code = f"{IMPORTS}{script}\nasyncio.run(main())"
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=pipe, stdout=pipe, text=True)


def killed_after(lines: int, process: subprocess.Popen[str]) -> dict[str, int]:
    """The last number of each word that it has said."""
    said: dict[str, int] = {}
    with process:
        assert process.stdout is not None
        for count, line in enumerate(process.stdout):
            word, number = line.split()
            said[word] = int(number)
            if count >= lines:
                process.kill()
    return said


def at_the_same_time(processes: Sequence[subprocess.Popen[str]]) -> list[list[str]]:
    """Return the output of processes that all start at one word, when all are ready."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return said


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'accounts.db'}"


@pytest.fixture
async def accounts_database(url: str) -> AsyncIterator[AccountsDatabase]:
    opened = await open_accounts_database(url)
    yield opened
    await opened.close()


async def test_what_was_confirmed_is_there_after_kill_9(
    accounts_database: AccountsDatabase, url: str
) -> None:
    said = await asyncio.to_thread(killed_after, 80, start(WRITES, url))
    await requests_are_whole(accounts_database, said["request"])
    await states_are_whole(accounts_database, said["state"])


async def requests_are_whole(accounts_database: AccountsDatabase, confirmed: int) -> None:
    rows = await accounts_database.outbox.pending()
    first = [row.command for row in rows[::3]]
    assert first[: confirmed + 1] == [f"c{n}" for n in range(confirmed + 1)]
    assert [row.command for row in rows] == [
        f"{command}{rest}" for command in first for rest in ("", "-1", "-2")
    ]
    assert all(rows[3 * n].position == (0, n) for n in range(confirmed + 1))


async def states_are_whole(accounts_database: AccountsDatabase, confirmed: int) -> None:
    claims = await accounts_database.claims.list_unfinished()
    assert len(claims) > confirmed
    assert await accounts_database.claims.positions(1) == {0: len(claims)}
    admitted = [claim for claim in claims if claim.admitted_at]
    assert min(confirmed + 1, 20) <= len(admitted) <= 20


async def test_processes_that_start_at_once_agree(accounts_database: AccountsDatabase, url: str) -> None:
    """Processes agree on one signing key, one administrator, one row of a key; each has an epoch of its own."""
    processes = [start(STARTS, url, f"c{n}") for n in range(3)]
    said = await asyncio.to_thread(at_the_same_time, processes)
    assert len(await accounts_database.accounts.signing_keys()) == 1
    [administrator] = await accounts_database.accounts.list()
    assert len({leader for _, leader, _ in said}) == len(said)
    assert len({command for _, _, command in said}) == 1
    assert len(administrator.apiKeys) == 1
    verdicts = [await verdict(accounts_database, token) for token, _, _ in said]
    assert sorted(verdicts) == ["good", "the token was revoked", "the token was revoked"]


async def verdict(accounts_database: AccountsDatabase, token: str) -> str:
    try:
        await Tokens(accounts_database.accounts).authenticate(token, NOW)
    except Unauthenticated as error:
        return str(error)
    return "good"
