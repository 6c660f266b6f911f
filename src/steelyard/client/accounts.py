"""The collection `client.accounts`."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import Any

from steelyard.client.async_collections import document_by
from steelyard.client.calls import Calls, Grants
from steelyard.client.transport import AsyncTransport, Transport
from steelyard_schema.account import AccessGrant, Account, APIKey
from steelyard_schema.answers import Status


class Accounts:
    """Accounts that own entities, and their permissions."""

    def __init__(self, calls: Calls[Account], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def create(self, name: str, *, idempotency_key: str | None = None) -> Account:
        """Create an account. Raises Conflict if another account has the name.

        With an `idempotency_key`, a repeat returns the same account.
        """
        return self._transport.send(self._calls.create_account({"name": name}, idempotency_key))

    def get(self, id: str) -> Account:
        """Return the account. Raises NotFound."""
        return self._transport.send(self._calls.get(id))

    def query(self, **filters: Any) -> Iterator[Account]:
        """Yield the accounts that the token may see; `name` selects one, `labels` those with these labels."""
        yield from self._transport.send(self._calls.all(filters))

    def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        """Set labels; None removes a label, others stay."""
        self._transport.send(self._calls.label(id, labels))

    def delete(self, id: str) -> Status:
        """Delete the account and end its keys; the entities that it owns stay."""
        return self._transport.send(self._calls.delete(id))

    def suspend(self, id: str) -> Status:
        """Suspend the account: its keys do not count until it is reactivated. Its workflows go on."""
        return self._transport.send(self._calls.suspend(id))

    def reactivate(self, id: str) -> Status:
        """Reactivate the account: its keys count again."""
        return self._transport.send(self._calls.reactivate(id))

    def rotate_signing_key(self) -> str:
        """Sign tokens with a new key from now on, and return its id. Earlier tokens count until they expire."""
        return self._transport.send(self._calls.rotate_signing_key())

    def permissions(self, id: str) -> list[AccessGrant]:
        """Return the permissions of the account: the most that its keys may be granted."""
        return self._transport.send(self._calls.permissions(id))

    def set_permissions(self, id: str, permissions: Grants) -> list[AccessGrant]:
        """Replace the permissions of the account, and return the new ones."""
        return self._transport.send(self._calls.set_permissions(id, permissions))

    def create_token(self, id: str, *, grants: Grants, expires: datetime) -> str:
        """Create a token, which is shown this once. Raises Forbidden for grants that the account lacks."""
        return self._transport.send(self._calls.create_token(id, grants, expires))

    def tokens(self, id: str) -> list[APIKey]:
        """Return the keys of the account."""
        return self._transport.send(self._calls.tokens(id))

    def revoke(self, id: str, key: str | None = None) -> None:
        """End one key, or all keys."""
        self._transport.send(self._calls.revoke(id, key))


@document_by(Accounts)
class AsyncAccounts:
    """Accounts that own entities, and their permissions."""

    def __init__(self, calls: Calls[Account], transport: AsyncTransport) -> None:
        self._calls, self._transport = calls, transport

    async def create(self, name: str, *, idempotency_key: str | None = None) -> Account:
        return await self._transport.send(self._calls.create_account({"name": name}, idempotency_key))

    async def get(self, id: str) -> Account:
        return await self._transport.send(self._calls.get(id))

    async def query(self, **filters: Any) -> AsyncIterator[Account]:
        for account in await self._transport.send(self._calls.all(filters)):
            yield account

    async def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        await self._transport.send(self._calls.label(id, labels))

    async def delete(self, id: str) -> Status:
        return await self._transport.send(self._calls.delete(id))

    async def suspend(self, id: str) -> Status:
        return await self._transport.send(self._calls.suspend(id))

    async def reactivate(self, id: str) -> Status:
        return await self._transport.send(self._calls.reactivate(id))

    async def rotate_signing_key(self) -> str:
        return await self._transport.send(self._calls.rotate_signing_key())

    async def permissions(self, id: str) -> list[AccessGrant]:
        return await self._transport.send(self._calls.permissions(id))

    async def set_permissions(self, id: str, permissions: Grants) -> list[AccessGrant]:
        return await self._transport.send(self._calls.set_permissions(id, permissions))

    async def create_token(self, id: str, *, grants: Grants, expires: datetime) -> str:
        return await self._transport.send(self._calls.create_token(id, grants, expires))

    async def tokens(self, id: str) -> list[APIKey]:
        return await self._transport.send(self._calls.tokens(id))

    async def revoke(self, id: str, key: str | None = None) -> None:
        await self._transport.send(self._calls.revoke(id, key))
