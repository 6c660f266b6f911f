"""Calls of any URL, by aiohttp: of https, and of plain http where httptools is not installed."""

from collections.abc import Mapping
from io import BytesIO
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from steelyard_common.connections import TrackingConnector
from steelyard_common.discovery import ForeignSession, Verify
from steelyard_common.verified_connector import CheckingConnector, json_getter
from steelyard_evaluation.engine import call
from steelyard_evaluation.engine.call import Failure, Fault, Outcome

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
            # A load balancer's cookie would tie every later call to one backend, and grow with each answer.
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 18,
            proxy=find_proxy(url),  # not aiohttp's trust_env: a .netrc would stand in the key's way
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
            # A redirect would repeat the POST, with the key in its headers, at an address that the user did not choose.
            async with self._session.post(self._url, data=data, allow_redirects=False) as response:
                if 200 <= response.status < 300:
                    return await _read(response)
                kept = await response.content.read(call.KEPT_BODY_BYTES)
                return call.read_failure(response.status, response.headers, kept)
        except TimeoutError:
            return call.TIMED_OUT
        # Raised by the connector's check of the address: nothing was sent.
        except ForeignSession as error:
            return Failure(Fault.FOREIGN, str(error))
        except aiohttp.ClientSSLError as error:
            return Failure(Fault.UNTRUSTED, f"TLS failed: {error}")
        except aiohttp.ClientConnectorError as error:
            return call.unreachable(error)
        except (aiohttp.ClientError, OSError) as error:
            return call.connection_failure(f"{type(error).__name__}: {error}")


async def get_json(url: URL) -> object:
    """Return the JSON value at a URL; raises OSError without one."""
    try:
        async with aiohttp.ClientSession(connector=TrackingConnector()) as session:
            return await json_getter(session)(url)
    except (aiohttp.ClientError, ValueError) as error:
        raise ConnectionError(f"{url}: {type(error).__name__}: {error}") from error


def find_proxy(url: URL) -> str | None:
    """The proxy that the environment names for an https URL (`HTTPS_PROXY`, unless `NO_PROXY` has the host)."""
    if url.scheme != "https" or url.host is None or proxy_bypass(url.host):
        return None
    return getproxies().get("https")


async def _read(response: aiohttp.ClientResponse) -> Outcome:
    # A server may announce no length, or send without end: then the size is counted while it comes.
    if response.content_length is not None and response.content_length <= call.MAX_ANSWER_BYTES:
        return await response.read()
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > call.MAX_ANSWER_BYTES:
            return call.too_long(response.status)
    return b"".join(pieces)
