"""Contract of accounts databases for encrypted secrets. Engines run each of `CASES`."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from steelyard.accounts.database import (
    AccountDeleted,
    Accounts,
    EncryptedSecret,
    EncryptedSecrets,
    TooManySecrets,
)
from steelyard_schema.account import Identity

Case = Callable[[EncryptedSecrets], Awaitable[None]]
NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
MOST = 3


def secret(name: str = "token", account: str = "acme", *, key: str = "k1") -> EncryptedSecret:
    """Return a secret as it is stored."""
    return EncryptedSecret(account, name, key, b"\x00\xff" + name.encode(), "f" * 16, NOW, NOW)


async def a_secret_is_read_as_it_was_put(secrets: EncryptedSecrets) -> None:
    assert await secrets.put(secret(), MOST) == secret() == await secrets.get("acme", "token")
    assert await secrets.get("acme", "other") is None is await secrets.get("other", "token")


async def another_value_replaces_the_first_and_keeps_its_time(secrets: EncryptedSecrets) -> None:
    await secrets.put(secret(), MOST)
    newer = replace(secret(key="k2"), encrypted=b"new", fingerprint="e" * 16, created=LATER, updated=LATER)
    assert await secrets.put(newer, MOST) == replace(newer, created=NOW) == await secrets.get("acme", "token")


async def accounts_have_secrets_of_their_own_by_name(secrets: EncryptedSecrets) -> None:
    for name in ("b", "a-1", "a"):
        await secrets.put(secret(name), MOST)
    await secrets.put(secret("a", "other"), MOST)
    assert [row.name for row in await secrets.list("acme")] == ["a", "a-1", "b"]
    assert [row.account for row in await secrets.list("other")] == ["other"]
    assert await secrets.list("nobody") == []


async def no_account_has_more_than_it_may(secrets: EncryptedSecrets) -> None:
    async def attempt(number: int) -> bool:
        try:
            await secrets.put(secret(f"s{number}"), MOST)
        except TooManySecrets as error:
            return "acme has 3 secrets" not in str(error)
        return True

    # Even if they come at once.
    assert sum(await asyncio.gather(*map(attempt, range(8)))) == MOST
    names = [row.name for row in await secrets.list("acme")]
    assert len(names) == MOST
    # Those that are there may change, and other accounts have room.
    await secrets.put(replace(secret(names[0]), encrypted=b"new"), MOST)
    await secrets.put(secret("s", "other"), MOST)


async def a_deleted_secret_is_gone(secrets: EncryptedSecrets) -> None:
    await secrets.put(secret("a"), MOST)
    await secrets.put(secret("b"), MOST)
    assert await secrets.delete("acme", "a")
    assert not await secrets.delete("acme", "a")
    assert not await secrets.delete("other", "b")
    assert [row.name for row in await secrets.list("acme")] == ["b"]


async def names_of_any_text_are_looked_up(secrets: EncryptedSecrets) -> None:
    for text in ("\0", "a\0", "", "x" * 10_000, "\U0001f600"):
        assert await secrets.get(text, text) is None
        assert await secrets.list(text) == []
        assert not await secrets.delete(text, text)


async def secrets_of_other_keys_come_in_pages(secrets: EncryptedSecrets) -> None:
    for account in ("acme", "zeta"):
        for name in ("a", "b"):
            await secrets.put(secret(name, account), MOST)
    await secrets.put(secret("new", key="k2"), MOST)
    pages, after = [], ("", "")
    while page := await secrets.list_other_keys("k2", after, 3):
        pages.append([(row.account, row.name) for row in page])
        after = pages[-1][-1]
    assert pages == [[("acme", "a"), ("acme", "b"), ("zeta", "a")], [("zeta", "b")]]
    assert [row.name for row in await secrets.list_other_keys("k1", ("", ""), 3)] == ["new"]


async def bytes_change_alone_unless_the_secret_has_changed(secrets: EncryptedSecrets) -> None:
    await secrets.put(secret(), MOST)
    assert await secrets.reencrypt(secret(), "k2", b"again", "a" * 16)
    changed = replace(secret(key="k2"), encrypted=b"again", fingerprint="a" * 16)
    assert await secrets.get("acme", "token") == changed
    # Another caller has set a new value since it was read: that one stays.
    assert not await secrets.reencrypt(secret(), "k3", b"late", "b" * 16)
    assert await secrets.get("acme", "token") == changed
    await secrets.delete("acme", "token")
    assert not await secrets.reencrypt(changed, "k3", b"late", "b" * 16)
    assert await secrets.get("acme", "token") is None


async def check_deletion_of_the_account(accounts: Accounts, secrets: EncryptedSecrets) -> None:
    """Check that no secret outlives its account, whether entities name that by its name or by its id.

    One that is set while the account is deleted does not, either.
    """
    made = await accounts.create("acme", Identity(), NOW)
    for account in ("acme", made.id or "", "other"):
        await secrets.put(secret(account=account), MOST)
    results = await asyncio.gather(
        accounts.delete(made.id or "", LATER),
        *(secrets.put(secret(f"s{number}", "acme"), 100) for number in range(10)),
        return_exceptions=True,
    )
    assert {type(result) for result in results} <= {type(None), EncryptedSecret, AccountDeleted}
    for account in ("acme", made.id or ""):
        try:
            await secrets.put(secret(account=account), MOST)
        except AccountDeleted:
            continue
        raise AssertionError(f"a secret of the deleted account {account} was kept")
    assert await secrets.list("acme") == [] == await secrets.list(made.id or "")
    assert len(await secrets.list("other")) == 1


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        a_secret_is_read_as_it_was_put,
        another_value_replaces_the_first_and_keeps_its_time,
        accounts_have_secrets_of_their_own_by_name,
        no_account_has_more_than_it_may,
        a_deleted_secret_is_gone,
        names_of_any_text_are_looked_up,
        secrets_of_other_keys_come_in_pages,
        bytes_change_alone_unless_the_secret_has_changed,
    )
}
