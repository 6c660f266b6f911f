"""A receiver of webhooks, for tests: it answers as a test wants, and keeps what it was sent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from standardwebhooks import Webhook

Answer = Callable[[], web.Response]


@dataclass(frozen=True)
class Delivery:
    """One request, as the receiver got it."""

    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> BaseCloudEvent:
        """Event in the request, as the CloudEvents SDK reads it."""
        return from_structured_event(HTTPMessage(self.headers, self.body))

    def verify(self, secret: str) -> None:
        """Raise WebhookVerificationError unless the signature is right, as the library of Standard Webhooks says."""
        Webhook(secret).verify(self.body, self.headers)


@dataclass
class Receiver:
    """`answers` are the next answers, one after the other; after them every request is accepted."""

    url: str = ""
    deliveries: list[Delivery] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """Requests are answered while it is set."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.deliveries.append(Delivery(headers, await request.read()))
        self._changed.set()
        await self.open.wait()
        return self.answers.pop(0)() if self.answers else web.Response(status=204)

    async def until(self, count: int) -> None:
        """Wait for so many requests in all."""
        async with asyncio.timeout(60):
            while len(self.deliveries) < count:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def receiver(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Receiver]:
    """Serve a receiver; requests that it still holds are dropped in the end."""
    made = Receiver()
    made.open.set()
    application = web.Application()
    application.router.add_post("/hook", made.take)
    runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        made.url = f"http://{host}:{runner.addresses[0][1]}/hook"
        yield made
    finally:
        made.open.set()
        await runner.cleanup()
