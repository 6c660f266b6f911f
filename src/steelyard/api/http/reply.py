"""Notes whether the answer to a request was handed to its client.

A create watches its connection once its body has been read. If the connection breaks before the answer is handed over,
the commands that the request accepted are noted as lost: the same request again is then known as a repeat. An answer
that was handed to the connection counts as delivered. Whether it arrives no server can know; a client that has to be
sure sends an Idempotency-Key.
"""

import asyncio
from typing import Protocol

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send


class Deliveries(Protocol):
    """Keeps the notes: `OutboxRelay` does."""

    def note_answer(self, command: str) -> None:
        """Note that the client has the answer to a command."""

    def note_loss(self, command: str) -> None:
        """Note that the client has no answer to a command."""


class Reply:
    """Answer to one request, until it is handed to its connection."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._commands: list[str] = []
        self._watch: asyncio.Task[None] | None = None
        self._handed_over = False
        self.broken = False

    def watch(self, receive: Receive) -> None:
        """Watch for a broken connection. Call it when the body has been read: nothing else may come then."""
        # ASGI reports a broken connection only to a pending receive, so a task has to receive all the time.
        self._watch = asyncio.create_task(self._until_disconnected(receive))

    def check_connected(self) -> None:
        """Raise ClientDisconnect if the client is gone: a request without a client is not accepted."""
        if self.broken:
            raise ClientDisconnect

    def acknowledge(self, command: str) -> None:
        """Add a command whose acceptance the answer will report."""
        self._commands.append(command)
        if self.broken:
            self._lose()

    async def deliver(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and note the commands that it acknowledges as answered or lost."""

        async def forward(message: Message) -> None:
            # Decided before the last part is sent: some servers report the end of every response as a disconnect.
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._handed_over = not self.broken
            await send(message)

        if self._commands:
            # A disconnect that the server has noticed reaches the watching task within two rounds of the event loop.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await response(scope, receive, forward)
        # Noted after the last part was sent, so that a failure while sending counts as lost.
        if self._handed_over:
            for command in self._commands:
                self._deliveries.note_answer(command)

    def fail(self) -> None:
        """Note the commands as lost, since the answer is an error: the same request again is a repeat."""
        self._lose()

    def close(self) -> None:
        """End the watch; called when the request is over, however it ended."""
        # A task that still waits in `receive` would keep the request alive for ever.
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
        """Note the commands as lost, once: later a command may be another request's, which has repeated this one."""
        commands, self._commands = self._commands, []
        for command in commands:
            self._deliveries.note_loss(command)
