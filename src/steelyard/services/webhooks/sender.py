"""The sender of webhooks: follows `workflows.state`, lets events wait in the accounts database, and sends them.

An event becomes durable with the position behind it, and is removed after its receiver has accepted it. So a sender
that is killed sends at most the same event once more. Positions behind which nothing waits are stored once a second: a
sender that is killed reads the records of its last second again, and finds nothing in them.
Several senders share the work: they lease a webhook each time.
"""

import asyncio
import base64
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

import aiohttp
from prometheus_client import CollectorRegistry, Counter

from steelyard.accounts.database import Accounts
from steelyard.accounts.webhooks.events import CONTENT_TYPE, REPORTED_FOR, make_event
from steelyard.accounts.webhooks.registration import Event, signing_key
from steelyard.accounts.webhooks.scripts import Attempt, Failure
from steelyard.accounts.webhooks.settings import WebhookSettings
from steelyard.accounts.webhooks.webhooks import Webhooks
from steelyard.broker.follow import follow
from steelyard.broker.log import STATE, Log, Record
from steelyard.egress.aiohttp_connector import make_guarded_session
from steelyard.services.aggregator.messages import read_state
from steelyard_common.backoff import backoff_seconds
from steelyard_kube.leader import until
from steelyard_schema.egress import EgressPolicy, EgressRefused

CONSUMER = "webhooks"
AT_ONCE = 500
"""Webhooks that one sender calls at the same time, each with one event."""
IDLE_SECONDS = 1.0
"""Time between two polls for what another process has let wait, or whose pause is over.

Positions behind which nothing waits are stored as often.
"""
LEASE_MARGIN_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 1.0
EXPIRY_SECONDS = 600.0
OVERLAP = timedelta(days=1)
"""Time for which events are signed with the secret before a rotation as well."""
GONE = 410
_log = logging.getLogger(__name__)


class WebhookMetrics:
    """Attempts, by what came of them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.attempts = Counter(
            "steelyard_webhook_attempts",
            "Events sent to webhooks, by result: accepted, refused (try again), disabled (the webhook is given up).",
            ["result"],
            registry=registry or CollectorRegistry(),
        )


@dataclass(frozen=True)
class Sending:
    """Dependencies of a sender: the database, the policy for addresses, settings, clock and chance."""

    webhooks: Webhooks
    accounts: Accounts
    policy: EgressPolicy
    settings: WebhookSettings
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    rng: Random = field(default_factory=Random)


async def run_webhooks(
    log: Log, sending: Sending, source: str, *, stop: asyncio.Event, metrics: WebhookMetrics | None = None
) -> None:
    """Notify webhooks of all ends since the last time, and of new ones, until `stop`."""
    sender = Sender(sending, metrics or WebhookMetrics())
    outlet = WebhookOutlet(sending, source, sender.wake)
    async with asyncio.TaskGroup() as group:
        group.create_task(until(stop, follow(log, STATE, outlet, consumer=CONSUMER, stop=stop)))
        group.create_task(until(stop, outlet.store_regularly()))
        group.create_task(until(stop, sender.run()))
    await outlet.store_positions()


class WebhookOutlet:
    """Lets the events of records wait, in one transaction with the positions.

    Where nothing has to wait, which is most of the time, the positions alone would be a transaction for each state of
    each entity: they are stored later, for many records at once.
    """

    def __init__(self, sending: Sending, source: str, wake: Callable[[], None]) -> None:
        self._sending, self._source, self._wake = sending, source, wake
        self._epoch = 0
        self._unstored: dict[int, int] = {}
        """Positions of this epoch that the database does not have yet."""

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return await self._sending.webhooks.positions(epoch)

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        now = self._sending.clock()
        events = [event for record in records if (event := self._event(record, now)) is not None]
        if epoch != self._epoch:
            self._epoch, self._unstored = epoch, {}
        # Asked each time: another process may have registered the first webhook since.
        if not events or not await self._sending.webhooks.are_registered():
            self._unstored.update(positions)
            return
        reached = {**self._unstored, **positions}
        if await self._sending.webhooks.take(events, epoch, reached, self._sending.settings.backlog):
            self._wake()
        self._unstored.clear()

    async def store_regularly(self) -> None:
        """Store positions every second, until cancelled."""
        while True:
            await asyncio.sleep(IDLE_SECONDS)
            await self.store_positions()

    async def store_positions(self) -> None:
        """Store the positions behind which nothing waits."""
        stored = dict(self._unstored)
        if stored:
            await self._sending.webhooks.take([], self._epoch, stored, self._sending.settings.backlog)
            # More may have been read meanwhile.
            for partition, _ in stored.items() & self._unstored.items():
                del self._unstored[partition]

    def _event(self, record: Record, now: datetime) -> Event | None:
        state = read_state(record)
        return (
            None if state is None or state.content is None else make_event(state.content, self._source, now)
        )


class Sender:
    """Sends what waits: one event at a time to each webhook, to many webhooks at once."""

    def __init__(self, sending: Sending, metrics: WebhookMetrics) -> None:
        self._sending, self._metrics = sending, metrics
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Poll at once for what to send."""
        self._awake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        seconds = self._sending.settings.timeout_seconds
        running: set[asyncio.Task[None]] = set()
        async with (
            make_guarded_session(self._sending.policy, seconds=seconds, limit=0) as session,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self._expire())
            while True:
                self._awake.clear()
                lease = seconds + LEASE_MARGIN_SECONDS
                free = AT_ONCE - len(running)
                for attempt in await self._sending.webhooks.claim(self._now(), lease, free) if free else ():
                    task = group.create_task(self._send(session, attempt))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    # What is done may have more to send.
                    task.add_done_callback(lambda _: self.wake())
                try:
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._awake.wait()
                except TimeoutError:
                    pass

    async def _send(self, session: aiohttp.ClientSession, attempt: Attempt) -> None:
        fault, gone = await self._post(session, attempt)
        now = self._now()
        if fault is None:
            await self._sending.webhooks.accepted(attempt, now)
            self._metrics.attempts.labels("accepted").inc()
            return
        settings = self._sending.settings
        longest = backoff_seconds(attempt.failures + 1, FIRST_PAUSE_SECONDS, settings.longest_pause_seconds)
        # Half of it is chance: receivers that were away are not called by all webhooks at the same moment.
        pause = longest * (0.5 + self._sending.rng.random() / 2)
        failure = Failure(fault, now + pause, now - settings.disable_hours * 3600, gone)
        disabled = await self._sending.webhooks.note_refused(attempt, failure, now)
        self._metrics.attempts.labels("disabled" if disabled else "refused").inc()
        if disabled:
            _log.warning("webhook %s is disabled (%s): %s", attempt.hook, disabled, fault)

    async def _post(self, session: aiohttp.ClientSession, attempt: Attempt) -> tuple[str | None, bool]:
        """Send one event; return what is wrong, if anything, and whether the receiver wants no more.

        The message is shown to the account: it names no address of the network between.
        """
        body = attempt.body.encode()
        signed = sign_headers(attempt.event, body, await self._keys(attempt), self._now())
        try:
            async with session.post(
                attempt.registration.url, data=body, headers=signed, allow_redirects=False
            ) as response:
                if 200 <= response.status < 300:
                    return None, False
                hint = "; redirects are not followed" if 300 <= response.status < 400 else ""
                return f"the receiver answered {response.status}{hint}", response.status == GONE
        except EgressRefused as error:
            return str(error), False
        except TimeoutError:
            return f"the receiver did not answer within {self._sending.settings.timeout_seconds:g} s", False
        except aiohttp.ClientConnectorCertificateError:
            return "the receiver's certificate is not valid for its name", False
        except aiohttp.ClientConnectorDNSError:
            return "the receiver's name leads to no address", False
        except aiohttp.ClientConnectorError:
            return "the receiver takes no connections", False
        except (aiohttp.ClientError, OSError, ValueError):
            return "the receiver ended the connection, or gave no answer in HTTP", False

    async def _keys(self, attempt: Attempt) -> list[bytes]:
        keys = await self._sending.accounts.signing_keys()
        pem, _ = next(iter(keys.values()))
        generations = [attempt.generation]
        if attempt.rotated and self._now() - attempt.rotated < OVERLAP.total_seconds():
            generations.append(attempt.generation - 1)
        return [signing_key(pem, attempt.hook, generation) for generation in generations]

    async def _expire(self) -> None:
        while True:
            now = self._now()
            keep = self._sending.settings.keep_hours * 3600
            await self._sending.webhooks.expire(now - keep, now - REPORTED_FOR.total_seconds())
            await asyncio.sleep(EXPIRY_SECONDS)

    def _now(self) -> float:
        return self._sending.clock().timestamp()


def sign_headers(event: str, body: bytes, keys: Sequence[bytes], now: float) -> Mapping[str, str]:
    """Return the headers of one attempt, signed with each of the keys: receivers take any that they know."""
    timestamp = str(int(now))
    signed = b".".join((event.encode(), timestamp.encode(), body))
    signatures = " ".join(f"v1,{_base64(hmac.digest(key, signed, 'sha256'))}" for key in keys)
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": "steelyard-webhooks",
        "webhook-id": event,
        "webhook-timestamp": timestamp,
        "webhook-signature": signatures,
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
