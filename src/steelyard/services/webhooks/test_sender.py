"""Senders between a log in memory and receivers of this machine."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from aiohttp import web
from standardwebhooks.webhooks import WebhookVerificationError

from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.webhooks.registration import Registration, format_secret, signing_key
from steelyard.accounts.webhooks.settings import WebhookSettings
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message, Record
from steelyard.egress.doubles import names_leading
from steelyard.services.simulation.entities import make_evaluation
from steelyard.services.simulation.receiver import Receiver, receiver
from steelyard.services.webhooks import sender
from steelyard.services.webhooks.sender import OVERLAP, Sending, run_webhooks
from steelyard.sqlite import Database
from steelyard_schema.account import AccessGrant, Account, Identity
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import command_time
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.webhook import Webhook

LOOPBACK = EgressPolicy(
    hosts=("http://127.0.0.1", "http://hooks.example"), networks=("127.0.0.1/32",), setting="egress.webhooks"
)
FAST = WebhookSettings(longest_pause_seconds=0.01)


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "IDLE_SECONDS", 0.02)


class FollowedLog(MemoryLog):
    """A log that knows up to where the sender has taken its records: who follows asks only for those after them."""

    taken: Mapping[int, int] = {}

    async def read_each(
        self, topic: str, starts: Mapping[int, int], limit: int = 500
    ) -> Mapping[int, Sequence[Record]]:
        if topic == STATE:
            self.taken = dict(starts)
        return await super().read_each(topic, starts, limit)


@dataclass
class SenderHarness:
    """A log, an accounts database with one account, and a sender."""

    database: AccountsDatabase
    account: Account
    log: FollowedLog = field(default_factory=FollowedLog)
    settings: WebhookSettings = FAST
    policy: EgressPolicy = LOOPBACK
    _offset: int = 0

    async def hook(self, url: str, id: str = "h1", ago: timedelta = timedelta(hours=1)) -> str:
        """Register an address; return its secret."""
        grants = (AccessGrant(resources=["*"], functions=["*"], accounts=["*"]),)
        created = (datetime.now(UTC) - ago).timestamp()
        await self.database.webhooks.add(id, self.account.id or "", Registration(url, created, grants), 20)
        return format_secret(signing_key(b"pem", id, 1))

    async def becomes(
        self, entity: DyffEntity, status: str, since: datetime | None = None, **more: Any
    ) -> None:
        since = since or datetime.now(UTC)
        content = {**entity.dump(), "status": status, "lastTransitionTime": command_time(since), **more}
        self._offset += 1
        headers = {"time": command_time(since), "epoch": "1", "partition": "0", "offset": str(self._offset)}
        await self.log.publish([Message(STATE, entity.id, orjson.dumps(content), headers)])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        sending = Sending(
            self.database.webhooks, self.database.accounts, self.policy, self.settings, rng=Random(1)
        )
        service = asyncio.create_task(run_webhooks(self.log, sending, "urn:steelyard:test", stop=stop))
        try:
            yield
        finally:
            stop.set()
            await service

    def commits(self) -> int:
        """Return how many transactions the database in memory has committed."""
        assert isinstance(self.database.database, Database)
        return self.database.database.version()

    async def shown(self, id: str = "h1") -> Webhook:
        webhook = await self.database.webhooks.get(self.account.id or "", id)
        assert webhook is not None
        return webhook

    async def until(self, holds: Callable[[Webhook], bool], id: str = "h1") -> Webhook:
        async with asyncio.timeout(60):
            while not holds(webhook := await self.shown(id)):  # noqa: ASYNC110 (the database alone knows)
                await asyncio.sleep(0.01)
        return webhook

    async def until_read(self) -> None:
        """Wait until the sender has read the whole log."""
        async with asyncio.timeout(60):
            ends = await self.log.ends(STATE)
            wanted = {partition: end for partition, end in ends.items() if end}
            while not wanted.items() <= (await self.database.webhooks.positions(self.log.epoch)).items():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def until_taken(self) -> None:
        """Wait until the sender has taken the whole log, also where it stores no positions yet."""
        async with asyncio.timeout(60):
            while self.log.taken != await self.log.ends(STATE):  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def make_harness(database: AccountsDatabase) -> SenderHarness:
    now = datetime.now(UTC)
    await database.accounts.add_signing_key("first", b"pem", now)
    permissions = [AccessGrant(resources=["*"], functions=["get"], accounts=["acme"])]
    return SenderHarness(database, await database.accounts.create("acme", Identity(), now, permissions))


@pytest.fixture
async def harness() -> AsyncIterator[SenderHarness]:
    database = await open_accounts_database("memory:")
    yield await make_harness(database)
    await database.close()


@pytest.fixture
async def target() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made


def evaluation(id: str = "e1") -> DyffEntity:
    return make_evaluation(id).model_copy(update={"account": "acme"})


async def test_an_end_is_reported_as_a_signed_cloud_event(harness: SenderHarness, target: Receiver) -> None:
    secret = await harness.hook(target.url)
    since = datetime.now(UTC)
    async with harness.running():
        await harness.becomes(evaluation(), "Created")
        await harness.becomes(evaluation(), "Admitted")
        await harness.becomes(evaluation(), "Failed", since, reason="ClientFailed", message="no answer")
        await target.until(1)
        webhook = await harness.until(lambda webhook: webhook.delivered == 1)
    (delivery,) = target.deliveries
    delivery.verify(secret)
    event = delivery.event
    assert delivery.headers["content-type"] == "application/cloudevents+json"
    assert delivery.headers["webhook-id"] == event.get_id()
    assert event.get_source() == "urn:steelyard:test"
    assert event.get_type() == "steelyard.evaluation.failed"
    assert event.get_subject() == "evaluations/e1"
    assert event.get_time() == since
    data = event.get_data()
    assert isinstance(data, dict)
    assert (data["kind"], data["id"], data["account"]) == ("Evaluation", "e1", "acme")
    assert (data["status"], data["reason"], data["message"]) == ("Failed", "ClientFailed", "no answer")
    assert (webhook.waiting, webhook.reason) == (0, None)


async def test_an_edit_of_what_has_ended_reports_nothing(harness: SenderHarness, target: Receiver) -> None:
    await harness.hook(target.url)
    since = datetime.now(UTC)
    async with harness.running():
        await harness.becomes(evaluation(), "Complete", since)
        await target.until(1)
        await harness.becomes(evaluation(), "Complete", since, labels={"a": "b"})
        await harness.becomes(evaluation(), "Deleted")
        await target.until(2)
    assert [delivery.event.get_type() for delivery in target.deliveries] == [
        "steelyard.evaluation.complete",
        "steelyard.evaluation.deleted",
    ]


async def test_it_goes_on_where_an_earlier_sender_stood(harness: SenderHarness, target: Receiver) -> None:
    await harness.hook(target.url)
    async with harness.running():
        await harness.becomes(evaluation("e1"), "Complete")
        await harness.until(lambda webhook: webhook.delivered == 1)
    await harness.becomes(evaluation("e2"), "Complete")
    await harness.log.begin_epoch(2)  # a log that was rebuilt is read from its beginning
    async with harness.running():
        await harness.until(lambda webhook: webhook.delivered == 2)
        await harness.until_read()
    assert [delivery.event.get_subject() for delivery in target.deliveries] == [
        "evaluations/e1",
        "evaluations/e2",
    ]


async def test_without_a_webhook_the_sender_writes_only_positions_and_those_together(
    harness: SenderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "IDLE_SECONDS", 3600)
    commits = harness.commits()
    async with harness.running():
        for number in range(20):
            await harness.becomes(evaluation(f"e{number}"), "Complete")
            await harness.until_taken()  # each is a batch of its own
    # One removes what is too old, and one stores the positions at the end.
    assert harness.commits() - commits <= 2
    await harness.until_read()


async def test_states_without_an_end_are_no_transactions(
    harness: SenderHarness, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.hook(target.url)
    monkeypatch.setattr(sender, "IDLE_SECONDS", 3600)
    commits = harness.commits()
    async with harness.running():
        for number in range(20):
            await harness.becomes(evaluation(f"e{number}"), "Admitted")
            await harness.until_taken()
    assert harness.commits() - commits <= 2
    await harness.until_read()


async def test_positions_are_stored_while_nothing_is_registered(harness: SenderHarness) -> None:
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        await harness.until_read()


async def test_the_first_webhook_is_noticed_that_another_process_registers(
    tmp_path: Path, target: Receiver
) -> None:
    async with AsyncExitStack() as stack:
        own, other = [await open_accounts_database(f"sqlite:{tmp_path / 'accounts.db'}") for _ in range(2)]
        stack.push_async_callback(own.close)
        stack.push_async_callback(other.close)
        senders = await make_harness(own)
        await stack.enter_async_context(senders.running())
        await senders.becomes(evaluation("e1"), "Complete")
        await senders.until_read()
        api = SenderHarness(other, senders.account)
        await api.hook(target.url)
        await senders.becomes(evaluation("e2"), "Complete")
        await target.until(1)
        await api.until(lambda webhook: webhook.delivered == 1)
    # What had been read before is not sent, though the webhook would have wanted it.
    assert [delivery.event.get_subject() for delivery in target.deliveries] == ["evaluations/e2"]


async def test_what_was_not_accepted_is_sent_again_under_the_same_id(
    harness: SenderHarness, target: Receiver
) -> None:
    secret = await harness.hook(target.url)
    target.answers = [lambda: web.Response(status=500), lambda: web.Response(status=429)]
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        await harness.until(lambda webhook: webhook.delivered == 1)
    assert len(target.deliveries) == 3
    assert len({delivery.headers["webhook-id"] for delivery in target.deliveries}) == 1
    for delivery in target.deliveries:
        delivery.verify(secret)


async def test_a_receiver_that_is_not_there_yet_gets_it_later(harness: SenderHarness) -> None:
    with socket.socket() as bound:
        # Bound and not listening: connections are refused, and only the receiver gets the port.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        await harness.hook(f"http://127.0.0.1:{port}/hook")
        async with harness.running():
            await harness.becomes(evaluation(), "Complete")
            webhook = await harness.until(lambda webhook: webhook.reason is not None)
        assert (webhook.status, webhook.reason) == ("Active", "DeliveryFailed")
        assert webhook.message == "the receiver takes no connections"
        async with receiver(port=port) as target, harness.running():
            await target.until(1)
            await harness.until(lambda webhook: webhook.delivered == 1)


async def test_a_slow_receiver_delays_no_other(harness: SenderHarness, target: Receiver) -> None:
    async with receiver() as slow:
        slow.open.clear()
        await harness.hook(slow.url, "a-slow")
        await harness.hook(target.url, "b-other")
        async with harness.running():
            for number in range(5):
                await harness.becomes(evaluation(f"e{number}"), "Complete")
            await slow.until(1)
            await harness.until(lambda webhook: webhook.delivered == 5, "b-other")
            assert (await harness.shown("a-slow")).waiting == 5, "it has answered nothing yet"
            assert len(slow.deliveries) == 1, "one call at a time"


async def test_a_receiver_that_never_answers_is_given_up(harness: SenderHarness, target: Receiver) -> None:
    harness.settings = WebhookSettings(longest_pause_seconds=0.01, timeout_seconds=0.2)
    target.open.clear()
    await harness.hook(target.url)
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        webhook = await harness.until(lambda webhook: webhook.reason is not None)
        assert webhook.message == "the receiver did not answer within 0.2 s"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(harness: SenderHarness, target: Receiver, status: int) -> None:
    async with receiver() as other:
        target.answers = [lambda: web.Response(status=status, headers={"Location": other.url})] * 1000
        await harness.hook(target.url)
        async with harness.running():
            await harness.becomes(evaluation(), "Complete")
            webhook = await harness.until(lambda webhook: webhook.reason is not None)
        assert webhook.message == f"the receiver answered {status}; redirects are not followed"
        assert other.deliveries == []


async def test_a_receiver_that_is_gone_is_disabled(harness: SenderHarness, target: Receiver) -> None:
    target.answers = [lambda: web.Response(status=410)]
    await harness.hook(target.url)
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        webhook = await harness.until(lambda webhook: webhook.status == "Disabled")
    assert (webhook.reason, webhook.message) == ("Gone", "the receiver answered 410")
    assert len(target.deliveries) == 1


async def test_one_that_fails_for_long_is_disabled_and_says_so(
    harness: SenderHarness, target: Receiver
) -> None:
    harness.settings = WebhookSettings(longest_pause_seconds=0.01, disable_hours=1e-9)
    target.answers = [lambda: web.Response(status=500)] * 1000
    await harness.hook(target.url)
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        webhook = await harness.until(lambda webhook: webhook.status == "Disabled")
        sent = len(target.deliveries)
        await harness.becomes(evaluation("e2"), "Complete")
        await harness.until_read()
    assert (webhook.reason, webhook.message) == ("Failing", "the receiver answered 500")
    assert len(target.deliveries) == sent
    assert (await harness.shown()).waiting == 1, "the first waits for somebody to enable it"


@pytest.mark.parametrize("host", ["127.0.0.1", "hooks.example"])
async def test_an_address_inside_is_not_called(
    harness: SenderHarness, target: Receiver, names: dict[str, list[str]], host: str
) -> None:
    names["hooks.example"] = ["127.0.0.1"]
    harness.policy = LOOPBACK.model_copy(update={"networks": ()})
    await harness.hook(target.url.replace("127.0.0.1", host))
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        webhook = await harness.until(lambda webhook: webhook.reason is not None)
    assert "an address that is not public" in (webhook.message or "")
    assert target.deliveries == []


async def test_a_name_that_moves_inside_later_is_not_called(
    harness: SenderHarness, target: Receiver, names: dict[str, list[str]]
) -> None:
    port = int(target.url.rsplit(":", 1)[1].partition("/")[0])
    names["hooks.example"] = ["127.0.0.1", "127.0.0.2"]
    async with receiver("127.0.0.2", port) as inside:
        target.answers = [lambda: web.Response(status=503, headers={"Connection": "close"})]
        await harness.hook(f"http://hooks.example:{port}/hook")
        async with harness.running():
            await harness.becomes(evaluation(), "Complete")
            webhook = await harness.until(lambda webhook: "not public" in (webhook.message or ""))
        assert len(target.deliveries) == 1
        assert inside.deliveries == []
        assert "127.0.0.2" not in (webhook.message or "")


@pytest.mark.parametrize(
    ("since", "both"), [(timedelta(0), True), (OVERLAP - timedelta(minutes=5), True), (OVERLAP, False)]
)
async def test_events_are_signed_with_the_last_secret_too_for_a_while_after_a_rotation(
    harness: SenderHarness, target: Receiver, since: timedelta, both: bool
) -> None:
    first = await harness.hook(target.url)
    rotated = (datetime.now(UTC) - since).timestamp()
    await harness.database.webhooks.rotate(harness.account.id or "", "h1", rotated)
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        await target.until(1)
    target.deliveries[0].verify(format_secret(signing_key(b"pem", "h1", 2)))
    with nullcontext() if both else pytest.raises(WebhookVerificationError):
        target.deliveries[0].verify(first)


async def test_senders_side_by_side_send_each_event_once(harness: SenderHarness, target: Receiver) -> None:
    async with AsyncExitStack() as stack:
        hooks = [f"h{number}" for number in range(5)]
        for id in hooks:
            await harness.hook(target.url, id)
        for _ in range(3):
            await stack.enter_async_context(harness.running())
        for number in range(10):
            await harness.becomes(evaluation(f"e{number}"), "Complete")
        for id in hooks:
            await harness.until(lambda webhook: webhook.delivered == 10, id)
        await harness.until_read()
    assert len(target.deliveries) == 50


async def test_no_secret_and_no_address_is_logged(
    harness: SenderHarness, target: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    secret = await harness.hook(target.url + "?token=hidden")
    target.answers = [lambda: web.Response(status=500), lambda: web.Response(status=410)]
    async with harness.running():
        await harness.becomes(evaluation(), "Complete")
        await harness.until(lambda webhook: webhook.status == "Disabled")
    assert "is disabled (Gone)" in caplog.text
    assert secret not in caplog.text
    assert "hidden" not in caplog.text


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    return names_leading(monkeypatch)
