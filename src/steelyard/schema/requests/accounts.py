"""Requests about accounts, their permissions and keys."""

from typing import Annotated

from pydantic import Field

from steelyard.schema.account import AccessGrant, Identity
from steelyard.schema.bounds import FEW
from steelyard.schema.requests.base import AccountName, End, Request


class AccountCreateRequest(Request):
    """Creates an account."""

    name: AccountName
    """Name of the account, which no other account may have."""
    identity: Identity = Field(default_factory=Identity)
    """The account's identities at other services."""


class AccountPermissionsSetRequest(Request):
    """Replaces the permissions of an account: the most that its keys may be granted."""

    permissions: Annotated[list[AccessGrant], FEW]
    """New permissions; they replace the old ones."""


class AccountTokenCreateRequest(Request):
    """Creates a key of an account."""

    grants: Annotated[list[AccessGrant], FEW]
    """Grants of the key; at most the account's permissions."""
    expires: End
    """Time at which the key expires."""
