"""Bearer tokens: JSON Web Tokens, each the visible half of a key. The database keeps a token's SHA-256 alone.

A token is as good as its key: revoked, it is refused at the next use, by every process. What it may do is what its
grants and, at that moment, the permissions of its account have in common; a session's token is good for its session
only. The API asks at every request, so the answer is remembered until an account or a key changes.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from steelyard.accounts.database import Accounts, NameTaken
from steelyard.accounts.grants import common, covers, scope
from steelyard.accounts.signing import NotOurs, Signatures
from steelyard_schema.account import (
    AccessGrant,
    Account,
    APIFunction,
    APIKey,
    APIResource,
    Identity,
    Scope,
)
from steelyard_schema.ids import random_id

REMEMBERED = 10_000
BOOTSTRAP_DAYS = 365
BOOTSTRAP = "bootstrap"
_GIVEN_DAYS, _GIVEN_LEFT_DAYS = 3650, 365
EVERYTHING = AccessGrant(resources=["*"], functions=["*"], accounts=["*"], entities=["*"])
_ACCOUNTS, _SESSIONS = "accounts/", "inferencesessions/"


class Unauthenticated(Exception):
    """The token is not valid; the message says why."""


@dataclass(frozen=True)
class Principal:
    """The caller of a request. `grants` is what the key may do now."""

    subject: str
    key_id: str
    account: Account | None
    grants: tuple[AccessGrant, ...]
    expires: datetime
    _scopes: dict[tuple[str, str], Scope] = field(default_factory=dict, compare=False, repr=False)
    """Scopes that were computed already, by resource and function: the API asks for one twice in every request."""

    def allows(self, resource: APIResource, function: APIFunction, account: str, entity: str) -> bool:
        return self.scope(resource, function).covers(account, entity)

    def scope(self, resource: APIResource, function: APIFunction) -> Scope:
        known = self._scopes.get((resource, function))
        if known is None:
            known = self._scopes[resource, function] = scope(self.grants, resource, function)
        return known

    def covers(self, requested: Sequence[AccessGrant]) -> bool:
        return covers(self.grants, requested)


class Tokens:
    """Makes and checks tokens, for one process."""

    def __init__(
        self,
        accounts: Accounts,
        remembered: int = REMEMBERED,
        new_id: Callable[[], str] = random_id,
        given: str = "",
    ) -> None:
        """`given` is the first administrator's token where it was chosen (`admit`): only that one need not be ours."""
        self._accounts = accounts
        self._given = _digest(given) if given else None
        self._new_id = new_id
        self._remembered = remembered
        self._signatures = Signatures(accounts, new_id)
        self._known: dict[bytes, Principal] = {}
        self._version = -1

    async def mint(
        self,
        account: Account | None,
        subject: str,
        grants: Sequence[AccessGrant],
        expires: datetime,
        now: datetime,
        *,
        purpose: str | None = None,
        most: int | None = None,
    ) -> str:
        """A new token: of an account, or of a session, which has no account.

        With a `purpose` it takes the place of the account's earlier token of that purpose. Raises NoSuchAccount, and
        TooManyKeys if the account or the session would have more than `most` valid tokens.
        """
        if account is None and not subject.startswith(_SESSIONS):
            raise ValueError(f"subject: {subject!r} should be {_SESSIONS}<id>, as there is no account")
        key = APIKey(
            id=self._new_id(),
            subject=subject,
            created=now.replace(microsecond=0),
            # JWT's times are whole seconds: with more, token and key would disagree about the end.
            expires=expires.astimezone(UTC).replace(microsecond=0),
            grants=list(grants),
            permissionsVersion=account.auth.permissionsVersion if account else None,
        )
        token = await self._signatures.sign(_claims(key), now)
        if account is None:
            await self._accounts.add_session_key(key, _digest(token).hex(), most=most)
        else:
            await self._accounts.add_key(account.id or "", key, _digest(token).hex(), purpose, most=most)
        return token

    async def authenticate(self, token: str, now: datetime) -> Principal:
        """Return the principal of a token. Raises Unauthenticated."""
        version = self._accounts.version()
        # Any process may have revoked a key: after every change of the accounts, all is asked again.
        if version != self._version:
            self._known, self._version = {}, version
        known = self._known  # what is found out below belongs to this version, whatever happens meanwhile
        digest = _digest(token)
        principal = known.get(digest)
        if principal is None:
            principal = await self._authenticate(token, digest)
            if len(known) >= self._remembered:
                # Bounded without a list of uses: a process that has seen so many tokens looks each up once more.
                known.clear()
            known[digest] = principal
        if principal.expires <= now:
            raise Unauthenticated(f"the token expired at {principal.expires.isoformat()}")
        return principal

    async def rotate(self, now: datetime) -> str:
        """A new signing key, whose id is returned; tokens of earlier ones stay good."""
        return await self._signatures.rotate(now)

    async def _authenticate(self, token: str, digest: bytes) -> Principal:
        if digest == self._given:
            id = _key_id(digest)
        else:
            try:
                id = str((await self._signatures.claims(token))["jti"])
            except NotOurs as error:
                raise Unauthenticated(f"the token was not issued by this platform: {error}") from error
        stored = await self._accounts.key(id)
        # The digest too: a token that was signed again for the same key id is not the one that was given out.
        if stored is None or stored[1] != digest.hex():
            raise Unauthenticated("the token was revoked")
        key, _, account = stored
        # A session's key has no account; an account's key without one must not pass for a session's.
        if account is None and key.subject.startswith(_ACCOUNTS):
            raise Unauthenticated("the token's account is gone")
        if account is not None and account.status != "Active":
            raise Unauthenticated(f"account {account.name} is {account.status}")
        # A key is worth no more than its account is now: grants that the account lost since are gone from its keys.
        if account is not None:
            permissions: Sequence[AccessGrant] = account.auth.permissions
        else:
            session = key.subject.removeprefix(_SESSIONS)
            permissions = [AccessGrant(resources=["inferencesessions"], functions=["*"], entities=[session])]
        grants = common(key.grants, permissions)
        return Principal(key.subject, key.id, account, tuple(grants), key.expires)


def _claims(key: APIKey) -> dict[str, object]:
    return {
        "jti": key.id,
        "sub": key.subject,
        "iat": int(key.created.timestamp()),
        "exp": int(key.expires.timestamp()),
        "grants": [grant.model_dump(mode="json") for grant in key.grants],
    }


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _key_id(digest: bytes) -> str:
    """Return the id of the key of a chosen token: all processes find the same key."""
    return hashlib.sha256(b"given" + digest).hexdigest()[:32]


async def bootstrap(accounts: Accounts, name: str, now: datetime) -> str:
    """A token of the first administrator, whose account is made where it is not there yet.

    A person who can open the database is let in, also after the account was suspended or has lost its permissions.
    Each call makes a token in place of that of the call before, which is refused from then on: none has to be kept,
    and a lost one does no harm. The account's other tokens stay. Of several calls at once the last one's token is
    good.
    """
    account = await _administrator(accounts, name, now)
    expires = now + timedelta(days=BOOTSTRAP_DAYS)
    subject = f"{_ACCOUNTS}{account.id}"
    return await Tokens(accounts).mint(account, subject, [EVERYTHING], expires, now, purpose=BOOTSTRAP)


async def admit(accounts: Accounts, name: str, token: str, now: datetime) -> None:
    """Let the first administrator in with a token that was chosen, such as that of a Kubernetes Secret.

    Its key has the purpose that `bootstrap` has: a token of before is refused from now on. Each process of an
    installation calls this at its start, and the first makes the key; one whose key was revoked is good again.
    """
    account = await _administrator(accounts, name, now)
    digest = _digest(token)
    stored = await accounts.key(_key_id(digest))
    if stored is not None and stored[0].expires - now > timedelta(days=_GIVEN_LEFT_DAYS):
        return
    key = APIKey(
        id=_key_id(digest),
        subject=f"{_ACCOUNTS}{account.id}",
        created=now.replace(microsecond=0),
        expires=(now + timedelta(days=_GIVEN_DAYS)).replace(microsecond=0),
        grants=[EVERYTHING],
        permissionsVersion=account.auth.permissionsVersion,
    )
    await accounts.add_key(account.id or "", key, digest.hex(), BOOTSTRAP)


async def _administrator(accounts: Accounts, name: str, now: datetime) -> Account:
    account = await accounts.find_by_name(name)
    if account is None:
        try:
            return await accounts.create(name, Identity(), now, [EVERYTHING])
        except NameTaken:  # by another process, just now
            account = await accounts.find_by_name(name)
    assert account is not None
    id = account.id or ""
    if account.status != "Active":
        account = await accounts.set_status(id, "Active", "ReactivateCommand", now)
    # A person who can open the database file may do everything anyway: no administrator is locked out of the platform.
    if EVERYTHING not in account.auth.permissions:
        account = await accounts.set_permissions(id, [*account.auth.permissions, EVERYTHING])
    return account
