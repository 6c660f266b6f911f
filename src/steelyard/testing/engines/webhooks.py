"""Behaviour of webhooks in every accounts database. Engines run each of `CASES`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from steelyard.accounts.database import AccountDeleted
from steelyard.accounts.open import AccountsDatabase
from steelyard.accounts.webhooks.registration import Event, Registration
from steelyard.accounts.webhooks.scripts import Attempt, Failure
from steelyard.accounts.webhooks.webhooks import TooManyWebhooks
from steelyard_schema.account import AccessGrant, Account, Identity

Case = Callable[[AccountsDatabase], Awaitable[None]]
NOW = 1_780_000_000.25
LEASE = 15.0
EVERYTHING = AccessGrant(resources=["*"], functions=["*"], accounts=["*"])


def grant(*accounts: str) -> AccessGrant:
    return AccessGrant(resources=["*"], functions=["get"], accounts=list(accounts))


def event(entity: str, minute: float = 1, account: str = "acme", status: str = "Complete") -> Event:
    """Return the end of an entity, at a minute after the registrations."""
    time = NOW + 60 * minute
    return Event(
        f"{entity} {status} {minute}", "Evaluation", account, entity, status, time, f'{{"of": "{entity}"}}'
    )


async def owner(database: AccountsDatabase, name: str = "acme", *accounts: str) -> Account:
    """Return a new account that may read the entities of accounts, by default of its own name."""
    permissions = [grant(*(accounts or (name,)))]
    return await database.accounts.create(name, Identity(), datetime.fromtimestamp(NOW, UTC), permissions)


async def hook(database: AccountsDatabase, account: Account, id: str = "h1", **fields: Any) -> str:
    values: dict[str, Any] = {"url": "https://x.example/", "created": NOW, "grants": (EVERYTHING,), **fields}
    await database.webhooks.add(id, account.id or "", Registration(**values), 10)
    return id


async def take(database: AccountsDatabase, *events: Event, backlog: int = 10) -> int:
    return await database.webhooks.take(events, 1, {}, backlog)


async def drain(database: AccountsDatabase, now: float = NOW + 600) -> Sequence[tuple[str, str]]:
    """Accept everything that waits; return the webhooks and entities in the order of sending."""
    sent = []
    while attempts := await database.webhooks.claim(now, LEASE, 10):
        for attempt in attempts:
            assert await database.webhooks.accepted(attempt, now)
            sent.append((attempt.hook, attempt.event.split()[0]))
    return sent


async def claim(database: AccountsDatabase, now: float = NOW + 600) -> Attempt:
    (attempt,) = await database.webhooks.claim(now, LEASE, 10)
    return attempt


async def accounts_that_may_see_an_entity_are_told(database: AccountsDatabase) -> None:
    await hook(database, await owner(database, "acme"), "own")
    await hook(database, await owner(database, "auditor", "acme", "other"), "both")
    await hook(database, await owner(database, "stranger"), "none")
    assert await take(database, event("e1"), event("e2", account="other")) == 3
    assert sorted(await drain(database)) == [("both", "e1"), ("both", "e2"), ("own", "e1")]


async def the_registering_tokens_grants_limit_what_is_told(database: AccountsDatabase) -> None:
    account = await owner(database, "acme", "acme", "other")
    await hook(database, account, grants=(grant("other"),))
    await take(database, event("e1"), event("e2", account="other"))
    assert await drain(database) == [("h1", "e2")]


async def kinds_and_statuses_choose(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account, "kind", kinds=frozenset({"Model"}))
    await hook(database, account, "status", statuses=frozenset({"Failed"}))
    assert await take(database, event("e1"), event("e2", status="Failed")) == 1
    assert await drain(database) == [("status", "e2")]


async def an_end_is_told_once(database: AccountsDatabase) -> None:
    await hook(database, await owner(database))
    assert await take(database, event("e1")) == 1
    # While it waits, and after it was accepted: the record of a later edit shows the same end.
    assert await take(database, event("e1")) == 0
    await drain(database)
    assert await take(database, event("e1")) == 0
    assert await take(database, event("e1", 2, status="Deleted")) == 1
    # A log that is read again begins with the older end.
    assert await take(database, event("e1"), event("e1", 2, status="Deleted")) == 0


async def an_end_before_the_registration_is_not_told(database: AccountsDatabase) -> None:
    await hook(database, await owner(database))
    assert await take(database, event("e1", -1), event("e2", 0)) == 1
    assert await drain(database) == [("h1", "e2")]


async def a_backlog_is_bounded_and_says_what_is_lost(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    assert await take(database, *(event(f"e{number}") for number in range(5)), backlog=3) == 3
    webhook = await database.webhooks.get(account.id or "", "h1")
    assert webhook is not None
    assert (webhook.waiting, webhook.dropped, webhook.delivered) == (3, 2, 0)
    assert [entity for _, entity in await drain(database)] == ["e0", "e1", "e2"]


async def rights_that_were_taken_away_hold_for_what_waits(database: AccountsDatabase) -> None:
    account = await owner(database, "acme", "acme", "other")
    await hook(database, account)
    await take(database, event("e1"), event("e2", account="other"))
    await database.accounts.set_permissions(account.id or "", [grant("other")])
    assert await drain(database) == [("h1", "e2")]


async def a_suspended_account_is_told_nothing(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    await take(database, event("e1"))
    await database.accounts.set_status(
        account.id or "", "Suspended", "SuspendCommand", datetime.fromtimestamp(NOW, UTC)
    )
    assert await take(database, event("e2")) == 0
    assert await drain(database) == []


async def a_deleted_account_has_no_webhooks(database: AccountsDatabase) -> None:
    account, other = await owner(database), await owner(database, "other")
    await hook(database, account)
    await hook(database, other, "h2")
    await take(database, event("e1"))
    await database.accounts.delete(account.id or "", datetime.fromtimestamp(NOW, UTC))
    assert await database.webhooks.list(account.id or "") == []
    assert [webhook.id for webhook in await database.webhooks.list(other.id or "")] == ["h2"]
    try:
        await hook(database, account)
    except AccountDeleted:
        return
    raise AssertionError("a deleted account has got a webhook")


async def no_test_is_sent_to_a_suspended_account(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    await database.webhooks.add_trial("h1", trial(account))
    await database.accounts.set_status(
        account.id or "", "Suspended", "SuspendCommand", datetime.fromtimestamp(NOW, UTC)
    )
    assert await drain(database) == []


async def one_sender_at_a_time_has_a_webhook(database: AccountsDatabase) -> None:
    account = await owner(database)
    for number in range(4):
        await hook(database, account, f"h{number}")
    await take(database, event("e1"), event("e2"))
    claims = await asyncio.gather(*(database.webhooks.claim(NOW + 600, LEASE, 10) for _ in range(3)))
    assert sorted(attempt.hook for claim in claims for attempt in claim) == ["h0", "h1", "h2", "h3"]
    assert await database.webhooks.claim(NOW + 600 + LEASE - 1, LEASE, 10) == []


async def the_event_of_a_sender_that_has_ended_is_sent_again(database: AccountsDatabase) -> None:
    await hook(database, await owner(database))
    await take(database, event("e1"))
    first = await claim(database)
    second = await claim(database, NOW + 600 + LEASE)
    assert (second.event, second.body) == (first.event, first.body)
    assert not await database.webhooks.accepted(first, NOW + 700), "its lease has ended"
    assert await database.webhooks.accepted(second, NOW + 700)
    assert await drain(database, NOW + 800) == []


async def a_lease_from_a_clock_that_was_ahead_holds_nobody_up(database: AccountsDatabase) -> None:
    await hook(database, await owner(database))
    await take(database, event("e1"))
    await claim(database, NOW + 1_000_000)
    assert await drain(database, NOW + 600) == [("h1", "e1")]


async def a_refused_event_waits_behind_the_others(database: AccountsDatabase) -> None:
    await hook(database, await owner(database))
    await take(database, event("e1"), event("e2"), event("e3"))
    failure = Failure("it answered 500", NOW + 660, NOW)
    assert await database.webhooks.note_refused(await claim(database), failure, NOW + 600) is None
    assert await database.webhooks.claim(NOW + 659, LEASE, 10) == [], "the webhook rests"
    assert [entity for _, entity in await drain(database, NOW + 660)] == ["e2", "e3", "e1"]


async def failures_are_shown_until_one_is_accepted(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    await take(database, event("e1"))
    for failures in range(3):
        attempt = await claim(database, NOW + 600 + failures)
        assert attempt.failures == failures
        failure = Failure("it answered 500", NOW + 600 + failures, NOW)
        await database.webhooks.note_refused(attempt, failure, NOW + 600 + failures)
    webhook = await database.webhooks.get(account.id or "", "h1")
    assert webhook is not None
    assert (webhook.status, webhook.reason, webhook.message) == (
        "Active",
        "DeliveryFailed",
        "it answered 500",
    )
    await drain(database, NOW + 700)
    webhook = await database.webhooks.get(account.id or "", "h1")
    assert webhook is not None
    assert (webhook.reason, webhook.message, webhook.delivered, webhook.waiting) == (None, None, 1, 0)
    assert webhook.lastDelivery == datetime.fromtimestamp(NOW + 700, UTC)


async def a_webhook_that_fails_for_long_is_disabled(database: AccountsDatabase) -> None:
    account = await owner(database)
    id = account.id or ""
    await hook(database, account)
    await take(database, event("e1"))
    for time, expected in ((NOW + 600, None), (NOW + 4000, None), (NOW + 4300, "Failing")):
        failure = Failure("it answered 500", time, time - 3600)
        assert await database.webhooks.note_refused(await claim(database, time), failure, time) == expected
    webhook = await database.webhooks.get(id, "h1")
    assert webhook is not None
    assert (webhook.status, webhook.reason, webhook.message) == ("Disabled", "Failing", "it answered 500")
    assert await take(database, event("e2")) == 0, "nothing is kept for it"
    assert await drain(database, NOW + 9000) == []
    assert await database.webhooks.enable(id, "h1")
    assert await drain(database, NOW + 9000) == [("h1", "e1")], "what waited is sent"


async def an_end_while_it_was_disabled_is_not_told_late(database: AccountsDatabase) -> None:
    account = await owner(database)
    id = account.id or ""
    await hook(database, account)
    await take(database, event("e0"))
    failure = Failure("it answered 410", NOW + 600, NOW, gone=True)
    await database.webhooks.note_refused(await claim(database), failure, NOW + 600)
    assert await take(database, event("e1", 11)) == 0
    await database.webhooks.enable(id, "h1")
    # The log is built again, and is read from its beginning.
    assert await take(database, event("e0"), event("e1", 11), event("e2", 12)) == 1
    assert sorted(await drain(database, NOW + 9000)) == [("h1", "e0"), ("h1", "e2")]


async def an_end_while_it_could_not_be_seen_is_not_told_late(database: AccountsDatabase) -> None:
    account = await owner(database, "acme", "acme", "other")
    id, now = account.id or "", datetime.fromtimestamp(NOW, UTC)
    await hook(database, account)
    await database.accounts.set_status(id, "Suspended", "SuspendCommand", now)
    assert await take(database, event("e1")) == 0
    await database.accounts.set_status(id, "Active", "ReactivateCommand", now)
    await database.accounts.set_permissions(id, [grant("acme")])
    assert await take(database, event("e2", account="other")) == 0
    await database.accounts.set_permissions(id, [grant("acme", "other")])
    assert await take(database, event("e1"), event("e2", account="other"), event("e3")) == 1
    assert await drain(database) == [("h1", "e3")]


async def a_receiver_that_is_gone_is_not_asked_again(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    await take(database, event("e1"))
    failure = Failure("it answered 410", NOW + 600, NOW, gone=True)
    assert await database.webhooks.note_refused(await claim(database), failure, NOW + 600) == "Gone"
    assert await drain(database, NOW + 9000) == []


async def webhooks_that_wait_take_turns(database: AccountsDatabase) -> None:
    account = await owner(database)
    for id in ("h1", "h2"):
        await hook(database, account, id)
    await take(database, event("e1"), event("e2"))
    turns = []
    for second in range(4):
        (attempt,) = await database.webhooks.claim(NOW + 600 + second, LEASE, 1)
        await database.webhooks.accepted(attempt, NOW + 600 + second)
        turns.append(attempt.hook)
    assert sorted(turns[:2]) == sorted(turns[2:]) == ["h1", "h2"]


async def whether_any_is_registered_is_known(database: AccountsDatabase) -> None:
    assert not await database.webhooks.are_registered()
    account = await owner(database)
    await hook(database, account)
    assert await database.webhooks.are_registered()
    await database.webhooks.remove(account.id or "", "h1")
    assert not await database.webhooks.are_registered()


async def positions_never_go_back(database: AccountsDatabase) -> None:
    webhooks = database.webhooks
    assert await webhooks.positions(1) == {}
    await webhooks.take([], 1, {0: 5, 1: 2}, 10)
    await webhooks.take([], 1, {0: 3}, 10)
    await webhooks.take([], 2, {0: 1}, 10)
    assert (await webhooks.positions(1), await webhooks.positions(2)) == ({0: 5, 1: 2}, {0: 1})


async def an_account_has_a_bounded_number(database: AccountsDatabase) -> None:
    account = await owner(database)
    adding = (
        database.webhooks.add(f"h{number}", account.id or "", Registration("https://x/", NOW, ()), 2)
        for number in range(4)
    )
    results = await asyncio.gather(*adding, return_exceptions=True)
    assert sum(isinstance(result, TooManyWebhooks) for result in results) == 2
    assert len(await database.webhooks.list(account.id or "")) == 2


async def webhooks_of_others_are_out_of_reach(database: AccountsDatabase) -> None:
    one, other = await owner(database), await owner(database, "other")
    await hook(database, one)
    webhooks, id = database.webhooks, other.id or ""
    assert await webhooks.get(id, "h1") is None
    assert await webhooks.list(id) == []
    assert not await webhooks.remove(id, "h1")
    assert not await webhooks.enable(id, "h1")
    assert await webhooks.rotate(id, "h1", NOW) is None
    assert await webhooks.get(one.id or "", "h1") is not None


async def a_removed_webhook_gets_no_more(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    await take(database, event("e1"))
    assert await database.webhooks.remove(account.id or "", "h1")
    assert await database.webhooks.get(account.id or "", "h1") is None
    await hook(database, account)
    assert await drain(database) == []


async def a_rotation_begins_the_next_secret(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    assert await database.webhooks.rotate(account.id or "", "h1", NOW + 30) == 2
    await take(database, event("e1"))
    attempt = await claim(database)
    assert (attempt.generation, attempt.rotated) == (2, NOW + 30)


async def an_event_that_is_too_old_is_dropped(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account)
    await take(database, event("e1", 1), event("e2", 10))
    await database.webhooks.expire(NOW + 300, NOW + 300)
    webhook = await database.webhooks.get(account.id or "", "h1")
    assert webhook is not None
    assert (webhook.waiting, webhook.dropped) == (1, 1)
    assert await take(database, event("e1", 1)) == 1, "nobody knows any more that it was reported"


def trial(account: Account) -> Event:
    return Event("t", "", account.id or "", "", "", NOW, "{}")


async def a_test_is_sent_to_one_webhook(database: AccountsDatabase) -> None:
    account = await owner(database)
    await hook(database, account, "h1")
    await hook(database, account, "h2")
    await database.webhooks.add_trial("h2", trial(account))
    assert await drain(database) == [("h2", "t")]


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        accounts_that_may_see_an_entity_are_told,
        the_registering_tokens_grants_limit_what_is_told,
        kinds_and_statuses_choose,
        an_end_is_told_once,
        an_end_before_the_registration_is_not_told,
        a_backlog_is_bounded_and_says_what_is_lost,
        rights_that_were_taken_away_hold_for_what_waits,
        a_deleted_account_has_no_webhooks,
        a_suspended_account_is_told_nothing,
        no_test_is_sent_to_a_suspended_account,
        one_sender_at_a_time_has_a_webhook,
        the_event_of_a_sender_that_has_ended_is_sent_again,
        a_lease_from_a_clock_that_was_ahead_holds_nobody_up,
        a_refused_event_waits_behind_the_others,
        failures_are_shown_until_one_is_accepted,
        a_webhook_that_fails_for_long_is_disabled,
        an_end_while_it_was_disabled_is_not_told_late,
        an_end_while_it_could_not_be_seen_is_not_told_late,
        a_receiver_that_is_gone_is_not_asked_again,
        webhooks_that_wait_take_turns,
        whether_any_is_registered_is_known,
        positions_never_go_back,
        an_account_has_a_bounded_number,
        webhooks_of_others_are_out_of_reach,
        a_removed_webhook_gets_no_more,
        a_rotation_begins_the_next_secret,
        an_event_that_is_too_old_is_dropped,
        a_test_is_sent_to_one_webhook,
    )
}
