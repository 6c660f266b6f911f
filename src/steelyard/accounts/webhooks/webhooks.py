"""Webhooks of accounts, on any accounts database. The API registers them; their senders send what waits."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Protocol, TypeVar

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.webhooks import scripts
from steelyard.accounts.webhooks.registration import Event, Registration
from steelyard.accounts.webhooks.scripts import Attempt, Failure, Row, Script
from steelyard_common.errors import ContentError
from steelyard_schema.webhook import Webhook

T = TypeVar("T")
_CLAIMED_AT_ONCE = 8
"""Claims that wait for their commit at the same time: fewer than a server's connections."""
Make = Callable[[], Script[T]]


class TooManyWebhooks(AccountsDatabaseError, ContentError):
    """The account has as many webhooks as it may."""


class Engine(Protocol):
    """A database that runs scripts."""

    async def write(self, make: Make[T]) -> T:
        """Run a script in a transaction; return its result once it is durable."""
        ...

    async def read(self, make: Make[T]) -> T:
        """Run a script that only reads."""
        ...

    async def look_up(self, make: Make[T]) -> T:
        """Run a script that only reads a row or two."""
        ...


class Webhooks:
    """The webhooks of one accounts database. Times are seconds since 1970."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add(self, id: str, account: str, registration: Registration, most: int) -> Webhook:
        """Register a webhook. Raises TooManyWebhooks, AccountDeleted."""
        if not await self._engine.write(lambda: scripts.add(id, account, registration, most)):
            raise TooManyWebhooks(f"the account has {most} webhooks already, the most that one may have")
        # Not read again: another request may have removed it meanwhile.
        return _webhook((id, account, registration.to_json(), "Active", None, None, 0, 0, 0, 0))

    async def get(self, account: str, id: str) -> Webhook | None:
        rows = await self._engine.read(lambda: scripts.list_shown(account, id))
        return _webhook(rows[0]) if rows else None

    async def list(self, account: str) -> Sequence[Webhook]:
        """Return an account's webhooks, oldest first."""
        rows = await self._engine.read(lambda: scripts.list_shown(account))
        return sorted(map(_webhook, rows), key=lambda webhook: (webhook.creationTime, webhook.id))

    async def remove(self, account: str, id: str) -> bool:
        """Remove a webhook, with what waits for it; return whether it was there."""
        return await self._engine.write(lambda: scripts.remove(account, id))

    async def enable(self, account: str, id: str) -> bool:
        """Send to a webhook again; return whether it is there."""
        return await self._engine.write(lambda: scripts.enable(account, id))

    async def rotate(self, account: str, id: str, now: float) -> int | None:
        """Begin the next secret of a webhook; return its number, or None where there is no such webhook."""
        return await self._engine.write(lambda: scripts.rotate(account, id, now))

    async def add_trial(self, id: str, event: Event) -> None:
        """Let an event about no entity wait for one webhook."""
        await self._engine.write(lambda: scripts.add_trial(id, event))

    async def are_registered(self) -> bool:
        """Return whether any account has a webhook, registered by any process."""
        return await self._engine.look_up(scripts.are_registered)

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return await self._engine.read(lambda: scripts.positions(epoch))

    async def take(
        self, events: Sequence[Event], epoch: int, positions: Mapping[int, int], backlog: int
    ) -> int:
        """Let events wait for the webhooks that may have them, and keep the positions; return how many were added.

        An event that is reported again changes nothing. At most `backlog` wait for one webhook; more are dropped.
        """
        return await self._engine.write(lambda: scripts.take(events, epoch, positions, backlog))

    async def claim(self, now: float, lease_seconds: float, limit: int) -> Sequence[Attempt]:
        """Take up to `limit` webhooks for one event each; no other sender gets them before their leases end."""
        # A lease that ends later than any of now could was made by a clock that has been set back since.
        latest, lease = now + 2 * lease_seconds, now + lease_seconds
        hooks = await self._engine.read(lambda: scripts.due(now, latest, limit))
        attempts: list[Attempt] = []
        # Some at once, which share a commit; each in a transaction of its own, so that senders do not wait in a circle.
        for start in range(0, len(hooks), _CLAIMED_AT_ONCE):
            claims = (
                self._engine.write(partial(scripts.claim, hook, now, lease, latest))
                for hook in hooks[start : start + _CLAIMED_AT_ONCE]
            )
            attempts += [attempt for attempt in await asyncio.gather(*claims) if attempt is not None]
        return attempts

    async def accepted(self, attempt: Attempt, now: float) -> bool:
        """Note that an event was accepted; False where its lease had ended before."""
        return await self._engine.write(lambda: scripts.note_accepted(attempt, now))

    async def note_refused(self, attempt: Attempt, failure: Failure, now: float) -> str | None:
        """Note that an event was not accepted; return the reason for which the webhook is disabled now, if it is."""
        return await self._engine.write(lambda: scripts.note_refused(attempt, failure, now))

    async def expire(self, deliveries_before: float, reported_before: float) -> None:
        """Remove events, and the memory of reported ones, from before these times."""
        await self._engine.write(lambda: scripts.expire(deliveries_before, reported_before))


def _webhook(row: Row) -> Webhook:
    id, account, json, status, reason, message, delivered, dropped, last, waiting = row
    registration = Registration.from_json(json)
    return Webhook(
        id=id,
        account=account,
        url=registration.url,
        kinds=sorted(registration.kinds),
        statuses=sorted(registration.statuses),
        creationTime=_time(registration.created),
        status=status,
        reason=reason,
        message=message,
        waiting=waiting,
        delivered=delivered,
        dropped=dropped,
        lastDelivery=_time(last) if last else None,
    )


def _time(value: float) -> datetime:
    return datetime.fromtimestamp(value, UTC)
