"""Requests about accounts, their permissions, keys, secrets and webhooks."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from steelyard_schema.account import AccessGrant, Identity
from steelyard_schema.bounds import FEW, HttpUrl
from steelyard_schema.requests.base import AccountName, End, Request
from steelyard_schema.secrets import VALUE_BYTES
from steelyard_schema.status import KINDS
from steelyard_schema.webhook import ENDED, Kinds, Statuses


def _check_kinds(kinds: list[str]) -> list[str]:
    return _check_names(kinds, KINDS)


def _check_statuses(statuses: list[str]) -> list[str]:
    return _check_names(statuses, sorted(ENDED))


def _check_names(names: list[str], known: Sequence[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} should be one of {', '.join(known)}")
    return list(dict.fromkeys(names))


def _check_value(value: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("should be text in UTF-8") from None
    if not 1 <= size <= VALUE_BYTES:
        raise ValueError(f"should have 1 to {VALUE_BYTES} bytes, and has {size}")
    if "\0" in value:
        raise ValueError("should have no NUL")
    return value


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


class SecretSetRequest(Request):
    """Sets the value of a secret, which is made if it is not there."""

    # The value must not stand in an error, whichever code writes it down.
    model_config = ConfigDict(hide_input_in_errors=True)

    value: Annotated[
        str,
        AfterValidator(_check_value),
        # A text has no more characters than bytes.
        Field(repr=False, json_schema_extra={"writeOnly": True, "minLength": 1, "maxLength": VALUE_BYTES}),
    ]
    """Value of the secret, 1 to 32,768 bytes of UTF-8; no answer ever has it."""


class WebhookCreateRequest(Request):
    """Registers an address that is notified when an entity has ended."""

    url: HttpUrl
    """Address that events are sent to; the platform's setting egress.webhooks has to allow its host."""
    kinds: Annotated[Kinds, AfterValidator(_check_kinds)] = Field(default_factory=list)
    """Kinds of entities whose events are sent; empty for all."""
    statuses: Annotated[Statuses, AfterValidator(_check_statuses)] = Field(default_factory=list)
    """Statuses whose events are sent, such as Complete and Failed; empty for all in which an entity ends."""
