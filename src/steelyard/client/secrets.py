"""Secrets of accounts: set, listed without their values, deleted."""

from collections.abc import Sequence

from steelyard.client.async_collections import document_by
from steelyard.client.calls import Calls
from steelyard.client.transport import AsyncTransport, Transport
from steelyard_schema.account import Account
from steelyard_schema.secrets import Secret


class Secrets:
    """Tokens, passwords and keys that workflows of an account need. The platform never answers a value."""

    def __init__(self, calls: Calls[Account], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def set(self, account: str, name: str, value: str) -> Secret:
        """Make the secret or replace its value, which the next workflow uses. Raises Invalid, Conflict, Forbidden.

        `account` is the one that entities name. Create requests refer to the secret by its name, such as
        `secrets={"source": "hub-token"}` of a model.
        """
        return self._transport.send(self._calls.set_secret(account, name, value))

    def list(self, account: str) -> Sequence[Secret]:
        """Return the account's secrets, by name: times and fingerprints, no values."""
        return self._transport.send(self._calls.secrets(account))

    def delete(self, account: str, name: str) -> None:
        """Delete the secret: workflows that need it wait from now on. Raises NotFound."""
        self._transport.send(self._calls.delete_secret(account, name))


@document_by(Secrets)
class AsyncSecrets:
    """Tokens, passwords and keys that workflows of an account need. The platform never answers a value."""

    def __init__(self, calls: Calls[Account], transport: AsyncTransport) -> None:
        self._calls, self._transport = calls, transport

    async def set(self, account: str, name: str, value: str) -> Secret:
        return await self._transport.send(self._calls.set_secret(account, name, value))

    async def list(self, account: str) -> Sequence[Secret]:
        return await self._transport.send(self._calls.secrets(account))

    async def delete(self, account: str, name: str) -> None:
        await self._transport.send(self._calls.delete_secret(account, name))
