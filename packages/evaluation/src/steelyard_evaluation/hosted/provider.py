"""One call of the provider: what comes back, what it used, and what the client gets.

A provider is asked once: who wants another try makes another call, which is held and settled for itself.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from steelyard_common.refused_calls import find_field, find_reason, is_incurable
from steelyard_common.serving.openai import ErrorAnswer
from steelyard_evaluation.hosted.answers import usage_in
from steelyard_evaluation.hosted.calls import Call
from steelyard_evaluation.hosted.ledger import Tokens
from steelyard_schema.hosted_model import STOPPED, HostedModel

MAX_ANSWER_BYTES = 64 << 20
BROKE_OFF = "ProviderBrokeOff"
_ERROR_BYTES = 1 << 16
_NOTHING_DONE = frozenset({503, 529})
"""Statuses of the 500s that say that the provider has not begun: it is overloaded."""


class ProviderFailed(Exception):
    """The call brought no answer; `used` is what it cost, None where that is unknown."""

    def __init__(self, answer: ErrorAnswer, used: Tokens | None) -> None:
        super().__init__(answer.message)
        self.answer = answer
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
                    raise await self._read_refusal(response)
                yield Answer(response.status, response.content_type, response.content)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Nothing was sent. The error may name addresses inside; its kind says enough.
            text = f"no connection to the provider: {type(error).__name__}"
            raise _make_failure(503, text, "ProviderUnreachable", Tokens(), retry_after="5") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The provider may have done the work, and be paid for it.
            text = f"the provider broke off: {type(error).__name__}"
            raise _make_failure(502, text, BROKE_OFF, None) from None

    async def read(self, answer: Answer) -> bytes:
        """Return the whole body of an answer. Raises ProviderFailed for one without an end."""
        body = await _read(answer.content, MAX_ANSWER_BYTES + 1)
        if len(body) > MAX_ANSWER_BYTES:
            text = f"the provider's answer has more than {MAX_ANSWER_BYTES} bytes"
            raise _make_failure(424, text, "ProviderAnswer", None)
        return self.without_key(body)

    def without_key(self, data: bytes) -> bytes:
        """Return what the provider wrote, without the key."""
        return data.replace(self._key.encode(), b"[the key]") if self._key else data

    async def _read_refusal(self, response: aiohttp.ClientResponse) -> ProviderFailed:
        """Say what an answer without success means, and what it costs."""
        status, body = response.status, await _read(response.content, _ERROR_BYTES)
        used = usage_in(body) or (None if status >= 500 and status not in _NOTHING_DONE else Tokens())
        if status in {401, 403}:
            # Providers repeat parts of a key in these answers, which no search for the key finds.
            return _make_stop(f"the provider refuses the key (status {status})", used)
        if status < 400:
            return _make_stop(f"the provider answers with status {status}; redirects are not followed", used)
        body = self.without_key(body)
        reason = find_reason(body)
        text = f"the provider answers with status {status}: {reason}".rstrip(": ")
        retry_after = response.headers.get("Retry-After", "")[:100]
        # No credit, or no such model: a session that goes on would ask each row for minutes.
        if is_incurable(status, body, retry_after=bool(retry_after)):
            return _make_stop(text, used)
        code = "ProviderBusy" if status == 429 else "ProviderError"
        return _make_failure(
            min(status, 599), text, code, used, param=find_field(body), retry_after=retry_after
        )


def _make_failure(
    status: int,
    message: str,
    code: str,
    used: Tokens | None,
    *,
    param: str | None = None,
    retry_after: str = "",
) -> ProviderFailed:
    return ProviderFailed(ErrorAnswer(status, message, code, param, "upstream_error", retry_after), used)


def _make_stop(message: str, used: Tokens | None) -> ProviderFailed:
    return ProviderFailed(ErrorAnswer(424, message, "ProviderRefused", kind=STOPPED), used)


async def _read(content: aiohttp.StreamReader, most: int) -> bytes:
    """Read up to so many bytes."""
    pieces, size = [], 0
    while size < most and (piece := await content.read(min(1 << 16, most - size))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
