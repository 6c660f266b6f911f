"""Who asks, and what they may do: a bearer token becomes an `Access`.

What counts is the token's grants and, of an account's token, what the account may now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steelyard.accounts.grants import covers
from steelyard.accounts.tokens import Principal, Tokens, Unauthenticated
from steelyard.api.http.errors import NoToken
from steelyard.schema.account import AccessGrant, APIFunction, APIResource, Scope


@dataclass(frozen=True)
class Access:
    """What one caller may do; `principal` is absent where no token was asked for."""

    principal: Principal | None

    @property
    def actor(self) -> str:
        return self._known.subject

    @property
    def token(self) -> str:
        return self._known.key_id

    @property
    def administrator(self) -> bool:
        """Whether the caller may do everything to everybody."""
        return self.covers([AccessGrant(resources=["*"], functions=["*"], accounts=["*"], entities=["*"])])

    @property
    def _known(self) -> Principal:
        if self.principal is None:
            raise NoToken("this takes a bearer token")
        return self.principal

    def allows(self, resource: APIResource, function: APIFunction, account: str, entity: str) -> bool:
        return self.scope(resource, function).covers(account, entity)

    def everywhere(self, resource: APIResource, function: APIFunction) -> bool:
        return self.scope(resource, function).everything

    def scope(self, resource: APIResource, function: APIFunction) -> Scope:
        """The entities for which the caller may call the function."""
        return self._known.scope(resource, function)

    def covers(self, grants: Sequence[AccessGrant]) -> bool:
        """Whether the caller may do all of that."""
        return covers(self._known.grants, grants)


async def authenticate(tokens: Tokens, headers: Sequence[tuple[bytes, bytes]], now: datetime) -> Access:
    """Of the request's raw headers. Raises NoToken."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise NoToken("Authorization: should be 'Bearer' and a token")
            try:
                return Access(await tokens.authenticate(token, now))
            except Unauthenticated as error:
                raise NoToken(str(error)) from error
    raise NoToken("Authorization: is missing; it should be 'Bearer' and a token")
