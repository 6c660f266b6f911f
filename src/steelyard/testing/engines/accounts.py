"""Contract of accounts databases for accounts and keys. Engines run each of `CASES`."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from steelyard.accounts.database import (
    Accounts,
    AccountsDatabaseError,
    CreationRequest,
    KeyTaken,
    NameTaken,
    NoSuchAccount,
    TooManyKeys,
    TooManyLabels,
)
from steelyard_schema.account import AccessGrant, Account, APIKey, Identity

Case = Callable[[Accounts], Awaitable[None]]
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
GET = AccessGrant(resources=["datasets"], functions=["get"], accounts=["a"])


def key(id: str, *, ends: datetime = LATER, created: datetime = NOW, subject: str = "accounts/a") -> APIKey:
    return APIKey(id=id, subject=subject, created=created, expires=ends, grants=[GET])


async def account(accounts: Accounts, name: str = "alice") -> str:
    return (await accounts.create(name, Identity(), NOW)).id or ""


async def current(accounts: Accounts, id: str) -> Account:
    account = await accounts.get(id)
    assert account is not None
    return account


async def refusal(attempt: Awaitable[object], kind: type[AccountsDatabaseError]) -> str:
    """Return the message of the error that must be raised."""
    try:
        await attempt
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


async def an_account_is_found_by_id_and_by_name(accounts: Accounts) -> None:
    made = await accounts.create("alice", Identity(github="al"), NOW)
    assert (made.name, made.status, made.creationTime) == ("alice", "Active", NOW)
    assert made.auth.permissions == []
    assert await accounts.get(made.id or "") == made == await accounts.find_by_name("alice")
    assert await accounts.get("nobody") is None is await accounts.find_by_name("nobody")


async def an_account_may_begin_with_permissions(accounts: Accounts) -> None:
    made = await accounts.create("alice", Identity(), NOW, [GET])
    assert (await current(accounts, made.id or "")).auth.permissions == [GET]


async def a_name_is_given_once(accounts: Accounts) -> None:
    await account(accounts)
    assert "'alice' is taken" in await refusal(accounts.create("alice", Identity(), LATER), NameTaken)
    assert len(await accounts.list()) == 1


async def a_repeated_request_gives_the_account_that_it_made(accounts: Accounts) -> None:
    request = CreationRequest("accounts/admin", "k", "digest")
    made = await accounts.create("alice", Identity(), NOW, request=request)
    assert await accounts.create("alice", Identity(), LATER, request=request) == made
    another = CreationRequest("accounts/admin", "k", "another")
    assert "'k'" in await refusal(accounts.create("bob", Identity(), LATER, request=another), KeyTaken)
    other = CreationRequest("accounts/other", "k", "another")
    assert (await accounts.create("bob", Identity(), LATER, request=other)).name == "bob"


async def all_are_listed_by_name(accounts: Accounts) -> None:
    for name in ("carol", "alice", "bob"):
        await account(accounts, name)
    assert [listed.name for listed in await accounts.list()] == ["alice", "bob", "carol"]


async def permissions_are_replaced_and_have_a_new_version(accounts: Accounts) -> None:
    id = await account(accounts)
    first = await accounts.set_permissions(id, [GET])
    second = await accounts.set_permissions(id, [])
    assert first.auth.permissionsVersion != second.auth.permissionsVersion
    assert (await current(accounts, id)).auth == second.auth
    assert second.auth.permissions == []


async def labels_are_patched(accounts: Accounts) -> None:
    id = await account(accounts)
    await accounts.add_key(id, key("k"), "digest")
    assert (await accounts.set_labels(id, {"team": "blue", "tier": "gold"})).labels["tier"] == "gold"
    after = await accounts.set_labels(id, {"tier": None, "gone": None, "a.b/c": ""})
    assert after == await current(accounts, id) == (await accounts.list())[0]
    assert (after.labels, [key.id for key in after.apiKeys]) == ({"team": "blue", "a.b/c": ""}, ["k"])
    await accounts.set_status(id, "Suspended", "SuspendCommand", LATER)
    assert (await current(accounts, id)).labels == after.labels


async def labels_are_bounded_together(accounts: Accounts) -> None:
    id = await account(accounts)
    await accounts.set_labels(id, {f"k{number}": "v" for number in range(1000)})
    message = await refusal(accounts.set_labels(id, {"one-more": "v"}), TooManyLabels)
    assert "1001; at most 1000" in message
    assert len((await accounts.set_labels(id, {"one-more": "v", "k0": None})).labels) == 1000


async def a_status_is_set_with_its_reason_and_time(accounts: Accounts) -> None:
    id = await account(accounts)
    await accounts.set_status(id, "Suspended", "SuspendCommand", LATER)
    alice = await current(accounts, id)
    assert (alice.status, alice.reason, alice.lastTransitionTime) == ("Suspended", "SuspendCommand", LATER)
    assert alice.creationTime == NOW


async def a_missing_account_cannot_be_changed(accounts: Accounts) -> None:
    for attempt in (
        accounts.set_permissions("x", []),
        accounts.set_status("x", "Suspended", "SuspendCommand", NOW),
        accounts.delete("x", NOW),
        accounts.add_key("x", key("k"), "digest"),
    ):
        assert "no account x" in await refusal(attempt, NoSuchAccount)
    assert await accounts.key("k") is None


async def a_deleted_account_stays_without_keys(accounts: Accounts) -> None:
    id = await account(accounts)
    await accounts.add_key(id, key("k"), "digest")
    await accounts.delete(id, LATER)
    alice = await current(accounts, id)
    assert (alice.status, alice.reason, alice.apiKeys) == ("Deleted", "DeleteCommand", [])
    assert await accounts.key("k") is None


async def a_key_is_found_with_its_digest_and_its_account_as_it_is_now(accounts: Accounts) -> None:
    id = await account(accounts)
    await accounts.add_key(id, key("k"), "digest")
    await accounts.set_permissions(id, [GET])
    assert await accounts.key("k") == (key("k"), "digest", await current(accounts, id))
    assert (await current(accounts, id)).apiKeys == [key("k")]


async def a_sessions_key_belongs_to_no_account(accounts: Accounts) -> None:
    await accounts.add_session_key(key("k", subject="inferencesessions/s"), "digest")
    assert await accounts.key("k") == (key("k", subject="inferencesessions/s"), "digest", None)


async def a_session_has_at_most_so_many_keys_that_have_not_ended(accounts: Accounts) -> None:
    session, other = "inferencesessions/s", "inferencesessions/t"
    await accounts.add_session_key(key("ended", subject=session, ends=NOW), "digest", most=3)
    await accounts.add_session_key(key("others", subject=other), "digest", most=3)
    added = await asyncio.gather(
        *(
            accounts.add_session_key(key(f"k{number}", subject=session), "digest", most=3)
            for number in range(8)
        ),
        return_exceptions=True,
    )
    assert [type(result) for result in added if result is not None] == [TooManyKeys] * 5
    assert "3 tokens that are valid" in await refusal(
        accounts.add_session_key(key("more", subject=session), "digest", most=3), TooManyKeys
    )
    await accounts.add_session_key(key("anothers", subject=other), "digest", most=3)
    await accounts.add_session_key(key("unbounded", subject=session), "digest")


async def one_key_is_revoked_or_all_of_an_account(accounts: Accounts) -> None:
    id, other = await account(accounts), await account(accounts, "bob")
    for number in range(3):
        await accounts.add_key(id, key(f"k{number}"), "digest")
    await accounts.add_key(other, key("other"), "digest")
    assert await accounts.revoke(id, "other") == 0
    assert await accounts.revoke(id, "k1") == 1
    assert [key.id for key in (await current(accounts, id)).apiKeys] == ["k0", "k2"]
    assert await accounts.revoke(id) == 2
    assert await accounts.key("other") is not None


async def a_key_takes_the_place_of_the_one_with_its_purpose(accounts: Accounts) -> None:
    id, other = await account(accounts), await account(accounts, "bob")
    await accounts.add_key(other, key("others"), "digest", "bootstrap")
    await accounts.add_key(id, key("plain"), "digest")
    await accounts.add_key(id, key("first"), "digest", "bootstrap")
    await accounts.add_key(id, key("second"), "digest", "bootstrap")
    assert [key.id for key in (await current(accounts, id)).apiKeys] == ["plain", "second"]
    assert await accounts.key("others") is not None


async def an_account_has_at_most_so_many_keys_that_have_not_ended(accounts: Accounts) -> None:
    id, other = await account(accounts), await account(accounts, "bob")
    await accounts.add_key(other, key("others"), "digest")
    await accounts.add_key(id, key("ended", ends=NOW), "digest")
    added = await asyncio.gather(
        *(accounts.add_key(id, key(f"k{number}"), "digest", most=3) for number in range(8)),
        return_exceptions=True,
    )
    assert [type(result) for result in added if result is not None] == [TooManyKeys] * 5
    assert len((await current(accounts, id)).apiKeys) == 4
    # One that takes another's place adds none, and each that is revoked makes room.
    await accounts.revoke(id, (await current(accounts, id)).apiKeys[-1].id)
    for name in ("first", "second"):
        await accounts.add_key(id, key(name), "digest", "bootstrap", most=3)
    assert "3 tokens that are valid" in await refusal(
        accounts.add_key(id, key("more"), "digest", most=3), TooManyKeys
    )
    await accounts.add_key(id, key("unbounded"), "digest")


async def keys_that_ended_long_ago_go(accounts: Accounts) -> None:
    id, end = await account(accounts), NOW + timedelta(days=90)
    await accounts.add_session_key(key("old", ends=LATER), "digest")
    await accounts.add_key(id, key("young", ends=end - timedelta(days=1)), "digest")
    await accounts.add_key(id, key("new", created=end, ends=end + timedelta(days=1)), "digest")
    assert await accounts.key("old") is None
    assert await accounts.key("young") is not None


async def the_newest_signing_key_signs(accounts: Accounts) -> None:
    assert await accounts.signing_keys() == {}
    await accounts.add_signing_key("one", b"1", NOW, first=True)
    await accounts.add_signing_key("late", b"0", NOW, first=True)
    assert await accounts.signing_keys() == {"one": (b"1", True)}
    await accounts.add_signing_key("two", b"2", NOW - timedelta(days=1))
    assert await accounts.signing_keys() == {"one": (b"1", False), "two": (b"2", True)}


async def changes_change_the_version(accounts: Accounts) -> None:
    seen = [accounts.version()]
    id = await account(accounts)
    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: accounts.set_permissions(id, [GET]),
        lambda: accounts.set_status(id, "Suspended", "SuspendCommand", NOW),
        lambda: accounts.set_labels(id, {"team": "blue"}),
        lambda: accounts.add_key(id, key("k"), "digest"),
        lambda: accounts.revoke(id, "k"),
        lambda: accounts.delete(id, NOW),
        lambda: accounts.add_signing_key("one", b"1", NOW),
    ]
    for change in changes:
        seen.append(accounts.version())
        await change()
    seen.append(accounts.version())
    assert len(set(seen)) == len(seen)
    assert accounts.version() == seen[-1]


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        an_account_is_found_by_id_and_by_name,
        an_account_may_begin_with_permissions,
        a_name_is_given_once,
        a_repeated_request_gives_the_account_that_it_made,
        all_are_listed_by_name,
        permissions_are_replaced_and_have_a_new_version,
        labels_are_patched,
        labels_are_bounded_together,
        a_status_is_set_with_its_reason_and_time,
        a_missing_account_cannot_be_changed,
        a_deleted_account_stays_without_keys,
        a_key_is_found_with_its_digest_and_its_account_as_it_is_now,
        a_sessions_key_belongs_to_no_account,
        a_session_has_at_most_so_many_keys_that_have_not_ended,
        one_key_is_revoked_or_all_of_an_account,
        a_key_takes_the_place_of_the_one_with_its_purpose,
        an_account_has_at_most_so_many_keys_that_have_not_ended,
        keys_that_ended_long_ago_go,
        the_newest_signing_key_signs,
        changes_change_the_version,
    )
}
