"""The lasting contents of an accounts database as plain values, by which an installation moves to another engine.

Accounts, keys (only the digests of their tokens are kept), the keys that sign tokens, the outbox, and webhooks.
Claims are not among them: the orchestrator reads them from the log again. Nor are secrets, which only the keys of the
installation decrypt.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from steelyard_common.types import Json

Kind = Literal["plain", "time", "bytes"]
COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    "accounts": dict.fromkeys(("id", "name", "json", "labels"), "plain"),
    "keys": {
        "id": "plain",
        "account": "plain",
        "digest": "plain",
        "purpose": "plain",
        "expires": "time",
        "json": "plain",
    },
    "signing_keys": {"kid": "plain", "pem": "bytes", "made": "time"},
    "account_requests": dict.fromkeys(("requester", "key", "request", "account"), "plain"),
    "outbox": {
        **dict.fromkeys(("command", "account", "kind", "entity"), "plain"),
        "created": "time",
        "topic_key": "plain",
        "value": "bytes",
        "headers": "bytes",
        **dict.fromkeys(
            ("request", "idempotency_key", "ends", "partition", "position", "delivery", "visible"), "plain"
        ),
    },
    "webhooks": dict.fromkeys(
        (
            "id",
            "account",
            "json",
            "status",
            "reason",
            "message",
            "generation",
            "rotated",
            "failures",
            "failing_since",
            "delivered",
            "dropped",
            "last_delivery",
        ),
        "plain",
    ),
    "webhook_deliveries": dict.fromkeys(
        ("hook", "event", "kind", "account", "entity", "body", "created", "attempts"), "plain"
    ),
    "webhook_reported": dict.fromkeys(("entity", "event", "ended"), "plain"),
    "outbox_keys": dict.fromkeys(("account", "idempotency_key", "request"), "plain"),
}
"""Tables and their columns. A time is an ISO 8601 text in UTC, bytes are base64."""

ADDED: Mapping[str, str] = {"labels": "{}"}
"""Values of columns that the rows of earlier versions lack."""

Contents = Mapping[str, Sequence[Json]]
"""Rows by table, each in the order in which they were written."""


class Transfer(Protocol):
    """Reader and writer of a whole database."""

    async def dump(self) -> Contents:
        """Read all rows, as of one moment."""
        ...

    async def load(self, contents: Contents) -> None:
        """Write all rows, in one transaction. Raises AccountsDatabaseError where the database has an account."""
        ...
