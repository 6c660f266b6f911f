"""Webhooks of accounts: addresses that are notified when an entity has ended."""

from collections.abc import Sequence
from urllib.parse import quote

from steelyard.client.async_collections import document_by
from steelyard.client.call import Call
from steelyard.client.calls import key_header, post
from steelyard.client.transport import AsyncTransport, Transport
from steelyard_schema.webhook import Webhook, WebhookAndSecret


def _path(account: str, *more: str) -> str:
    return "/".join(
        ["/accounts", quote(account, safe=""), "webhooks", *(quote(part, safe="") for part in more)]
    )


def _create(account: str, url: str, kinds: Sequence[str], statuses: Sequence[str]) -> Call[WebhookAndSecret]:
    """Describe the registration. It is not repeated: a second webhook would get every event as well."""
    body = {"url": url, "kinds": list(kinds), "statuses": list(statuses)}
    return post(_path(account), WebhookAndSecret, body, repeatable=False)


def _all(account: str) -> Call[list[Webhook]]:
    return Call("GET", _path(account), list[Webhook])


def _get(account: str, id: str) -> Call[Webhook]:
    return Call("GET", _path(account, id), Webhook)


def _delete(account: str, id: str) -> Call[None]:
    return Call("DELETE", _path(account, id), type(None))


def _enable(account: str, id: str) -> Call[Webhook]:
    return Call("PUT", _path(account, id, "enable"), Webhook, headers=key_header())


def _rotate(account: str, id: str) -> Call[WebhookAndSecret]:
    """Describe the request for the next secret. It is not repeated: the secret of the first answer would be lost."""
    return post(_path(account, id, "secret"), WebhookAndSecret, repeatable=False)


def _test(account: str, id: str) -> Call[str]:
    return post(_path(account, id, "test"), str)


class Webhooks:
    """Addresses of accounts that are notified when an entity has ended."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self, account: str, url: str, *, kinds: Sequence[str] = (), statuses: Sequence[str] = ()
    ) -> WebhookAndSecret:
        """Register an address of an account, which is given by its id. The secret is shown this once.

        Without `kinds` and `statuses`, events are sent of everything that ends and that the account may see. Raises
        Invalid for an address that the platform does not allow, Conflict if the account has too many webhooks.
        """
        return self._transport.send(_create(account, url, kinds, statuses))

    def list(self, account: str) -> Sequence[Webhook]:
        """Return the account's webhooks, oldest first."""
        return self._transport.send(_all(account))

    def get(self, account: str, id: str) -> Webhook:
        """Return a webhook: whether it works, and what waits for it. Raises NotFound."""
        return self._transport.send(_get(account, id))

    def delete(self, account: str, id: str) -> None:
        """Delete a webhook; what waits for it is dropped. Raises NotFound."""
        self._transport.send(_delete(account, id))

    def enable(self, account: str, id: str) -> Webhook:
        """Send to a webhook again that was disabled, or at once to one that rests. Raises NotFound."""
        return self._transport.send(_enable(account, id))

    def rotate_secret(self, account: str, id: str) -> WebhookAndSecret:
        """Return the webhook's next secret. For a day, events are signed with the last one too. Raises NotFound."""
        return self._transport.send(_rotate(account, id))

    def test(self, account: str, id: str) -> str:
        """Send a test event, and return its id. Raises NotFound, Conflict."""
        return self._transport.send(_test(account, id))


@document_by(Webhooks)
class AsyncWebhooks:
    """Addresses of accounts that are notified when an entity has ended."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self, account: str, url: str, *, kinds: Sequence[str] = (), statuses: Sequence[str] = ()
    ) -> WebhookAndSecret:
        return await self._transport.send(_create(account, url, kinds, statuses))

    async def list(self, account: str) -> Sequence[Webhook]:
        return await self._transport.send(_all(account))

    async def get(self, account: str, id: str) -> Webhook:
        return await self._transport.send(_get(account, id))

    async def delete(self, account: str, id: str) -> None:
        await self._transport.send(_delete(account, id))

    async def enable(self, account: str, id: str) -> Webhook:
        return await self._transport.send(_enable(account, id))

    async def rotate_secret(self, account: str, id: str) -> WebhookAndSecret:
        return await self._transport.send(_rotate(account, id))

    async def test(self, account: str, id: str) -> str:
        return await self._transport.send(_test(account, id))
