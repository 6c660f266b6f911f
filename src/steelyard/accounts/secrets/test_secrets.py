"""Secrets of accounts: set, read with the key alone, deleted, and encrypted again after a rotation."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from steelyard.accounts.database import AccountsDatabaseError, EncryptedSecrets, TooManySecrets
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.secrets import NoKeys, SecretKeys, Secrets, SecretUnreadable
from steelyard_schema.secrets import MOST_SECRETS

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
OLD, NEW = b"1" * 32, b"2" * 32
VALUE = "hf_a-distinctive-value"


@pytest.fixture
async def rows() -> AsyncIterator[EncryptedSecrets]:
    opened = await open_accounts_database("memory:")
    yield opened.secrets
    await opened.close()


def of(rows: EncryptedSecrets, *keys: bytes) -> Secrets:
    return Secrets(rows, SecretKeys(keys))


async def value(secrets: Secrets, name: str = "token") -> str | None:
    secret = await secrets.value("acme", name)
    return None if secret is None else secret.get_secret_value()


async def test_a_value_comes_back_to_those_with_the_key_and_is_never_shown(rows: EncryptedSecrets) -> None:
    secrets = of(rows, OLD)
    shown = await secrets.set("acme", "token", VALUE, NOW)
    assert await value(secrets) == VALUE
    assert await secrets.list("acme") == [shown]
    assert (shown.created, shown.updated) == (NOW, NOW)
    row = await rows.get("acme", "token")
    for text in (shown.dump_json(), repr(shown), repr(row), repr(await secrets.value("acme", "token"))):
        assert VALUE not in text
    assert row
    assert VALUE.encode() not in row.encrypted


async def test_a_new_value_has_another_fingerprint_and_the_first_ones_birth(rows: EncryptedSecrets) -> None:
    secrets = of(rows, OLD)
    first = await secrets.set("acme", "token", VALUE, NOW)
    same = await secrets.set("acme", "token", VALUE, LATER)
    other = await secrets.set("acme", "token", "another value", LATER)
    assert first.fingerprint == same.fingerprint != other.fingerprint
    assert (other.created, other.updated) == (NOW, LATER)
    assert await value(secrets) == "another value"


async def test_what_was_deleted_is_gone(rows: EncryptedSecrets) -> None:
    secrets = of(rows, OLD)
    await secrets.set("acme", "token", VALUE, NOW)
    assert await secrets.has("acme", "token")
    assert await secrets.delete("acme", "token")
    assert not await secrets.delete("acme", "token")
    assert await value(secrets) is None
    assert not await secrets.has("acme", "token")


async def test_an_account_has_at_most_so_many(rows: EncryptedSecrets) -> None:
    secrets = of(rows, OLD)
    for n in range(MOST_SECRETS):
        await secrets.set("acme", f"s{n}", VALUE, NOW)
    with pytest.raises(TooManySecrets, match="100 secrets"):
        await secrets.set("acme", "one-more", VALUE, NOW)
    await secrets.set("other", "one-more", VALUE, NOW)


async def test_keys_are_rotated_without_a_gap(rows: EncryptedSecrets) -> None:
    for n in range(250):
        await of(rows, OLD).set(f"account-{n % 3}", f"s{n}", f"{VALUE}{n}", NOW)
    rotated = of(rows, NEW, OLD)
    assert await rotated.encrypt_anew() == 250
    assert await rotated.encrypt_anew() == 0
    # The old key may go.
    alone = of(rows, NEW)
    for n in range(250):
        secret = await alone.value(f"account-{n % 3}", f"s{n}")
        assert secret
        assert secret.get_secret_value() == f"{VALUE}{n}"
    before = (await alone.list("account-0"))[0]
    assert (before.created, before.updated) == (NOW, NOW)
    assert (await alone.set("account-0", before.name, f"{VALUE}0", LATER)).fingerprint == before.fingerprint


async def test_what_cannot_be_read_stays_and_stops_no_other(
    rows: EncryptedSecrets, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        await of(rows, OLD).set("acme", name, VALUE, NOW)
    damaged = await rows.get("acme", "b")
    assert damaged
    await rows.put(replace(damaged, encrypted=damaged.encrypted[:-1] + b"x"), 9)
    with caplog.at_level(logging.INFO):
        assert await of(rows, NEW, OLD).encrypt_anew() == 2
    assert "secret b of account acme: what the database holds was changed" in caplog.text
    assert VALUE not in caplog.text
    with pytest.raises(SecretUnreadable):
        await of(rows, NEW, OLD).value("acme", "b")


async def test_a_row_that_was_moved_to_another_account_cannot_be_read(rows: EncryptedSecrets) -> None:
    """Writing to the database alone reveals no value of another account."""
    await of(rows, OLD).set("acme", "token", VALUE, NOW)
    row = await rows.get("acme", "token")
    assert row
    await rows.put(replace(row, account="mallory"), 9)
    with pytest.raises(SecretUnreadable):
        await of(rows, OLD).value("mallory", "token")


async def test_without_keys_nothing_is_stored_or_read(rows: EncryptedSecrets) -> None:
    none = Secrets(rows, None)
    with pytest.raises(NoKeys, match="secret_keys: the settings name no file"):
        await none.set("acme", "token", VALUE, NOW)
    await of(rows, OLD).set("acme", "token", VALUE, NOW)
    with pytest.raises(NoKeys):
        await none.value("acme", "token")
    assert not issubclass(NoKeys, AccountsDatabaseError)  # it must not end a service
    assert await none.encrypt_anew() == 0
    assert [secret.name for secret in await none.list("acme")] == ["token"]
    assert await none.delete("acme", "token")
