"""The protocols of the accounts database: rights, requests without an answer, and claims.

`sqlite/` and `postgresql/` implement them, in a file for each; what SQLite refuses they raise as a DatabaseError.
Everything is durable when a method returns. Times come in, except for leases: these count by the database's clock.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from steelyard.errors import ContentError, EngineError
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

    async def named(self, name: str) -> Account | None: ...

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


Delivery = Literal["open", "answered", "lost"]
"""State of the answer to the request that led to a command.

`open`: the request is in flight, as far as is known. `answered`: its answer was handed to its connection. `lost`:
the connection broke, or the process ended, before that; the same request again is its repeat.
"""


@dataclass(frozen=True)
class OutboxRow:
    """A command that the API has accepted.

    `request` is the digest of token, route and body, empty where the command only accompanies another one; `ends` are
    the log's ends of the entity's partition before it was sent, so that a server that starts again can search whether
    it was. `position` is where it lies in the log. `server` is the API server that sends and follows it, and whose
    connection waits for the answer; empty where it has no server.
    """

    command: str
    account: str
    kind: str
    entity: str
    created: datetime
    topic_key: str
    value: bytes
    headers: Mapping[str, str]
    request: str
    idempotency_key: str | None = None
    ends: int = 0
    position: tuple[int, int] | None = None
    delivery: Delivery = "open"
    server: str = ""


class Backlog(NamedTuple):
    """Number of commands that are not in the log yet, and the time at which the oldest of them came."""

    rows: int
    oldest: datetime | None


class Outbox(Protocol):
    """Commands that the API has accepted and whose effect is not visible yet.

    Rows that one process adds, and what it notes of them, become durable in the order of its calls.
    Several API servers share it. Each row belongs to one of them, which holds a lease by the database's own clock; the
    rows of a server whose lease has ended, or whose process has, go to another one.
    """

    async def begin(self, server: str, seconds: float, process: str = "") -> None:
        """Register a server under an id that no other had, with a lease of so many seconds.

        `process` is the identity of its process (`steelyard.processes`): servers of the same machine take over at once
        from one that was killed.
        """
        ...

    async def renew(self, server: str, seconds: float) -> None:
        """Begin the lease again. One that has ended and was not taken over lives on; else raises LeaseEnded."""
        ...

    async def end(self, server: str) -> None:
        """Give the lease up: others take the rows over at once."""
        ...

    async def take_over(self, server: str) -> Sequence[OutboxRow]:
        """Give the rows of servers whose leases have ended, and those without a server, to `server`, each to one caller
        alone.

        Return those that the view does not show, in the order in which they came. Those that are open are lost then: a
        server that has ended answers nothing more. Raises LeaseEnded.
        """
        ...

    async def in_doubt(self, row: OutboxRow, *, window_seconds: float = 60) -> Mapping[str, int]:
        """Return the other servers at which requests equal to that of a new row are open, and their renewals so far.

        Whether the new request repeats one of those is not known yet. Once that server has renewed its lease again, its
        request was still in flight; once it was taken over, the request is lost.
        """
        ...

    async def add(
        self, row: OutboxRow, others: Sequence[OutboxRow] = (), *, window_seconds: float = 60
    ) -> OutboxRow:
        """The row, kept together with the others that its request brings about; or an earlier row, and nothing new.

        An earlier row is that of the same account and idempotency key, or without a key the oldest lost one of the
        same request younger than `window_seconds`. That one is open again: it belongs to this request and its server
        from now on, and the next one is not its repeat. Raises LeaseEnded for a row of a server that is not registered.
        """
        ...

    async def repeated(self, row: OutboxRow, *, window_seconds: float = 60) -> OutboxRow | None:
        """Return the earlier row that `add` would give for a row, open again as `add` opens it; add nothing.

        It is asked about a request that can no longer be carried out: what an equal one used is gone by now.
        """
        ...

    async def sent(self, command: str, position: tuple[int, int]) -> None: ...

    async def answered(self, commands: Sequence[str]) -> None: ...

    async def lost(self, commands: Sequence[str]) -> None:
        """Marks those of the commands that are open."""
        ...

    async def unsent(self, server: str | None = None) -> Sequence[OutboxRow]:
        """Return the commands of a server, or of all, that are not in the log yet, in the order in which they came."""
        ...

    async def backlog(self) -> Backlog:
        """Count the commands that are not in the log yet, without reading them."""
        ...

    async def visible(self, commands: Sequence[str]) -> None:
        """The view shows what these have brought about: no overlay is needed any more."""
        ...

    async def pending(self, kind: str | None = None, entity: str | None = None) -> Sequence[OutboxRow]:
        """Rows that the view does not show yet, in the order in which they came."""
        ...

    async def sent_rows(self) -> Sequence[OutboxRow]:
        """Rows that were sent, visible or not, in the order in which they came."""
        ...

    async def unsend(self, commands: Mapping[str, int]) -> None:
        """The log has lost these commands: they have no server, so that the next one sends them again.

        Each with the end of its partition: before it no server needs to search for the command.
        """
        ...

    async def expire(self, before: datetime) -> int:
        """Remove visible rows that came before then; of those with a key, which request it was stays known."""
        ...

    async def accepted(self, account: str, idempotency_key: str) -> OutboxRow | None:
        """The row of the first request with this key, until it expires."""
        ...

    async def expired_request(self, account: str, idempotency_key: str) -> str | None:
        """The `request` of the row that has expired, where the key was given with one."""
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

    async def of_other_keys(self, key: str, after: tuple[str, str], limit: int) -> Sequence[EncryptedSecret]:
        """Return secrets that other keys have encrypted, by account and name, from after that pair on."""
        ...

    async def reencrypt(self, old: EncryptedSecret, key: str, encrypted: bytes, fingerprint: str) -> bool:
        """Replace the bytes of a secret, and nothing else, unless it was changed since; return whether it was done."""
        ...


@dataclass(frozen=True)
class Claim:
    """Record of one entity for the orchestrator: its newest state, and whether it is admitted.

    `blocked` holds ids of what it waits for; `quantities` is its resource allocation.
    """

    id: str
    kind: str
    account: str
    status: str
    json: bytes
    position: tuple[int, int]
    created: datetime
    reason: str | None = None
    message: str | None = None
    blocked: frozenset[str] = frozenset()
    quantities: Mapping[str, str] = field(default_factory=dict)
    admitted_at: datetime | None = None
    released_at: datetime | None = None
    terminal_at: datetime | None = None


@dataclass(frozen=True)
class Forgotten:
    """Stands in place of a claim: the entity was forgotten by the command at this position."""

    position: tuple[int, int]


class Claims(Protocol):
    """The orchestrator's store: strongly consistent, and its consumer's positions lie in it."""

    async def positions(self, epoch: int) -> Mapping[int, int]: ...

    async def apply(
        self,
        changes: Sequence[tuple[str, Claim | Forgotten | None]],
        epoch: int,
        positions: Mapping[int, int],
        leader: int,
    ) -> None:
        """Store the newest states by id, and the positions, in one transaction; None removes the claim.

        A claim's admission is kept; a change that is not newer than the claim is left out. An entity that is unfinished
        again after its claim was released has been restored, and has to be admitted again. Raises Superseded if
        `leader` is not the newest epoch, as every write does: a late write would undo what the new leader has done.
        """
        ...

    async def get(self, id: str) -> Claim | None: ...

    async def unfinished(self) -> Sequence[Claim]:
        """Claims that are not released or not terminal, oldest first."""
        ...

    async def known(self, ids: Sequence[str]) -> Mapping[str, Claim]: ...

    async def quotas(self) -> Sequence[Claim]:
        """Return the claims of quotas that requests have set."""
        ...

    async def created(self, kinds: Collection[str], since: datetime) -> Sequence[Claim]:
        """Return the claims of kinds that were created from then on, oldest first, without their `json`."""
        ...

    async def counted(self, since: datetime | None = None) -> Sequence[Claim]:
        """Return what the check of an admission sees: claims that are held and, with `since`, admissions from then on.

        The claims come without their `json`.
        """
        ...

    async def admit(
        self,
        ids: Sequence[str],
        now: datetime,
        allowed: Callable[[str, Sequence[Claim]], str | None],
        leader: int,
        since: datetime | None = None,
    ) -> Mapping[str, str]:
        """Admit each entity, in order, if `allowed` finds no obstacle; all in one transaction with their checks.

        Return the reasons why entities were refused, by id; the others are admitted now or were before. An entity that
        is terminal or unknown is not admitted. `allowed` gets an id and the claims that are held, those among them that
        were admitted just before. With `since` it also gets every admission from then on, released ones and those of
        restored or forgotten entities included, because limits on rates count them. All of these claims come without
        their `json`. They are read once, however many entities there are. Raises Superseded, and what `allowed` raises;
        nothing is admitted then.
        """
        ...

    async def release(self, id: str, now: datetime, leader: int) -> None:
        """Releases the claims of entities that have ended. Does nothing to any other. Raises Superseded."""
        ...

    async def lead(self, owner: str, now: datetime) -> int:
        """A new leader's epoch, greater than any before."""
        ...
