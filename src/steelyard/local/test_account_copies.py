"""Copies of the accounts in the backup are written only where they can be restored."""

from datetime import UTC, datetime

import pytest

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.secrets import SecretKeys
from steelyard.local.account_copies import list_copies, restore_accounts, write_copy
from steelyard_common.errors import Refused
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.account import Identity

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
KEYS = SecretKeys([b"k" * 32])


async def test_a_copy_that_could_not_be_restored_is_not_written() -> None:
    store = open_store("memory://account-copies")
    accounts, empty = [await open_accounts_database("memory:") for _ in range(2)]
    try:
        await accounts.accounts.create("me", Identity(), NOW)
        with pytest.raises(
            Refused, match=r"^accounts: a copy of the database has \d+ bytes, and at most 10 can be"
        ):
            await write_copy(accounts, KEYS, store, NOW, limit=10)
        assert await list_copies(store) == []
        assert await write_copy(accounts, KEYS, store, NOW) == 1
        assert await restore_accounts(empty, store, lambda: KEYS, None) == 1
    finally:
        await accounts.close()
        await empty.close()
