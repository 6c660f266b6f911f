"""The connections to one replica: opened here for the attempt, used by its workers.

aiohttp is what every URL can be called with. For plain http there is a client of our own that costs a third of
it, where httptools is installed.
"""

from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from steelyard.discovery import CheckingConnector, ForeignSession, Verify
from steelyard.evaluation import call
from steelyard.evaluation.call import Client, Failure, Fault, Outcome

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "steelyard"}


def open_client(
    url: URL,
    timeout: float,
    *,
    verify: Verify | None = None,
    headers: Mapping[str, str] | None = None,
    host: str | None = None,
) -> Client:
    """Open a client for calls of `url`, which get `timeout` seconds each, from when they are sent.

    `verify` is awaited before each new connection. With `host`, connections go to that address whatever the URL's name.
    """
    sent = {**_HEADERS, **(headers or {})}
    if url.scheme == "http":
        with suppress(ImportError):
            from steelyard.evaluation.plain import PlainClient

            return PlainClient(url, timeout, verify, sent, host)
    return AiohttpClient(url, timeout, verify, sent, host)


_LARGE = 1 << 20


class AiohttpClient:
    """Any URL; proxies of the environment are used for https alone: replicas of a cluster are behind none."""

    def __init__(
        self, url: URL, timeout: float, verify: Verify | None, headers: Mapping[str, str], host: str | None
    ) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(
            connector=CheckingConnector(verify, host),
            timeout=aiohttp.ClientTimeout(total=timeout),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 18,
            proxy=proxy_of(url),  # not aiohttp's trust_env: a .netrc would stand in the key's way
        )

    @property
    def closed(self) -> bool:
        return self._session.closed

    async def close(self) -> None:
        await self._session.close()

    async def call(self, body: bytes) -> Outcome:
        try:
            data = (
                body if len(body) < _LARGE else BytesIO(body)
            )  # in pieces, so that other calls get their turn
            async with self._session.post(self._url, data=data, allow_redirects=False) as response:
                if 200 <= response.status < 300:
                    return await _read(response)
                kept = await response.content.read(call.KEPT_BODY_BYTES)
                return call.failure_of(response.status, response.headers, kept)
        except TimeoutError:
            return call.TIMED_OUT
        except ForeignSession as error:
            return Failure(Fault.FOREIGN, str(error))
        except aiohttp.ClientSSLError as error:
            return Failure(Fault.UNTRUSTED, f"TLS failed: {error}")
        except aiohttp.ClientConnectorError as error:
            return call.unreachable(error)
        except (aiohttp.ClientError, OSError) as error:
            return call.lost(f"{type(error).__name__}: {error}")


def proxy_of(url: URL) -> str | None:
    """The proxy that the environment names for an https URL (`HTTPS_PROXY`, unless `NO_PROXY` has the host)."""
    if url.scheme != "https" or url.host is None or proxy_bypass(url.host):
        return None
    return getproxies().get("https")


async def _read(response: aiohttp.ClientResponse) -> Outcome:
    if response.content_length is not None and response.content_length <= call.MAX_ANSWER_BYTES:
        return await response.read()
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > call.MAX_ANSWER_BYTES:
            return call.too_long(response.status)
    return b"".join(pieces)
