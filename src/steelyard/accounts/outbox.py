"""The protocol of the outbox: commands that the API has accepted, and whose effect is not visible yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

Delivery = Literal["open", "answered", "lost"]
"""State of the answer to the request that led to a command.

`open`: the request is in flight, as far as is known. `answered`: its answer was handed to its connection. `lost`:
the connection broke, or the process ended, before that; the same request again is its repeat.
"""


@dataclass(frozen=True)
class OutboxRow:
    """A command that the API has accepted.

    `request` is the digest of token, route and body, empty where the command only accompanies another one; `ends` are
    the log's ends of the entity's partition before it was sent, so that a server that starts again can search whether
    it was. `position` is where it lies in the log. `server` is the API server that sends and follows it, and whose
    connection waits for the answer; empty where it has no server.
    """

    command: str
    account: str
    kind: str
    entity: str
    created: datetime
    topic_key: str
    value: bytes
    headers: Mapping[str, str]
    request: str
    idempotency_key: str | None = None
    ends: int = 0
    position: tuple[int, int] | None = None
    delivery: Delivery = "open"
    server: str = ""


class Backlog(NamedTuple):
    """Number of commands that are not in the log yet, and the time at which the oldest of them came."""

    rows: int
    oldest: datetime | None


class Outbox(Protocol):
    """Commands that the API has accepted and whose effect is not visible yet.

    Rows that one process adds, and what it notes of them, become durable in the order of its calls.
    Several API servers share it. Each row belongs to one of them, which holds a lease by the database's own clock; the
    rows of a server whose lease has ended, or whose process has, go to another one.
    """

    async def begin(self, server: str, seconds: float, process: str = "") -> None:
        """Register a server under an id that no other had, with a lease of so many seconds.

        `process` is the identity of its process (`steelyard.engines.processes`): servers of the same machine take over
        at once from one that was killed.
        """
        ...

    async def renew(self, server: str, seconds: float) -> None:
        """Begin the lease again. One that has ended and was not taken over lives on; else raises LeaseEnded."""
        ...

    async def end(self, server: str) -> None:
        """Give the lease up: others take the rows over at once."""
        ...

    async def take_over(self, server: str) -> Sequence[OutboxRow]:
        """Give the rows of servers whose leases have ended, and those without a server, to `server`, each to one caller
        alone.

        Return those that the view does not show, in the order in which they came. Those that are open are lost then: a
        server that has ended answers nothing more. Raises LeaseEnded.
        """
        ...

    async def in_doubt(self, row: OutboxRow, *, window_seconds: float = 60) -> Mapping[str, int]:
        """Return the other servers at which requests equal to that of a new row are open, and their renewals so far.

        Whether the new request repeats one of those is not known yet. Once that server has renewed its lease again, its
        request was still in flight; once it was taken over, the request is lost.
        """
        ...

    async def add(
        self, row: OutboxRow, others: Sequence[OutboxRow] = (), *, window_seconds: float = 60
    ) -> OutboxRow:
        """The row, kept together with the others that its request brings about; or an earlier row, and nothing new.

        An earlier row is that of the same account and idempotency key, or without a key the oldest lost one of the
        same request younger than `window_seconds`. That one is open again: it belongs to this request and its server
        from now on, and the next one is not its repeat. Raises LeaseEnded for a row of a server that is not registered.
        """
        ...

    async def find_repeat(self, row: OutboxRow, *, window_seconds: float = 60) -> OutboxRow | None:
        """Return the earlier row that `add` would give for a row, open again as `add` opens it; add nothing.

        It is asked about a request that can no longer be carried out: what an equal one used is gone by now.
        """
        ...

    async def note_sent(self, command: str, position: tuple[int, int]) -> None: ...

    async def note_answered(self, commands: Sequence[str]) -> None: ...

    async def note_lost(self, commands: Sequence[str]) -> None:
        """Marks those of the commands that are open."""
        ...

    async def unsent(self, server: str | None = None) -> Sequence[OutboxRow]:
        """Return the commands of a server, or of all, that are not in the log yet, in the order in which they came."""
        ...

    async def backlog(self) -> Backlog:
        """Count the commands that are not in the log yet, without reading them."""
        ...

    async def visible(self, commands: Sequence[str]) -> None:
        """The view shows what these have brought about: no overlay is needed any more."""
        ...

    async def pending(self, kind: str | None = None, entity: str | None = None) -> Sequence[OutboxRow]:
        """Rows that the view does not show yet, in the order in which they came."""
        ...

    async def list_sent(self) -> Sequence[OutboxRow]:
        """Rows that were sent, visible or not, in the order in which they came."""
        ...

    async def unsend(self, commands: Mapping[str, int]) -> None:
        """The log has lost these commands: they have no server, so that the next one sends them again.

        Each with the end of its partition: before it no server needs to search for the command.
        """
        ...

    async def expire(self, before: datetime) -> int:
        """Remove visible rows that came before then; of those with a key, which request it was stays known."""
        ...

    async def find_accepted(self, account: str, idempotency_key: str) -> OutboxRow | None:
        """The row of the first request with this key, until it expires."""
        ...

    async def find_expired(self, account: str, idempotency_key: str) -> str | None:
        """The `request` of the row that has expired, where the key was given with one."""
        ...
