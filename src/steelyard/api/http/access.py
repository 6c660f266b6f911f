"""Checks of routes, and rights of callers: a bearer token becomes an `Access`.

The token's grants count; of an account's token, only as far as the account's permissions reach now.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steelyard.accounts.grants import covers
from steelyard.accounts.tokens import Principal, Tokens, Unauthenticated
from steelyard.api.http.errors import NoToken
from steelyard_schema.account import AccessGrant, APIFunction, APIResource, Scope


@dataclass(frozen=True)
class Grant:
    """The token needs this function of this resource; the handler checks for which entities."""

    resource: APIResource
    function: APIFunction
    published: bool = False
    """True if the function may also be called for public entities of other accounts."""
    alternative: APIFunction | None = None
    """Another function that is enough, such as the one of a session's own token."""

    @property
    def functions(self) -> tuple[APIFunction, ...]:
        """Functions; the token needs one of them."""
        return (self.function,) if self.alternative is None else (self.function, self.alternative)


@dataclass(frozen=True)
class Administrator:
    """The token needs every function of every resource and account."""


@dataclass(frozen=True)
class SignedUrl:
    """The URL has a signature, which the handler verifies; no token is needed."""


@dataclass(frozen=True)
class Public:
    """Any caller may use the route: its answer reveals nothing about an account."""


@dataclass(frozen=True)
class AnyPrincipal:
    """The token has to count, and needs no grant."""


Check = Grant | Administrator | AnyPrincipal | SignedUrl | Public
"""The check of a route: who may call it."""


@dataclass(frozen=True)
class Access:
    """Rights of one caller."""

    principal: Principal | None
    """Owner of the token; absent where the route needs no token."""

    @property
    def actor(self) -> str:
        """Subject of the token, such as `accounts/<id>`."""
        return self._require_principal.subject

    @property
    def token(self) -> str:
        """Id of the token."""
        return self._require_principal.key_id

    @property
    def administrator(self) -> bool:
        """Return whether the token has every function of every resource and account."""
        return self.covers([AccessGrant(resources=["*"], functions=["*"], accounts=["*"], entities=["*"])])

    @property
    def _require_principal(self) -> Principal:
        if self.principal is None:
            raise NoToken("this takes a bearer token")
        return self.principal

    def reach(self, grant: Grant) -> Scope:
        """Return the entities for which the caller has what the route needs."""
        scope = self.scope(grant.resource, grant.function)
        if grant.alternative is None:
            return scope
        other = self.scope(grant.resource, grant.alternative)
        return Scope(scope.accounts | other.accounts, scope.entities | other.entities)

    def allows(self, resource: APIResource, function: APIFunction, account: str, entity: str) -> bool:
        return self.scope(resource, function).covers(account, entity)

    def everywhere(self, resource: APIResource, function: APIFunction) -> bool:
        return self.scope(resource, function).everything

    def scope(self, resource: APIResource, function: APIFunction) -> Scope:
        """Return the entities for which the caller may call the function."""
        return self._require_principal.scope(resource, function)

    def covers(self, grants: Sequence[AccessGrant]) -> bool:
        """Return whether the caller has all of these grants."""
        return covers(self._require_principal.grants, grants)


async def authenticate(
    tokens: Tokens, headers: Sequence[tuple[bytes, bytes]], now: datetime, *, basic: bool = False
) -> Access:
    """Return the rights of a request's bearer token, from its raw headers. Raises NoToken.

    With `basic`, the token may also be the password of a user of any name, as clients of registries send it.
    """
    form = "'Bearer' and a token" + (", or 'Basic' with a token as the password" if basic else "")
    token = read_token(headers, basic=basic)
    if not token:
        missing = "should be" if token == "" else "is missing; it should be"
        raise NoToken(f"Authorization: {missing} {form}")
    try:
        return Access(await tokens.authenticate(token, now))
    except Unauthenticated as error:
        raise NoToken(str(error)) from error


def read_token(headers: Sequence[tuple[bytes, bytes]], *, basic: bool = True) -> str | None:
    """Return the token of a request; empty if it has another form, None if there is none."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            if basic and scheme.lower() == "basic":
                return _password(token)
            return token if scheme.lower() == "bearer" else ""
    return None


def _password(credentials: str) -> str:
    """Return the password of `Basic` credentials; empty if they cannot be read."""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
