"""A webhook as it is registered: whose it is, where it leads, and which events it gets. Pure."""

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import orjson
from pydantic import TypeAdapter

from steelyard.accounts.grants import allows
from steelyard_schema.account import AccessGrant, Account, APIResource
from steelyard_schema.entities import PLURALS

_GRANTS = TypeAdapter(list[AccessGrant])


@dataclass(frozen=True)
class Event:
    """The end of an entity. `id` is the same whenever it is reported; `body` is the body of the request."""

    id: str
    kind: str
    account: str
    entity: str
    status: str
    time: float
    body: str


@dataclass(frozen=True)
class Registration:
    """The part of a webhook that never changes. `grants` are those of the token that has registered it."""

    url: str
    created: float
    grants: tuple[AccessGrant, ...]
    kinds: frozenset[str] = frozenset()
    statuses: frozenset[str] = frozenset()

    def to_json(self) -> str:
        """Return the JSON that the database keeps."""
        content = {
            "url": self.url,
            "created": self.created,
            "grants": _GRANTS.dump_python(list(self.grants), mode="json"),
            "kinds": sorted(self.kinds),
            "statuses": sorted(self.statuses),
        }
        return orjson.dumps(content).decode()

    @classmethod
    def from_json(cls, text: str) -> "Registration":
        """Return the registration that `stored` has written."""
        content = orjson.loads(text)
        grants = _GRANTS.validate_python(content["grants"])
        kinds, statuses = frozenset(content["kinds"]), frozenset(content["statuses"])
        return cls(content["url"], content["created"], tuple(grants), kinds, statuses)

    def wants(self, event: Event) -> bool:
        """Return whether an event is of the kinds and statuses that were asked for, and from after the registration."""
        kind = not self.kinds or event.kind in self.kinds
        status = not self.statuses or event.status in self.statuses
        return kind and status and event.time >= self.created

    def may_see(self, owner: Account | None, kind: str, account: str, entity: str) -> bool:
        """Return whether the owner may read the entity now, and the registering token might.

        An event about no entity has no kind; an active owner may see it.
        """
        if owner is None or owner.status != "Active":
            return False
        if not kind:
            return True
        resource = cast(APIResource, PLURALS[kind])
        both: tuple[Sequence[AccessGrant], ...] = (self.grants, owner.auth.permissions)
        return all(allows(grants, resource, "get", account, entity) for grants in both)


def signing_key(pem: bytes, webhook: str, generation: int) -> bytes:
    """Return the key that a webhook's events are signed with.

    It is derived from the platform's first signing key, which is never removed, and lies nowhere itself.
    """
    return hmac.digest(pem, f"webhook {webhook} {generation}".encode(), "sha256")


def format_secret(key: bytes) -> str:
    """Return a key in the form in which receivers are given it by Standard Webhooks."""
    return f"whsec_{base64.b64encode(key).decode()}"
