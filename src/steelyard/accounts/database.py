"""Protocols of the accounts database: accounts, their keys and secrets; `outbox.py` and `claims.py` have the others.

`sqlite/` and `postgresql/` implement them, in a file for each; what SQLite refuses they raise as a DatabaseError.
Everything is durable when a method returns. Times come in, except for leases: these count by the database's clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from steelyard_common.errors import ContentError, EngineError
from steelyard_schema.account import AccessGrant, Account, APIKey, Identity


class AccountsDatabaseError(EngineError):
    """The accounts database cannot answer, or not at this address."""


class NameTaken(AccountsDatabaseError, ContentError):
    """Another account has this name."""


class KeyTaken(AccountsDatabaseError, ContentError):
    """The idempotency key was given with another request before."""


class NoSuchAccount(AccountsDatabaseError, ContentError):
    """No account has this id."""


class AccountDeleted(AccountsDatabaseError, ContentError):
    """The account was deleted, and gets nothing new."""


class TooManyLabels(AccountsDatabaseError, ContentError):
    """The account would have more labels than it may."""


class TooManyKeys(AccountsDatabaseError, ContentError):
    """The account or the session has as many keys as it may."""


class TooManySecrets(AccountsDatabaseError, ContentError):
    """The account has as many secrets as it may."""


class Superseded(AccountsDatabaseError):
    """Another process has been elected leader since; the caller must stop."""


class LeaseEnded(AccountsDatabaseError):
    """The lease of an API server has ended, and another server has its rows; the caller must register again."""


@dataclass(frozen=True)
class CreationRequest:
    """Request to create an account: who sends it, its idempotency key, and the digest of route and body."""

    requester: str
    key: str
    digest: str


class Accounts(Protocol):
    """Accounts and keys. Of a key's token the SHA-256 digest alone is kept."""

    async def create(
        self,
        name: str,
        identity: Identity,
        now: datetime,
        permissions: Sequence[AccessGrant] = (),
        request: CreationRequest | None = None,
    ) -> Account:
        """Create an account. A repeated `request` gives the account of the first. Raises NameTaken, KeyTaken."""
        ...

    async def get(self, id: str) -> Account | None: ...

    async def find_by_name(self, name: str) -> Account | None: ...

    async def list(self) -> Sequence[Account]: ...

    async def set_permissions(self, id: str, permissions: Sequence[AccessGrant]) -> Account:
        """Replaces them; permissionsVersion changes. Raises NoSuchAccount."""
        ...

    async def set_status(self, id: str, status: str, reason: str, now: datetime) -> Account:
        """Active or Suspended. Raises NoSuchAccount."""
        ...

    async def set_labels(self, id: str, patch: Mapping[str, str | None]) -> Account:
        """Set labels; None removes one, and others stay. Raises NoSuchAccount, TooManyLabels."""
        ...

    async def delete(self, id: str, now: datetime) -> None:
        """The account stays, Deleted and without keys and secrets. Raises NoSuchAccount."""
        ...

    async def add_key(
        self,
        account: str,
        key: APIKey,
        digest: str,
        purpose: str | None = None,
        *,
        most: int | None = None,
    ) -> None:
        """An account has one key of a purpose: an earlier one is revoked at once. Raises NoSuchAccount.

        Keys that ended long before this one begins are removed, of any account. Raises TooManyKeys if the account would
        have more than `most` keys that have not ended when this one begins.
        """
        ...

    async def key(self, id: str) -> tuple[APIKey, str, Account | None] | None:
        """The key, its token's digest and its account (None of a session's key); None when revoked or unknown."""
        ...

    async def add_session_key(self, key: APIKey, digest: str, *, most: int | None = None) -> None:
        """A key that belongs to a session, its subject, and not to an account.

        Raises TooManyKeys if the session would have more than `most` keys that have not ended when this one begins.
        """
        ...

    async def revoke(self, account: str, id: str | None = None) -> int:
        """One key, or all of the account's. How many there were."""
        ...

    async def signing_keys(self) -> Mapping[str, tuple[bytes, bool]]:
        """kid -> (Ed25519 private key as PKCS#8 PEM, whether new tokens are signed with it)."""
        ...

    async def add_signing_key(self, kid: str, pem: bytes, now: datetime, *, first: bool = False) -> None:
        """New tokens are signed with it from now on; tokens of older keys stay good.

        `first`: only if there is none yet, so that of several processes one makes it.
        """
        ...

    def version(self) -> int:
        """Changes with every committed change of accounts or keys, by any process; cheap enough for every request."""
        ...


@dataclass(frozen=True)
class EncryptedSecret:
    """A secret as the database holds it. `key` is the id of the key that has encrypted it."""

    account: str
    name: str
    key: str
    encrypted: bytes = field(repr=False)
    fingerprint: str
    created: datetime
    updated: datetime


class EncryptedSecrets(Protocol):
    """Secrets of accounts; the database sees encrypted bytes alone. `Secrets` encrypts and decrypts them."""

    async def put(self, secret: EncryptedSecret, most: int) -> EncryptedSecret:
        """Add the secret, or replace the one of this account and name, whose `created` stays; return it.

        Raises TooManySecrets if the account would have more than `most`, AccountDeleted if it was deleted.
        """
        ...

    async def get(self, account: str, name: str) -> EncryptedSecret | None: ...

    async def list(self, account: str) -> Sequence[EncryptedSecret]:
        """Return the account's secrets, by name."""
        ...

    async def delete(self, account: str, name: str) -> bool:
        """Remove the secret; return whether there was one."""
        ...

    async def list_other_keys(
        self, key: str, after: tuple[str, str], limit: int
    ) -> Sequence[EncryptedSecret]:
        """Return secrets that other keys have encrypted, by account and name, from after that pair on."""
        ...

    async def reencrypt(self, old: EncryptedSecret, key: str, encrypted: bytes, fingerprint: str) -> bool:
        """Replace the bytes of a secret, and nothing else, unless it was changed since; return whether it was done."""
        ...
