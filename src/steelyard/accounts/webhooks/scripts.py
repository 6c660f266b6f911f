"""Statements of webhooks, the same for SQLite and PostgreSQL.

A script yields a statement and is sent its rows; it runs in one transaction, which an engine may begin again. So the
decisions between statements are written once.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from steelyard.accounts.changes import check_not_deleted, from_row
from steelyard.accounts.webhooks.registration import Event, Registration
from steelyard_schema.account import Account

T = TypeVar("T")
Statement = tuple[str, Mapping[str, object]]
Row = Sequence[Any]
Script = Generator[Statement, Sequence[Row], T]

_SHOWN = (
    "SELECT id, account, json, status, reason, message, delivered, dropped, last_delivery,"
    " (SELECT count(*) FROM webhook_deliveries WHERE hook = webhooks.id) FROM webhooks"
)
_FREE = "status = 'Active' AND rest_until <= :now AND (leased_until <= :now OR leased_until > :latest)"


@dataclass(frozen=True)
class Attempt:
    """One event that a sender has to send now: no other sender uses this webhook until `lease`."""

    hook: str
    lease: float
    registration: Registration
    generation: int
    rotated: float
    failures: int
    number: int
    event: str
    body: str


@dataclass(frozen=True)
class Failure:
    """Consequences of a failed attempt for its webhook: when it is tried again, and whether it is given up."""

    message: str
    rest_until: float
    disable_before: float
    """The webhook is disabled if it has failed ever since this time."""
    gone: bool = False
    """True if the receiver has said that it wants no more."""


def add(id: str, account: str, registration: Registration, most: int) -> Script[bool]:
    """Register a webhook; return False where the account has as many as it may. Raises AccountDeleted."""
    # The account's row is the lock: of two requests at once, one sees the other's webhook.
    owners = yield "UPDATE accounts SET name = name WHERE id = :id RETURNING json", {"id": account}
    for (kept,) in owners:
        check_not_deleted(kept)
    rows = yield "SELECT count(*) FROM webhooks WHERE account = :account", {"account": account}
    if rows[0][0] >= most:
        return False
    yield (
        "INSERT INTO webhooks (id, account, json) VALUES (:id, :account, :json)",
        {"id": id, "account": account, "json": registration.to_json()},
    )
    return True


def list_shown(account: str, id: str | None = None) -> Script[Sequence[Row]]:
    """Return an account's webhooks as they are shown, oldest first."""
    one = " AND id = :id" if id is not None else ""
    rows = yield f"{_SHOWN} WHERE account = :account{one}", {"account": account, "id": id}
    return rows


def remove(account: str, id: str) -> Script[bool]:
    """Remove a webhook and what waits for it; return whether it was there."""
    rows = yield _for_account(account, id, "DELETE FROM webhooks", "RETURNING id")
    if rows:
        yield "DELETE FROM webhook_deliveries WHERE hook = :id", {"id": id}
    return bool(rows)


def enable(account: str, id: str) -> Script[bool]:
    """Make a webhook active; return whether it is there."""
    update = (
        "UPDATE webhooks SET status = 'Active', reason = NULL, message = NULL, failures = 0, failing_since = 0,"
        " rest_until = 0"
    )
    rows = yield _for_account(account, id, update, "RETURNING id")
    return bool(rows)


def rotate(account: str, id: str, now: float) -> Script[int | None]:
    """Begin the webhook's next secret; return its number, or None where the webhook is not there."""
    update = "UPDATE webhooks SET generation = generation + 1, rotated = :now"
    statement, values = _for_account(account, id, update, "RETURNING generation")
    rows = yield statement, {**values, "now": now}
    return int(rows[0][0]) if rows else None


def _for_account(account: str, id: str, statement: str, end: str) -> Statement:
    return f"{statement} WHERE account = :account AND id = :id {end}", {"account": account, "id": id}


def add_trial(hook: str, event: Event) -> Script[None]:
    """Let an event about no entity wait for one webhook."""
    yield _insertion(hook, event)


def are_registered() -> Script[bool]:
    """Return whether there is any webhook, also one that is disabled."""
    rows = yield "SELECT 1 FROM webhooks LIMIT 1", {}
    return bool(rows)


def positions(epoch: int) -> Script[dict[int, int]]:
    """Return how far each partition of the log was read."""
    rows = yield "SELECT partition, next FROM webhook_positions WHERE epoch = :epoch", {"epoch": epoch}
    return {int(row[0]): int(row[1]) for row in rows}


def take(events: Sequence[Event], epoch: int, positions: Mapping[int, int], backlog: int) -> Script[int]:
    """Let events wait for every webhook that may have them, and keep the positions; return how many were added."""
    hooks = (yield from _hooks()) if events else []
    added = 0
    for event in events:
        wanting = [hook for hook in hooks if hook.registration.wants(event)]
        # Also where all of them are disabled or may not see it: a receiver that gets no event now gets none later
        # either, when the log is read again from its beginning.
        if wanting and (yield from _is_news(event)):
            for hook in wanting:
                if hook.is_told(event):
                    added += yield from _queue(hook.id, event, backlog)
    for partition, next in positions.items():
        # Another sender may have come further: what it has read, it has taken.
        yield (
            "INSERT INTO webhook_positions (epoch, partition, next) VALUES (:epoch, :partition, :next)"
            " ON CONFLICT (epoch, partition) DO UPDATE SET next = excluded.next"
            " WHERE webhook_positions.next < excluded.next",
            {"epoch": epoch, "partition": partition, "next": next},
        )
    return added


@dataclass(frozen=True)
class _Hook:
    """A webhook, with its owner as that is now."""

    id: str
    registration: Registration
    owner: Account | None
    active: bool

    def is_told(self, event: Event) -> bool:
        return self.active and self.registration.may_see(self.owner, event.kind, event.account, event.entity)


def _hooks() -> Script[list[_Hook]]:
    rows = yield "SELECT id, account, json, status FROM webhooks", {}
    owners: dict[str, Account | None] = {}
    for _, account, _, _ in rows:
        if account not in owners:
            owners[account] = yield from _owner(account)
    return [
        _Hook(id, Registration.from_json(json), owners[account], status == "Active")
        for id, account, json, status in rows
    ]


def _owner(account: str) -> Script[Account | None]:
    rows = yield "SELECT json, labels FROM accounts WHERE id = :id", {"id": account}
    return from_row(*rows[0]) if rows else None


def _is_news(event: Event) -> Script[bool]:
    """Note that an event is reported; return False where it was before.

    A later edit of an entity that has ended is a record of the log with the same end.
    """
    rows = yield (
        "INSERT INTO webhook_reported (entity, event, ended) VALUES (:entity, :event, :ended)"
        " ON CONFLICT (entity) DO UPDATE SET event = excluded.event, ended = excluded.ended"
        " WHERE webhook_reported.ended < excluded.ended"
        " OR (webhook_reported.ended = excluded.ended AND webhook_reported.event <> excluded.event)"
        " RETURNING entity",
        {"entity": event.entity, "event": event.id, "ended": event.time},
    )
    return bool(rows)


def _queue(hook: str, event: Event, backlog: int) -> Script[int]:
    rows = yield "SELECT count(*) FROM webhook_deliveries WHERE hook = :hook", {"hook": hook}
    if rows[0][0] >= backlog:
        yield "UPDATE webhooks SET dropped = dropped + 1 WHERE id = :hook", {"hook": hook}
        return 0
    yield _insertion(hook, event)
    return 1


def _insertion(hook: str, event: Event) -> Statement:
    return (
        "INSERT INTO webhook_deliveries (hook, event, kind, account, entity, body, created)"
        " VALUES (:hook, :event, :kind, :account, :entity, :body, :created)",
        {
            "hook": hook,
            "event": event.id,
            "kind": event.kind,
            "account": event.account,
            "entity": event.entity,
            "body": event.body,
            "created": event.time,
        },
    )


def due(now: float, latest: float, limit: int) -> Script[list[str]]:
    """Return webhooks to which something is to be sent now, those first that have waited longest."""
    rows = yield (
        f"SELECT id FROM webhooks WHERE {_FREE}"
        " AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE hook = webhooks.id)"
        " ORDER BY rest_until, id LIMIT :limit",
        {"now": now, "latest": latest, "limit": limit},
    )
    return [row[0] for row in rows]


def claim(hook: str, now: float, lease: float, latest: float) -> Script[Attempt | None]:
    """Take a webhook for one event until `lease`; None where another sender has it, or nothing is left to send."""
    rows = yield (
        f"UPDATE webhooks SET leased_until = :lease WHERE id = :hook AND {_FREE}"
        " RETURNING account, json, generation, rotated, failures",
        {"hook": hook, "now": now, "lease": lease, "latest": latest},
    )
    if not rows:
        return None
    account, json, generation, rotated, failures = rows[0]
    registration, owner = Registration.from_json(json), (yield from _owner(account))
    while True:
        # An event that was refused comes after all others: it must not keep them from being sent.
        rows = yield (
            "SELECT number, event, kind, account, entity, body FROM webhook_deliveries WHERE hook = :hook"
            " ORDER BY attempts, number LIMIT 1",
            {"hook": hook},
        )
        if not rows:
            yield "UPDATE webhooks SET leased_until = 0 WHERE id = :hook", {"hook": hook}
            return None
        number, event, kind, of, entity, body = rows[0]
        # What the account might see when the event was queued, it may not see any more.
        if registration.may_see(owner, kind, of, entity):
            return Attempt(hook, lease, registration, generation, rotated, failures, number, event, body)
        yield "DELETE FROM webhook_deliveries WHERE number = :number", {"number": number}


def note_accepted(attempt: Attempt, now: float) -> Script[bool]:
    """Note that the receiver has accepted an event; False where the lease had ended, and another sender may send it
    again."""
    rows = yield (
        "UPDATE webhooks SET leased_until = 0, failures = 0, failing_since = 0, rest_until = :now, reason = NULL,"
        " message = NULL, delivered = delivered + 1, last_delivery = :now"
        " WHERE id = :hook AND leased_until = :lease RETURNING id",
        {"hook": attempt.hook, "lease": attempt.lease, "now": now},
    )
    if rows:
        yield "DELETE FROM webhook_deliveries WHERE number = :number", {"number": attempt.number}
    return bool(rows)


def note_refused(attempt: Attempt, failure: Failure, now: float) -> Script[str | None]:
    """Note that an event was not accepted; return the reason for which the webhook is disabled now, if it is."""
    rows = yield (
        "UPDATE webhooks SET leased_until = 0, failures = failures + 1, rest_until = :rest,"
        " failing_since = CASE WHEN failing_since = 0 THEN :now ELSE failing_since END,"
        " reason = 'DeliveryFailed', message = :message"
        " WHERE id = :hook AND leased_until = :lease RETURNING failing_since",
        {
            "hook": attempt.hook,
            "lease": attempt.lease,
            "now": now,
            "rest": failure.rest_until,
            "message": failure.message,
        },
    )
    if not rows:
        return None
    reason = "Gone" if failure.gone else "Failing" if rows[0][0] <= failure.disable_before else None
    if reason:
        yield (
            "UPDATE webhooks SET status = 'Disabled', reason = :reason WHERE id = :hook",
            {"hook": attempt.hook, "reason": reason},
        )
    yield (
        "UPDATE webhook_deliveries SET attempts = attempts + 1 WHERE number = :number",
        {"number": attempt.number},
    )
    return reason


def expire(deliveries_before: float, reported_before: float) -> Script[None]:
    """Remove old records: events that were never accepted, and reported ends from before a time."""
    rows = yield (
        "DELETE FROM webhook_deliveries WHERE created < :before RETURNING hook",
        {"before": deliveries_before},
    )
    for (hook,) in rows:
        yield "UPDATE webhooks SET dropped = dropped + 1 WHERE id = :hook", {"hook": hook}
    yield "DELETE FROM webhook_reported WHERE ended < :before", {"before": reported_before}
