"""Whether the answer to one request can still reach its client.

The app makes one for each request. A create watches its connection from the moment at which its body has been read:
what it has accepted is noted as lost when the connection breaks before the answer is handed over, so that the same
request again is known as its repeat. An answer that was handed to the connection counts as delivered. No server learns
whether it arrives; a client that has to be sure sends an Idempotency-Key.
"""

import asyncio
from typing import Protocol

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send


class Deliveries(Protocol):
    """Keeps note of which commands were acknowledged to their clients. `Settling` is one."""

    def answered(self, command: str) -> None: ...

    def lost(self, command: str) -> None: ...


class Reply:
    """The answer to one request, until it is handed to its connection."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._commands: list[str] = []
        self._watch: asyncio.Task[None] | None = None
        self._handed_over = False
        self.broken = False

    def watch(self, receive: Receive) -> None:
        """Notice from now on when the connection breaks. The body has been read: nothing else may come."""
        self._watch = asyncio.create_task(self._until_disconnected(receive))

    def check_connected(self) -> None:
        """Raises ClientDisconnect: what nobody waits for any more is not accepted either."""
        if self.broken:
            raise ClientDisconnect

    def acknowledge(self, command: str) -> None:
        """The answer will say that this command was accepted."""
        self._commands.append(command)
        if self.broken:
            self._lose()

    async def deliver(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the response to the connection, and notes what it acknowledges as answered or lost."""

        async def forward(message: Message) -> None:
            # Before the last part and not after it: some servers report every end of a response as a disconnect.
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._handed_over = not self.broken
            await send(message)

        if self._commands:
            # What the server has noticed of the connection reaches the watching task within two rounds of the loop.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await response(scope, receive, forward)
        if self._handed_over:
            for command in self._commands:
                self._deliveries.answered(command)

    def fail(self) -> None:
        """The answer will be an error: to the client nothing was accepted, and the same request again is a repeat."""
        self._lose()

    def close(self) -> None:
        """End the watch on the connection; called when the request is over, however it ended."""
        if self._watch is not None:
            self._watch.cancel()
        if not self._handed_over:
            self._lose()

    async def _until_disconnected(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._handed_over:
            self.broken = True
            self._lose()

    def _lose(self) -> None:
        """Once for each command: by the next time it may be another request's, which has repeated this one."""
        commands, self._commands = self._commands, []
        for command in commands:
            self._deliveries.lost(command)
