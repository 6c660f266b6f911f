"""Bodies of requests on their way in: how many bytes may be held at once, how long they may take, whose turn it is."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.core import MAX_BODY
from steelyard_local_kubernetes.apiserver.errors import Refusal

BODY_SECONDS = 60.0
"""Time in which a request's body has to arrive."""
HELD_BYTES, HELD_OF_ONE = 32 << 20, 8 << 20
"""Most bytes of all bodies that are being read or worked on, and of one account's."""
SENT_BYTES, SENT_OF_ONE = 48 << 20, 24 << 20
"""Most bytes of all large answers that are being sent, and of one account's; a single answer may be larger."""
REQUESTS_OF_ONE = 512
"""Most requests of one account in progress, watches among them."""
LARGE = 64 << 10
"""Bytes from which on a body takes its turn: it is read in one step, during which nobody is answered."""
_TURNS = 10  # of the event loop, which a caller's short request needs from its arrival to its answer


class Intake:
    """Shares of what requests in progress hold. Administrators, as the platform's own parts are, have no share."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        self._turn = asyncio.Lock()

    @contextmanager
    def admit(self, user: User) -> Iterator["Share"]:
        """Give a request its share until the block is left. Raises Refusal where the account has too many."""
        name = "" if user.is_master else f"account {user.name}"
        if name and self._requests[name] >= REQUESTS_OF_ONE:
            raise _busy(f"{user.name} has {REQUESTS_OF_ONE} requests in progress, the most that are taken")
        self._requests[name] += 1
        share = Share(self._held, name)
        try:
            yield share
        finally:
            share.end()
            self._requests[name] -= 1
            if not self._requests[name]:
                del self._requests[name]

    @contextmanager
    def sending(self, user: User, size: int) -> Iterator[None]:
        """Count a large answer until the block is left: a caller may take it slowly. Raises Refusal."""
        name = "" if user.is_master else f"account {user.name}"
        if name and self._sent[name] and self._sent[name] + size > SENT_OF_ONE:
            raise _busy(f"{user.name} is sent answers of more than {SENT_OF_ONE} bytes at once")
        if name and self._sent.total() and self._sent.total() + size > SENT_BYTES:
            raise _busy(f"answers of more than {SENT_BYTES} bytes are being sent at once")
        self._sent[name] += size if name else 0
        try:
            yield
        finally:
            self._sent[name] -= size if name else 0
            if not self._sent[name]:
                del self._sent[name]

    async def turn(self, size: int) -> None:
        """Wait until a body of this size may be worked on: between two large ones others are answered."""
        if size <= LARGE:
            return
        async with self._turn:
            for _ in range(_TURNS):
                await asyncio.sleep(0)


class Share:
    """Bytes that one request holds."""

    def __init__(self, held: Counter[str], name: str) -> None:
        self._counts, self._name, self._bytes = held, name, 0

    def take(self, size: int) -> None:
        """Raises Refusal where too much is held."""
        self._bytes += size
        self._counts[self._name] += size
        if self._name and (self._counts[self._name] > HELD_OF_ONE or sum(self._counts.values()) > HELD_BYTES):
            raise _busy(
                f"the bodies of requests in progress hold more than {HELD_OF_ONE} bytes of one account"
            )

    def end(self) -> None:
        self._counts[self._name] -= self._bytes
        if not self._counts[self._name]:
            del self._counts[self._name]
        self._bytes = 0


async def read_body(request: web.BaseRequest, share: Share) -> bytes:
    """Read the body. Raises Refusal. aiohttp's own `read` ends at 1 MiB, with a page of plain text."""
    if (packed := request.headers.get("Content-Encoding", "identity")) != "identity":
        raise Refusal(
            415, "UnsupportedMediaType", f"a body is taken as it is, not in the encoding {packed[:100]!r}"
        )
    # A declared length is refused before anything is read; a body in chunks declares none, and is counted below.
    if request.content_length is not None and request.content_length > MAX_BODY:
        raise _too_large()
    if not request.can_read_body:
        return b""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                share.take(len(piece))
                body += piece
                if len(body) > MAX_BODY:
                    raise _too_large()
    except TimeoutError:
        text = f"the body of a request has to arrive within {BODY_SECONDS:g} seconds"
        raise Refusal(408, "Timeout", text) from None
    return bytes(body)


def _too_large() -> Refusal:
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY}")


def _busy(text: str) -> Refusal:
    return Refusal(429, "TooManyRequests", f"{text}: please try again later", {"retryAfterSeconds": 1})
