"""A sender that is killed while it sends, on the files of one machine: every event arrives, under one id."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.webhooks.registration import Registration
from steelyard.broker.log import STATE, Log, Message
from steelyard.broker.sqlite.log import open_sqlite_log
from steelyard.services.simulation.entities import make_evaluation
from steelyard.services.simulation.receiver import receiver
from steelyard_schema.account import AccessGrant, Identity
from steelyard_schema.commands import command_time

PROGRAM = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.webhooks.settings import WebhookSettings
from steelyard.broker.sqlite.log import open_sqlite_log
from steelyard_schema.egress import EgressPolicy
from steelyard.services.webhooks.sender import Sending, run_webhooks

async def main(folder, accounts, ahead):
    log = await open_sqlite_log(f"{folder}/log.db")
    database = await open_accounts_database(accounts)
    policy = EgressPolicy(hosts=("http://127.0.0.1",), networks=("127.0.0.0/8",))
    settings = WebhookSettings(timeout_seconds=60)
    clock = lambda: datetime.now(UTC) + timedelta(seconds=float(ahead))
    sending = Sending(database.webhooks, database.accounts, policy, settings, clock)
    await run_webhooks(log, sending, "urn:steelyard:test", stop=asyncio.Event())

asyncio.run(main(*sys.argv[1:]))
"""
EVENTS = 6
LATER = 3600
"""Seconds by which the second sender is later: the lease of the first has ended."""


@contextmanager
def sender(folder: Path, accounts: str, ahead: int = 0) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), accounts, str(ahead)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def end_evaluations(log: Log, since: datetime) -> None:
    for number in range(EVENTS):
        entity = make_evaluation(f"e{number}").model_copy(update={"account": "acme"})
        content = {**entity.dump(), "status": "Complete", "lastTransitionTime": command_time(since)}
        headers = {"time": command_time(since), "epoch": "1", "partition": "0", "offset": str(number)}
        await log.publish([Message(STATE, entity.id, orjson.dumps(content), headers)])


@pytest.mark.parametrize("sent", [1, 3], ids=["before any answer", "amid the answers"])
async def test_nothing_is_lost_when_a_sender_is_killed(tmp_path: Path, sent: int) -> None:
    await check_killed_sender(tmp_path, f"sqlite:{tmp_path / 'accounts.db'}", sent)


async def check_killed_sender(tmp_path: Path, accounts: str, sent: int) -> None:
    """Kill a sender once it has sent so many events; on any accounts database, the next one sends the rest."""
    log = await open_sqlite_log(tmp_path / "log.db")
    database = await open_accounts_database(accounts)
    now = datetime.now(UTC)
    await database.accounts.add_signing_key("first", b"pem", now)
    grants = [AccessGrant(resources=["*"], functions=["get"], accounts=["acme"])]
    account = (await database.accounts.create("acme", Identity(), now, grants)).id or ""
    async with receiver() as target:
        created = (now - timedelta(hours=1)).timestamp()
        await database.webhooks.add("h1", account, Registration(target.url, created, tuple(grants)), 1)
        await end_evaluations(log, now)
        target.open.clear()
        with sender(tmp_path, accounts) as process:
            await target.until(1)
            if sent > 1:
                target.open.set()
                await target.until(sent)
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        target.open.set()
        with sender(tmp_path, accounts, LATER):
            async with asyncio.timeout(120):
                while True:
                    webhook = await database.webhooks.get(account, "h1")
                    assert webhook is not None
                    if webhook.delivered == EVENTS:
                        break
                    await asyncio.sleep(0.05)
        assert (webhook.waiting, webhook.dropped) == (0, 0)
    counts = Counter(str(delivery.event.get_id()) for delivery in target.deliveries)
    subjects = {str(delivery.event.get_id()): delivery.event.get_subject() for delivery in target.deliveries}
    assert sorted(map(str, subjects.values())) == [f"evaluations/e{number}" for number in range(EVENTS)]
    assert sum(counts.values()) <= EVENTS + 1, "one event at most comes twice"
    await database.close()
    await log.close()
