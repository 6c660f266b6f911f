"""A hub, a provider and a receiver of webhooks, outside a platform whose story is told. Each of them counts.

`prepare` lets an installation use them, and `check` compares their counts with what the installation says, after
whatever was killed meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
from aiohttp import web
from standardwebhooks import Webhook as Signature

from steelyard.cli.demo.story import ACCOUNT as STORY
from steelyard.client import Client, presets
from steelyard.services.simulation.receiver import Delivery, Receiver, receiver
from steelyard.steps.source_servers import TOKEN, ServedSource, hub_server
from steelyard_evaluation.hosted.doubles import KEY, FakeProvider
from steelyard_schema.account import AccessGrant
from steelyard_schema.webhook import ENDED
from tests.engines.services.conftest import ServedMachine
from tests.integration.test_hosted_models import settled
from tests.integration.test_platform_kills import MADE

ACCOUNT = "outside"
ROWS = 24
SECONDS = 600.0
OTHERS = ("datasources", "inferencesessions")
"""Collections that have entities besides those of the story."""


@dataclass(frozen=True)
class Outside:
    """The three of them, each on loopback."""

    hub: ServedSource
    provider: FakeProvider
    provider_url: str
    receiver: Receiver


@dataclass(frozen=True)
class PreparedEntities:
    """Ids of the entities from before the story."""

    owner: str
    webhook: str
    secret: str
    service: str
    evaluation: str


@asynccontextmanager
async def outside() -> AsyncIterator[Outside]:
    """Serve the three; the hub answers nobody without a token."""
    rows = b"".join(orjson.dumps({"prompt": f"question {number}"}) + b"\n" for number in range(ROWS))
    provider = FakeProvider(seconds=0.2)
    runner = web.AppRunner(provider.app(), shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        with hub_server({"rows.jsonl": rows}) as hub:
            hub.token = TOKEN
            async with receiver() as target:
                yield Outside(hub, provider, url, target)
    finally:
        await runner.cleanup()


def allow(machine: ServedMachine, hub: str) -> None:
    """Let the settings allow servers on loopback, with this hub: before the machine is started."""
    allowed = "\n".join(
        f'{purpose} = ["http://127.0.0.1"]' for purpose in ("webhooks", "services", "sources")
    )
    with machine.settings.open("a") as file:
        file.write(f'\n[egress]\n{allowed}\nnetworks = ["127.0.0.0/8"]\n[operator]\nhub = "{hub}"\n')


def prepare(client: Client, place: Outside) -> PreparedEntities:
    """Set secrets, register a webhook, and have rows of the hub answered by the provider."""
    owner = client.accounts.create("observer").id or ""
    grants = [AccessGrant(resources=["*"], functions=["get"], accounts=[STORY, ACCOUNT])]
    client.accounts.set_permissions(owner, grants)
    webhook = client.webhooks.create(owner, place.receiver.url)
    client.secrets.set(ACCOUNT, "hub-token", TOKEN)
    client.secrets.set(ACCOUNT, "provider-key", KEY)
    source = client.datasources.create(
        account=ACCOUNT,
        name="rows",
        sourceKind="huggingface",
        source="org/rows",
        secrets={"source": "hub-token"},
    )
    dataset = client.datasets.create(account=ACCOUNT, name="rows", dataSource=source.id)
    service = client.inferenceservices.create(
        account=ACCOUNT,
        name="hosted",
        runner=presets.hosted(place.provider_url, "large", max_output_tokens=40, tokens_total=1_000_000),
        interface=presets.chat("prompt", temperature=0),
        secrets={"provider": "provider-key"},
    )
    evaluation = client.evaluations.create(
        account=ACCOUNT, dataset=dataset.id, inferenceSession={"inferenceService": service.id}
    )
    return PreparedEntities(owner, webhook.webhook.id, webhook.secret, service.id, evaluation.id)


async def check(client: Client, place: Outside, made: PreparedEntities, folders: Iterable[Path]) -> None:
    """Check that rows, bills and events agree on both sides, and that no secret lies in the folders of the engines."""
    await asyncio.to_thread(client.evaluations.wait, made.evaluation, timeout=SECONDS)
    await asyncio.to_thread(check_bill, client, place, made)
    ends = await asyncio.to_thread(_ends, client)
    await _until_delivered(client, place, made, ends)
    check_deliveries(place.receiver.deliveries, made.secret)
    for folder in folders:
        assert [path for path in folder.rglob("*") if _holds(path, TOKEN, KEY)] == []


def check_bill(client: Client, place: Outside, made: PreparedEntities) -> None:
    """Check that the ledger has what the provider has charged."""
    spending = settled(client, client.inferenceservices.get(made.service), seconds=60.0)
    spent = spending.total.inputTokens + spending.total.outputTokens
    # A replica that ended while the storage was away has left what it held: that counts as spent, too.
    assert place.provider.total_tokens <= spent + spending.heldTokens
    if not spending.total.estimatedCalls:
        assert spent <= place.provider.total_tokens
    exact = not (spending.heldTokens or spending.total.estimatedCalls)
    print(
        f"charged: {place.provider.total_tokens} tokens, in the ledger {spent}{' exactly' if exact else ''}"
    )
    assert len(place.provider.bodies) >= ROWS


def check_deliveries(deliveries: Iterable[Delivery], secret: str) -> None:
    """Check that each is signed, and that each end came under one id."""
    ids: dict[tuple[object, object], set[str]] = {}
    for delivery in deliveries:
        # The library takes only what was signed within five minutes, and a story may take longer.
        id, time = (delivery.headers[f"webhook-{name}"] for name in ("id", "timestamp"))
        signed = Signature(secret).sign(id, datetime.fromtimestamp(int(time), UTC), delivery.body.decode())
        assert delivery.headers["webhook-signature"] == signed
        event = delivery.event
        ids.setdefault((event.get_subject(), event.get_type()), set()).add(id)
    assert [end for end, names in ids.items() if len(names) > 1] == []


async def _until_delivered(
    client: Client, place: Outside, made: PreparedEntities, ends: set[tuple[str, str]]
) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            missing = ends - {
                (str(delivery.event.get_subject()), str(delivery.event.get_type()))
                for delivery in list(place.receiver.deliveries)
            }
            webhook = await asyncio.to_thread(client.webhooks.get, made.owner, made.webhook)
            if not missing and not webhook.waiting:
                break
            await asyncio.sleep(0.2)
    assert (webhook.status, webhook.dropped) == ("Active", 0)
    repeats = len(place.receiver.deliveries) - len(ends)
    print(f"{len(ends)} ends were told, and {repeats} times one of them again")


def _ends(client: Client) -> set[tuple[str, str]]:
    """Return the subject and type of the event of everything that has ended."""
    return {
        (f"{plural}/{entity.id}", f"steelyard.{entity.kind.lower()}.{entity.status.lower()}")
        for plural in (*MADE, *OTHERS)
        for account in (STORY, ACCOUNT)
        for entity in getattr(client, plural).query(account=account)
        if entity.status in ENDED
    }


def _holds(path: Path, *values: str) -> bool:
    return path.is_file() and any(value.encode() in path.read_bytes() for value in values)
