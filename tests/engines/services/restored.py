"""Webhook, secret, data source and bill of an account, in an installation that is lost and restored."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from steelyard.broker.log import STATE
from steelyard.broker.scan import topic_pieces
from steelyard.client import Client, presets
from steelyard.local.engines import open_engines
from steelyard.settings import Settings
from steelyard.steps.source_servers import TOKEN, ServedSource
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.ledger import CallTotals, Ledger, Tokens
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.account import AccessGrant
from steelyard_schema.names import place
from steelyard_schema.secrets import Secret
from tests.engines.services.postgresql import programs
from tests.engines.services.service import Service
from tests.integration.http_server import QuietHandler, http_server
from tests.integration.small import write_rows

ACCOUNT = "outside"
ENTITIES = 3
"""Number of entities that `ask_for` makes."""
SPENT = CallTotals(3, Tokens(40, 2))
SECONDS = 600.0


@dataclass
class Events:
    """Ids and subjects of the events that a receiver was sent."""

    url: str = ""
    sent: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class AskedFor:
    """Ids of the entities from before everything was lost, and the secret."""

    owner: str
    webhook: str
    dataset: str
    source: str
    service: str
    secret: Secret


@contextmanager
def receiver() -> Iterator[Events]:
    """Serve a receiver that accepts everything."""
    events = Events()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 (the name that http.server calls)
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            events.sent.append((event["id"], event["subject"]))
            self.send_response(204)
            self.end_headers()

    with http_server(Handler) as origin:
        events.url = f"{origin}/hook"
        yield events


def ask_for(client: Client, settings: Settings, events: Events, folder: Path) -> AskedFor:
    """Ask for what needs no Pod, of an installation that admits nothing; return once the end of a dataset was told."""
    owner = client.accounts.create("observer").id or ""
    grant = AccessGrant(resources=["*"], functions=["get"], accounts=[ACCOUNT])
    client.accounts.set_permissions(owner, [grant])
    webhook = client.webhooks.create(owner, events.url).webhook.id
    secret = client.secrets.set(ACCOUNT, "hub-token", TOKEN)
    source = client.datasources.create(
        account=ACCOUNT,
        name="rows",
        sourceKind="huggingface",
        source="org/rows",
        secrets={"source": "hub-token"},
    )
    service = client.inferenceservices.create(
        account=ACCOUNT,
        name="hosted",
        runner=presets.hosted("http://127.0.0.1:9/v1", "large", max_output_tokens=40, tokens_total=1000),
        interface=presets.chat("prompt"),
    )
    asyncio.run(spend(settings, service.id))
    dataset = client.datasets.create_from_folder(write_rows(folder, 3), account=ACCOUNT, name="rows")
    end = time.monotonic() + SECONDS
    while not (shown := client.webhooks.get(owner, webhook)).delivered:
        assert time.monotonic() < end, shown
        time.sleep(0.1)
    return AskedFor(owner, webhook, dataset.id, source.id, service.id, secret)


async def spend(settings: Settings, service: str) -> None:
    """Let the ledger of a hosted model have an entry."""
    now = datetime.now(UTC)
    book = Book(open_store(settings.storage), place("InferenceService", service))
    assert await book.add(Ledger(now.date()).after("a replica", SPENT, None, now))


def copy_database(address: str, server: Service, name: str) -> None:
    """Copy a database with PostgreSQL's own tools, as an administrator does."""
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    dump = [str(programs() / "pg_dump"), address]
    load = [str(programs() / "psql"), "-q", "-v", "ON_ERROR_STOP=1", f"{address.rpartition('/')[0]}/{name}"]
    dumped = subprocess.run(dump, check=True, capture_output=True)
    subprocess.run(load, check=True, input=dumped.stdout, stdout=subprocess.DEVNULL)


def check_asked_for(client: Client, made: AskedFor, hub: ServedSource) -> None:
    """Check that secret, ledger and webhook are what they were, and that the source is fetched with the secret."""
    assert client.secrets.list(ACCOUNT) == [made.secret]
    total = client.inferenceservices.spending(made.service).total
    assert (total.calls, total.inputTokens, total.outputTokens) == (3, 40, 2)
    (webhook,) = client.webhooks.list(made.owner)
    assert (webhook.id, webhook.status, webhook.dropped) == (made.webhook, "Active", 0)
    client.datasources.wait(made.source, timeout=SECONDS)
    assert any(path.endswith("/rows.csv") for path in hub.paths())


def check_events(
    client: Client, settings: Settings, made: AskedFor, events: Events, before: Sequence[tuple[str, str]]
) -> None:
    """Check that the end of the source is told, and nothing again that was told before the loss."""
    assert [subject for _, subject in before] == [f"datasets/{made.dataset}"]
    asyncio.run(until_read(settings))
    end = time.monotonic() + SECONDS
    while client.webhooks.get(made.owner, made.webhook).waiting:
        assert time.monotonic() < end, events.sent
        time.sleep(0.1)
    new = events.sent[len(before) :]
    assert f"datasources/{made.source}" in [subject for _, subject in new]
    assert set(new).isdisjoint(before), "an old event was sent again"


async def until_read(settings: Settings) -> None:
    """Wait until the sender of webhooks has read the whole log."""
    async with asyncio.timeout(SECONDS), open_engines(settings) as opened:
        records = [record async for records in topic_pieces(opened.log, STATE) for record in records]
        # Not the end of a partition: marks of transactions have a place there, and are read by nobody.
        last = {record.partition: record.offset for record in records}
        webhooks = opened.accounts_database.webhooks
        while True:
            at = await webhooks.positions(opened.log.epoch)
            if all(at.get(partition, 0) > offset for partition, offset in last.items()):
                return
            await asyncio.sleep(0.1)
