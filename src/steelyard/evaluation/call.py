"""One call of one replica: what is sent, and what can come of it.

Nothing here retries; an `Outcome` says what happened, and pool and engine decide what follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import aiohttp
from yarl import URL

from steelyard.discovery import CheckingConnector, ForeignSession, Verify
from steelyard.evaluation.retry import is_transient, retry_after

MAX_ANSWER_BYTES = 64 << 20
KEPT_BODY_BYTES = 4096
"""How much of a refused request's answer is kept with the row error."""

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "steelyard"}


class Fault(Enum):
    """What went wrong, as the retry rules need it."""

    UNREACHABLE = "Unreachable"
    """No connection: the replica is gone, nothing was sent."""
    TRANSIENT = "Transient"
    """Overload, a server error, a timeout, a lost connection: worth another try."""
    REFUSED = "Refused"
    """The replica understood the request and refuses it; it would do so again."""
    FOREIGN = "Foreign"
    """The address belongs to another session now."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A call without a usable answer."""

    fault: Fault
    message: str
    status: int | None = None
    body: bytes = b""
    retry_after: float = 0.0

    @property
    def overload(self) -> bool:
        """Whether the replica says that it gets too many calls."""
        return self.status == 429 or (self.status == 503 and self.retry_after > 0)


Outcome = bytes | Failure


def open_session(
    timeout: float,
    verify: Verify | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    host: str | None = None,
) -> aiohttp.ClientSession:
    """The connection pool of one replica. Its calls get `timeout` seconds each, from when they are sent.

    With `host`, its connections go to that address whatever name the URL has.
    """
    return aiohttp.ClientSession(
        connector=CheckingConnector(verify, host),
        timeout=aiohttp.ClientTimeout(total=timeout),
        headers={**_HEADERS, **(headers or {})},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=1 << 18,
    )


async def call(session: aiohttp.ClientSession, url: URL, body: bytes) -> Outcome:
    """POST `body`; the answer's bytes, or what went wrong."""
    try:
        async with session.post(url, data=body, allow_redirects=False) as response:
            if 200 <= response.status < 300:
                return await _read(response)
            kept = await response.content.read(KEPT_BODY_BYTES)
            return _failure(response.status, response.headers.get("Retry-After"), kept)
    except TimeoutError:
        return Failure(Fault.TRANSIENT, "timed out")
    except ForeignSession as error:
        return Failure(Fault.FOREIGN, str(error))
    except aiohttp.ClientConnectorError as error:
        return Failure(Fault.UNREACHABLE, f"cannot connect: {error}")
    except (aiohttp.ClientError, OSError) as error:
        return Failure(Fault.TRANSIENT, f"connection lost: {type(error).__name__}: {error}")


async def _read(response: aiohttp.ClientResponse) -> Outcome:
    if response.content_length is not None and response.content_length <= MAX_ANSWER_BYTES:
        return await response.read()
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            return Failure(
                Fault.REFUSED, f"the answer has more than {MAX_ANSWER_BYTES} bytes", response.status
            )
    return b"".join(pieces)


def _failure(status: int, retry_header: str | None, kept: bytes) -> Failure:
    if is_transient(status):
        pause = retry_after(retry_header, datetime.now(UTC))
        return Failure(Fault.TRANSIENT, f"status {status}", status, kept, pause)
    return Failure(Fault.REFUSED, f"status {status}", status, kept)
