"""One call of the provider: what comes back, what it used, and what the client gets.

A provider is asked once: who wants another try makes another call, which is held and settled for itself.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson

from steelyard.hosted.answers import usage_in
from steelyard.hosted.calls import Call
from steelyard.hosted.ledger import Tokens
from steelyard.schema.hosted_model import STOPPED, HostedModel

MAX_ANSWER_BYTES = 64 << 20
_ERROR_BYTES = 1 << 16
_MESSAGE_CHARACTERS = 1000
_NOTHING_DONE = frozenset({503, 529})
"""Statuses of the 500s that say that the provider has not begun: it is overloaded."""


@dataclass(frozen=True)
class Failure:
    """An answer that is an error, as the client gets it."""

    status: int
    code: str
    message: str
    kind: str = "upstream_error"
    retry_after: str = ""

    @property
    def body(self) -> bytes:
        error = {"message": self.message, "type": self.kind, "param": None, "code": self.code}
        return orjson.dumps({"error": error})


class ProviderFailed(Exception):
    """The call brought no answer; `used` is what it cost, None where that is unknown."""

    def __init__(self, failure: Failure, used: Tokens | None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.used = used


@dataclass
class Answer:
    """An answer that has begun."""

    status: int
    content_type: str
    content: aiohttp.StreamReader = field(repr=False)


class Provider:
    """The provider's endpoint. The key is in no message, whatever the provider repeats."""

    def __init__(
        self, model: HostedModel, open_session: Callable[[], aiohttp.ClientSession], key: str | None
    ) -> None:
        """`open_session` is called by `open`, in the event loop that the connections will belong to."""
        self._model = model
        self._open_session = open_session
        self._key = key
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=model.timeout_seconds)

    async def open(self) -> None:
        self._session = self._open_session()

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def ask(self, call: Call) -> AsyncIterator[Answer]:
        """Send a call; the answer may be read inside the block. Raises ProviderFailed."""
        url = f"{self._model.base_url.rstrip('/')}/{call.path}"
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            async with self._session.post(
                url, data=call.body, headers=headers, allow_redirects=False, timeout=self._timeout
            ) as response:
                if not 200 <= response.status < 300:
                    raise await self._refused(response)
                yield Answer(response.status, response.content_type, response.content)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Nothing was sent. The error may name addresses inside; its kind says enough.
            failure = Failure(
                503,
                "ProviderUnreachable",
                f"no connection to the provider: {type(error).__name__}",
                retry_after="5",
            )
            raise ProviderFailed(failure, Tokens()) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The provider may have done the work, and be paid for it.
            text = f"the provider broke off: {type(error).__name__}"
            raise ProviderFailed(Failure(502, "ProviderBrokeOff", text), None) from None

    async def read(self, answer: Answer) -> bytes:
        """Return the whole body of an answer. Raises ProviderFailed for one without an end."""
        body = await _read(answer.content, MAX_ANSWER_BYTES + 1)
        if len(body) > MAX_ANSWER_BYTES:
            text = f"the provider's answer has more than {MAX_ANSWER_BYTES} bytes"
            raise ProviderFailed(Failure(424, "ProviderAnswer", text), None)
        return self.without_key(body)

    def without_key(self, data: bytes) -> bytes:
        """Return what the provider wrote, without the key."""
        return data.replace(self._key.encode(), b"[the key]") if self._key else data

    async def _refused(self, response: aiohttp.ClientResponse) -> ProviderFailed:
        """Say what an answer without success means, and what it costs."""
        status, body = response.status, await _read(response.content, _ERROR_BYTES)
        used = usage_in(body) or (None if status >= 500 and status not in _NOTHING_DONE else Tokens())
        if status in {401, 403}:
            # Providers repeat parts of a key in these answers, which no search for the key finds.
            return _stopped(f"the provider refuses the key (status {status})", used)
        if status < 400:
            return _stopped(f"the provider answers with status {status}; redirects are not followed", used)
        text = f"the provider answers with status {status}: {self._message(body)}".rstrip(": ")
        if status == 402:
            return _stopped(text, used)
        retry_after = response.headers.get("Retry-After", "")[:100]
        code = "ProviderBusy" if status == 429 else "ProviderError"
        return ProviderFailed(Failure(min(status, 599), code, text, retry_after=retry_after), used)

    def _message(self, body: bytes) -> str:
        """Return what an error answer says, in one line."""
        text = self.without_key(body).decode(errors="replace")
        try:
            content = orjson.loads(text)
        except orjson.JSONDecodeError:
            content = None
        error = content.get("error", content) if isinstance(content, dict) else content
        message = error.get("message") if isinstance(error, dict) else error
        said = message if isinstance(message, str) else text
        return " ".join(said.split())[:_MESSAGE_CHARACTERS]


def _stopped(message: str, used: Tokens | None) -> ProviderFailed:
    return ProviderFailed(Failure(424, "ProviderRefused", message, kind=STOPPED), used)


async def _read(content: aiohttp.StreamReader, most: int) -> bytes:
    """Read up to so many bytes."""
    pieces, size = [], 0
    while size < most and (piece := await content.read(min(1 << 16, most - size))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
