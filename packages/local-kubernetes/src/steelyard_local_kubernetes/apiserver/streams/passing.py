"""Passes a request on to a program of a Pod, and the answer back, as they come (`upstream.py` finds the program)."""

import os

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from steelyard_common.connections import TrackingConnector
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.streams.upstream import Upstream

CONNECT_SECONDS = 30.0
# Headers of one connection alone, and the caller's credentials for this server: a program of a Pod must not get them.
_HOP = {
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip
_OURS = {"host", "authorization"}


async def pass_on(request: web.BaseRequest, upstream: Upstream, prefix: str, path: str) -> web.StreamResponse:
    """Answer with what the program answers; raises Refusal where it cannot be reached.

    `prefix` is the path of this server that stands for the program's root.
    """
    url = upstream.url(path, request.rel_url.raw_query_string)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    session = aiohttp.ClientSession(
        # As a real server, which cannot know whose certificates Pods have.
        connector=TrackingConnector(ssl=False, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=timeout,
        auto_decompress=False,
    )
    async with session:
        try:
            answer = await session.request(
                request.method,
                url,
                headers=_request_headers(request),
                data=request.content if request.can_read_body else None,
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        except aiohttp.ClientConnectorError as error:
            reason = (
                os.strerror(error.os_error.errno).lower() if error.os_error.errno else str(error.os_error)
            )
            where = f"{upstream.ip}:{upstream.port}"
            raise _unreachable(f"dial tcp {where}: connect: {reason}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(str(error) or type(error).__name__) from error
        async with answer:
            headers = _response_headers(answer, url, prefix)
            response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def _request_headers(request: web.BaseRequest) -> CIMultiDict[str]:
    own = _own(request.headers.getall("Connection", []))
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in own | _OURS and not name.lower().startswith("impersonate-")
    )
    headers["X-Forwarded-Uri"] = request.path
    headers["X-Forwarded-Host"] = request.host
    headers["X-Forwarded-Proto"] = request.scheme
    return headers


def _response_headers(answer: aiohttp.ClientResponse, url: URL, prefix: str) -> CIMultiDict[str]:
    own = _own(answer.headers.getall("Connection", []))
    headers = CIMultiDict((name, value) for name, value in answer.headers.items() if name.lower() not in own)
    location = headers.get("Location", "")
    if location:
        # The program does not know below which path its caller sees it.
        there = url.join(URL(location, encoded=True))
        if there.origin() == url.origin():
            headers["Location"] = prefix + there.raw_path_qs
    return headers


def _own(connection: list[str]) -> set[str]:
    return _HOP | {name.strip().lower() for value in connection for name in value.split(",")}


def _unreachable(reason: str) -> Refusal:
    return Refusal(503, "ServiceUnavailable", f"error trying to reach service: {reason}")
