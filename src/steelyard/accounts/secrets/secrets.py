"""Secrets as the API and the orchestrator use them: values go in and out in clear, and are encrypted in between."""

import logging
from collections.abc import Sequence
from datetime import datetime

from pydantic import SecretStr

from steelyard.accounts.database import EncryptedSecret, EncryptedSecrets
from steelyard.accounts.secrets.keys import SecretKeys, SecretUnreadable
from steelyard_schema.secrets import MOST_SECRETS, Secret

_log = logging.getLogger(__name__)
BATCH = 100


class NoKeys(SecretUnreadable):
    """The settings name no keys, so that secrets can be neither stored nor read."""


class Secrets:
    """Secrets of all accounts."""

    def __init__(self, rows: EncryptedSecrets, keys: SecretKeys | None) -> None:
        self._rows = rows
        self._keys = keys

    async def set(self, account: str, name: str, value: str, now: datetime) -> Secret:
        """Make the secret or replace its value. Raises TooManySecrets, NoKeys."""
        keys = self._check_keys()
        row = EncryptedSecret(
            account=account,
            name=name,
            key=keys.first,
            encrypted=keys.encrypt(account, name, value),
            fingerprint=keys.fingerprint(account, name, value),
            created=now,
            updated=now,
        )
        return _present(await self._rows.put(row, MOST_SECRETS))

    async def list(self, account: str) -> Sequence[Secret]:
        """Return what may be shown of the account's secrets, by name."""
        return [_present(row) for row in await self._rows.list(account)]

    async def delete(self, account: str, name: str) -> bool:
        """Delete the secret; return whether there was one."""
        return await self._rows.delete(account, name)

    async def has(self, account: str, name: str) -> bool:
        """Return whether the account has a secret of this name."""
        return await self._rows.get(account, name) is not None

    async def value(self, account: str, name: str) -> SecretStr | None:
        """Return the value, None where there is no such secret. Raises SecretUnreadable, NoKeys."""
        row = await self._rows.get(account, name)
        if row is None:
            return None
        return SecretStr(self._check_keys().decrypt(account, name, row.key, row.encrypted))

    async def encrypt_anew(self) -> int:
        """Encrypt with the first key what other keys have encrypted; return the number of secrets.

        Those that cannot be read stay as they are, with a line in the log: their key may come back.
        """
        if self._keys is None:
            return 0
        count, after = 0, ("", "")
        while rows := await self._rows.list_other_keys(self._keys.first, after, BATCH):
            for row in rows:
                count += await self._encrypt_anew(self._keys, row)
            after = (rows[-1].account, rows[-1].name)
        if count:
            _log.info("%d secrets were encrypted again, with the first key", count)
        return count

    async def _encrypt_anew(self, keys: SecretKeys, row: EncryptedSecret) -> bool:
        try:
            value = keys.decrypt(row.account, row.name, row.key, row.encrypted)
        except SecretUnreadable as error:
            _log.error("%s", error)
            return False
        return await self._rows.reencrypt(
            row,
            keys.first,
            keys.encrypt(row.account, row.name, value),
            keys.fingerprint(row.account, row.name, value),
        )

    def _check_keys(self) -> SecretKeys:
        if self._keys is None:
            raise NoKeys(
                "secret_keys: the settings name no file of keys, so secrets cannot be stored or read"
            )
        return self._keys


def _present(row: EncryptedSecret) -> Secret:
    return Secret(
        account=row.account,
        name=row.name,
        fingerprint=row.fingerprint,
        created=row.created,
        updated=row.updated,
    )
