"""Downloads of a step over HTTP: bounded, and continued where a connection broke.

The session decides which addresses may be called: the step gives one that is guarded.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from steelyard.egress.aiohttp_connector import read_bounded
from steelyard.steps.source_files import fail
from steelyard_common.backoff import backoff_seconds
from steelyard_common.errors import SteelyardError

PATIENCE = 5
"""Failures in a row, without a byte between them, after which the attempt of the step ends."""
LONGEST_PAUSE = 30.0
"""Seconds between two tries at the most, whatever a server asks for."""
ANSWER_BYTES = 64 << 20
"""Largest listing that is read, in bytes."""
_PIECE = 1 << 20
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)


class _Transient(Exception):
    """A failure that may pass; `pause` is the number of seconds that the server asks for."""

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


@dataclass
class Downloads:
    """Answers and files of one server. Raises StepFailed, permanent where no repeat can mend it."""

    session: aiohttp.ClientSession
    origin: str
    """Origin that the token is for: no other is shown it, also not one that a download is redirected to."""
    token: str | None = field(default=None, repr=False)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def read_json(self, url: str) -> Any:
        """Return the JSON that a URL answers, of at most `ANSWER_BYTES`."""
        content = await self._repeat(url, lambda: self._read(url), lambda: 0)
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise fail(f"{url} answers what is not JSON: {error}") from error

    async def fetch(self, url: str, local: Path, most_bytes: int) -> None:
        """Download a file of at most so many bytes to a local path; what lies there is replaced."""
        part = _Part(local, most_bytes)
        part.restart()
        await self._repeat(url, lambda: self._continue(url, part), lambda: part.size)

    async def _repeat(self, url: str, work: Callable[[], Awaitable[Any]], done: Callable[[], int]) -> Any:
        failures, size = 0, done()
        while True:
            try:
                return await work()
            except _Transient as error:
                failures = failures + 1 if done() <= size else 1
                size = done()
                if failures >= PATIENCE:
                    raise fail(f"{url}: {error}", permanent=False) from error
                pause = max(error.pause, backoff_seconds(failures, 1.0, LONGEST_PAUSE))
                await self.pause(min(pause, LONGEST_PAUSE))

    async def _read(self, url: str) -> bytes:
        try:
            async with self.session.get(url, headers=self._headers(url), timeout=_TIMEOUT) as response:
                await self._check(response)
                return await read_bounded(response, ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Transient(f"cannot be read: {_text(error)}") from error
        except SteelyardError as error:  # an address that the settings do not allow, or too large an answer
            raise fail(str(error)) from error

    async def _continue(self, url: str, part: "_Part") -> None:
        headers = self._headers(url) | part.range_headers()
        try:
            async with self.session.get(url, headers=headers, timeout=_TIMEOUT) as response:
                if response.status == 416:  # what is there is no beginning of it
                    part.restart()
                    raise _Transient("has another size than before")
                await self._check(response)
                part.begin(response)
                with part.local.open("ab") as file:
                    async for piece in response.content.iter_chunked(_PIECE):
                        part.size += len(piece)
                        if part.size > part.most_bytes:
                            raise fail(f"{url} has more than {part.most_bytes} bytes")
                        file.write(piece)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _Transient(f"cannot be fetched: {_text(error)}") from error
        except SteelyardError as error:
            raise fail(str(error)) from error

    def _headers(self, url: str) -> dict[str, str]:
        # What is compressed on its way has another length than the file, and cannot be continued.
        headers = {"Accept-Encoding": "identity"}
        parts = urlsplit(url)
        if self.token and f"{parts.scheme}://{parts.netloc}" == self.origin:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if status < 300:
            return
        where = f"{response.url.origin()}{response.url.path}"
        if status in _RETRIED:
            raise _Transient(f"{where} answers {status}", _pause_seconds(response))
        said = response.headers.get("X-Error-Message") or response.reason or ""
        message = f"{where} answers {status} {said}".rstrip()
        if status in (401, 403):
            message += (
                "; the token of secrets.source may not read it"
                if self.token
                else "; it does not exist, or needs a token, which secrets.source names"
            )
        raise fail(message)


@dataclass
class _Part:
    """The beginning of a file on local disk, and the ETag by which its server knows that the file is the same."""

    local: Path
    most_bytes: int
    size: int = 0
    etag: str | None = None

    def restart(self) -> None:
        self.local.write_bytes(b"")
        self.size, self.etag = 0, None

    def range_headers(self) -> dict[str, str]:
        """Return the headers that ask for the rest; without an ETag, it might be the rest of another file."""
        if not self.size or self.etag is None:
            return {}
        return {"Range": f"bytes={self.size}-", "If-Range": self.etag}

    def begin(self, response: aiohttp.ClientResponse) -> None:
        """Take an answer: the rest, or the whole file."""
        rest = response.headers.get("Content-Range", "").startswith(f"bytes {self.size}-")
        if response.status != 206 or not rest:
            if response.status == 206:
                raise _Transient("answers another part than the one asked for")
            self.restart()
        etag = response.headers.get("ETag", "")
        self.etag = etag if etag.startswith('"') else None  # a weak one does not promise the same bytes


def _pause_seconds(response: aiohttp.ClientResponse) -> float:
    try:
        return float(response.headers.get("Retry-After", "0"))
    except ValueError:  # a date
        return 0.0


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
