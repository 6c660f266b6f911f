"""Bearer tokens: JSON Web Tokens signed with EdDSA, each the visible half of a key in the accounts database.

A token is as good as its key: revoked, it is refused at the next use; what it may do is what its grants and, at that
moment, the permissions of its account have in common. The database keeps the SHA-256 of the token alone.
"""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from steelyard.accounts.ledger import Accounts, NameTaken
from steelyard.schema.account import AccessGrant, Account, APIKey, Identity

ALGORITHM = "EdDSA"
CACHED = 10_000
BOOTSTRAP_DAYS = 365
EVERYTHING = AccessGrant(resources=["*"], functions=["*"], accounts=["*"], entities=["*"])


class Unauthenticated(Exception):
    """The token is no good; the message says why."""


@dataclass(frozen=True)
class Principal:
    """Who asks. `grants` is what the key may do now."""

    subject: str
    key_id: str
    account: Account | None
    grants: tuple[AccessGrant, ...]
    expires: datetime


class Tokens:
    """Makes and checks tokens, for one process."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._known: dict[str, Principal] = {}
        self._version = -1
        self._keys: dict[str, Ed25519PrivateKey] = {}

    async def mint(
        self,
        account: Account | None,
        subject: str,
        grants: Sequence[AccessGrant],
        expires: datetime,
        now: datetime,
    ) -> str:
        """A new token; of an account, or of a session, which has none. Raises NoSuchAccount."""
        key = APIKey(
            id=uuid.uuid4().hex,
            subject=subject,
            created=now.replace(microsecond=0),
            expires=expires.astimezone(UTC).replace(microsecond=0),
            grants=list(grants),
            permissionsVersion=account.auth.permissionsVersion if account else None,
        )
        token = await self._signed(key, now)
        if account is None:
            await self._accounts.add_session_key(key, _digest(token))
        else:
            await self._accounts.add_key(account.id or "", key, _digest(token))
        return token

    async def authenticate(self, token: str, now: datetime) -> Principal:
        """Who the bearer is. Raises Unauthenticated."""
        version = self._accounts.version()
        if version != self._version:
            self._known.clear()
            self._version = version
        principal = self._known.get(token)
        if principal is None:
            principal = await self._checked(token)
            if len(self._known) >= CACHED:
                self._known.clear()
            self._known[token] = principal
        if principal.expires <= now:
            raise Unauthenticated(f"the token expired at {principal.expires.isoformat()}")
        return principal

    async def rotate(self, now: datetime) -> str:
        """A new signing key, whose id is returned; tokens of earlier ones stay good."""
        return await self._new_key(now, first=False)

    async def _checked(self, token: str) -> Principal:
        claims = await self._verified(token)
        found = await self._accounts.key(str(claims.get("jti", "")))
        if found is None or found[1] != _digest(token):
            raise Unauthenticated("the token was revoked")
        key, _, account = found
        if key.subject.startswith("accounts/") and account is None:
            raise Unauthenticated("the token's account is gone")
        if account is not None and account.status != "Active":
            raise Unauthenticated(f"account {account.name} is {account.status}")
        grants = key.grants if account is None else common(key.grants, account.auth.permissions)
        return Principal(key.subject, key.id, account, tuple(grants), key.expires)

    async def _verified(self, token: str) -> dict[str, Any]:
        """The claims of a token that is ours; its end is looked at by `authenticate`, with the caller's clock."""
        try:
            kid = jwt.get_unverified_header(token).get("kid", "")
            key = await self._key(kid)
            if key is None:
                raise Unauthenticated("the token was signed with a key that is not ours")
            options = {"verify_exp": False, "verify_iat": False, "require": ["jti", "sub", "exp"]}
            claims: dict[str, Any] = jwt.decode(
                token,
                key.public_key(),
                algorithms=[ALGORITHM],
                options=options,  # type: ignore[arg-type]
            )
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the token is none of ours: {error}") from error
        return claims

    async def _signed(self, key: APIKey, now: datetime) -> str:
        kid, secret = await self._newest(now)
        claims = {
            "jti": key.id,
            "sub": key.subject,
            "iat": int(key.created.timestamp()),
            "exp": int(key.expires.timestamp()),
            "grants": [each.model_dump(mode="json") for each in key.grants],
        }
        return jwt.encode(claims, secret, algorithm=ALGORITHM, headers={"kid": kid})

    async def _newest(self, now: datetime) -> tuple[str, Ed25519PrivateKey]:
        if not await self._accounts.signing_keys():
            await self._new_key(now, first=True)
        kid = next(kid for kid, (_, newest) in (await self._accounts.signing_keys()).items() if newest)
        key = await self._key(kid)
        assert key is not None
        return kid, key

    async def _key(self, kid: str) -> Ed25519PrivateKey | None:
        if kid not in self._keys:
            found = (await self._accounts.signing_keys()).get(kid)
            if found is None:
                return None
            key = load_pem_private_key(found[0], None)
            assert isinstance(key, Ed25519PrivateKey)
            self._keys[kid] = key
        return self._keys[kid]

    async def _new_key(self, now: datetime, *, first: bool) -> str:
        kid = uuid.uuid4().hex[:16]
        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        await self._accounts.add_signing_key(kid, pem, now, first=first)
        return kid


def common(grants: Sequence[AccessGrant], permissions: Sequence[AccessGrant]) -> list[AccessGrant]:
    """What both allow: the intersection of each grant with each permission, where there is any."""
    pairs = ((grant, permission) for grant in grants for permission in permissions)
    return [each for pair in pairs if (each := _both(*pair)) is not None]


def _both(grant: AccessGrant, permission: AccessGrant) -> AccessGrant | None:
    resources = _shared(grant.resources, permission.resources)
    functions = _shared(grant.functions, permission.functions)
    accounts = _shared(grant.accounts, permission.accounts)
    entities = _shared(grant.entities, permission.entities)
    # An account's permission for all of its entities holds for single ones of them too; whose they are, only the
    # question itself tells, so a grant of entities asks for a permission that names them or any.
    if not resources or not functions or not (accounts or entities):
        return None
    return AccessGrant.parse(
        {"resources": resources, "functions": functions, "accounts": accounts, "entities": entities}
    )


def _shared(left: Sequence[str], right: Sequence[str]) -> list[str]:
    if "*" in left:
        return list(right)
    return list(left) if "*" in right else [each for each in left if each in right]


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def bootstrap(accounts: Accounts, name: str, now: datetime) -> str:
    """A token of the first administrator, whose account is made where it is not there yet.

    Each call makes a key and revokes those of earlier calls: the token of the last `up` alone is good.
    """
    account = await accounts.named(name)
    if account is None:
        try:
            account = await accounts.create(name, Identity(), now)
        except NameTaken:  # by another process, just now
            account = await accounts.named(name)
    assert account is not None
    id = account.id or ""
    if EVERYTHING not in account.auth.permissions:
        account = await accounts.set_permissions(id, [EVERYTHING])
    earlier = [key.id for key in account.apiKeys]
    token = await Tokens(accounts).mint(
        account, f"accounts/{id}", [EVERYTHING], now + timedelta(days=BOOTSTRAP_DAYS), now
    )
    for key in earlier:
        await accounts.revoke(id, key)
    return token
