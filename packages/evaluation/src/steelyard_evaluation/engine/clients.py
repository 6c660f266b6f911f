"""The connections to one replica: opened here for the attempt, used by its workers.

aiohttp is what every URL can be called with. For plain http there is a client of our own that costs a third of
it, where httptools is installed; then aiohttp is not even imported, which takes longer than a thousand calls.
"""

from collections.abc import Mapping
from contextlib import suppress

from yarl import URL

from steelyard_common.discovery import Verify
from steelyard_evaluation.engine.call import Client

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
            from steelyard_evaluation.engine.plain import PlainClient

            return PlainClient(url, timeout, verify, sent, host)
    from steelyard_evaluation.engine.aiohttp_client import AiohttpClient

    return AiohttpClient(url, timeout, verify, sent, host)


async def get_json(url: URL) -> object:
    """Return the JSON value at a URL of plain http; raises OSError without one."""
    try:
        from steelyard_evaluation.engine import plain as client
    except ImportError:
        from steelyard_evaluation.engine import aiohttp_client as client  # type: ignore[no-redef]
    return await client.get_json(url)
