"""The trial of the keys that encrypt secrets: `steelyard config check` opens every secret with them, and shows none."""

from pathlib import Path

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.secrets import KeyFileError, SecretKeys, SecretUnreadable, read_keys
from steelyard.accounts.secrets.secrets import BATCH

_ANY = ""
"""Id that no key has: all secrets are another key's."""


async def try_secret_keys(path: Path, accounts: str | None) -> tuple[str, ...]:
    """Return the state of the keys; `accounts` is the address of the database, or None where there is none yet.

    Raises KeyFileError for a file that cannot be used, or is missing although there are secrets, and SecretUnreadable,
    with the first of them, where it lacks the key of a secret.
    """
    keys = _keys(path)
    count, faults = (0, []) if accounts is None else await _unreadable(keys, accounts)
    if keys is None and count:
        stored = f"{count} stored secret{'s' * (count > 1)}"
        raise KeyFileError(
            f"secret_keys {path}: there is no such file, and without it {stored} cannot be read"
        )
    if faults:
        raise SecretUnreadable(f"{len(faults)} of {count} secrets cannot be read: {faults[0]}")
    if keys is None:
        return ("is not there, and there are no secrets yet",)
    return (
        f"{len(keys)} key{'s' * (len(keys) > 1)}",
        _summary(count),
    )


def _summary(count: int) -> str:
    """Return how many secrets the keys open, in words."""
    if count == 1:
        return "opens the one secret"
    return f"opens all {count} secrets" if count else "there are no secrets yet"


def _keys(path: Path) -> SecretKeys | None:
    return read_keys(path) if path.exists() else None


async def _unreadable(keys: SecretKeys | None, accounts: str) -> tuple[int, list[SecretUnreadable]]:
    """Return the number of all secrets, and why some of them cannot be read."""
    opened = await open_accounts_database(accounts)
    count, after, faults = 0, ("", ""), list[SecretUnreadable]()
    try:
        while rows := await opened.secrets.list_other_keys(_ANY, after, BATCH):
            for row in rows:
                try:
                    if keys is not None:
                        keys.decrypt(row.account, row.name, row.key, row.encrypted)
                except SecretUnreadable as error:
                    faults.append(error)
            count, after = count + len(rows), (rows[-1].account, rows[-1].name)
    finally:
        await opened.close()
    return count, faults
