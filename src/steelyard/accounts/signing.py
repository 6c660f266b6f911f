"""Signatures of tokens: EdDSA with the keys of the accounts database, named by `kid`. `tokens.py` signs and checks."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from steelyard.accounts.database import Accounts

ALGORITHM = "EdDSA"
_OPTIONS = {"verify_exp": False, "verify_iat": False, "require": ["jti", "sub", "exp"]}
"""Options of the decoder: the end of a token is compared with the caller's clock instead."""


class NotOurs(Exception):
    """We have not signed this; the message says what is wrong with it."""


class Signatures:
    """Signs with the newest key, which is made at first use, and knows the signatures of all."""

    def __init__(self, accounts: Accounts, new_id: Callable[[], str]) -> None:
        self._accounts = accounts
        self._new_id = new_id
        self._keys: dict[str, Ed25519PrivateKey] = {}

    async def sign(self, claims: Mapping[str, object], now: datetime) -> str:
        kid = await self._newest()
        if kid is None:
            await self._make(now, first=True)  # or another process, at this moment: its key is taken then
            kid = await self._newest()
        key = await self._key(kid or "")
        assert key is not None
        return jwt.encode(dict(claims), key, algorithm=ALGORITHM, headers={"kid": kid})

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token. Raises NotOurs."""
        try:
            key = await self._key(jwt.get_unverified_header(token).get("kid", ""))
            if key is None:
                raise NotOurs("it was signed with a key that is not ours")
            claims: dict[str, Any] = jwt.decode(
                token,
                key.public_key(),
                algorithms=[ALGORITHM],
                options=_OPTIONS,  # type: ignore[arg-type]
            )
        except jwt.InvalidSignatureError as error:
            raise NotOurs("its signature does not fit: it was changed, or not copied whole") from error
        except jwt.MissingRequiredClaimError as error:
            raise NotOurs(f"it does not say {error.claim}") from error
        except jwt.DecodeError as error:
            raise NotOurs("a token is three words joined by dots; was it copied whole?") from error
        except jwt.InvalidTokenError as error:
            raise NotOurs(str(error)) from error
        return claims

    async def first_key(self, now: datetime) -> bytes:
        """Return the first signing key, which is never removed; made where there is none yet."""
        if not await self._accounts.signing_keys():
            await self._make(now, first=True)
        pem, _ = next(iter((await self._accounts.signing_keys()).values()))
        return pem

    async def rotate(self, now: datetime) -> str:
        """A new key, whose `kid` is returned; what earlier ones have signed stays good."""
        return await self._make(now, first=False)

    async def _newest(self) -> str | None:
        keys = await self._accounts.signing_keys()
        return next((kid for kid, (_, newest) in keys.items() if newest), None)

    async def _key(self, kid: str) -> Ed25519PrivateKey | None:
        if kid not in self._keys:
            signing_key = (await self._accounts.signing_keys()).get(kid)
            if signing_key is None:
                return None
            key = load_pem_private_key(signing_key[0], None)
            assert isinstance(key, Ed25519PrivateKey)
            self._keys[kid] = key
        return self._keys[kid]

    async def _make(self, now: datetime, *, first: bool) -> str:
        kid = self._new_id()[:16]
        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        await self._accounts.add_signing_key(kid, pem, now, first=first)
        return kid
