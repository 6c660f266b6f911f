"""The way to a session's replicas: found by discovery, each asked whose it is at every new connection.

An address that another session has taken over is never sent a request. One process keeps one pool of connections for
each replica in use, and lets it go when nobody has asked for a while.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import aiohttp
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from yarl import URL

from steelyard.api.http.context import Call
from steelyard.api.http.errors import BadGateway, NotImplementedYet, Unavailable
from steelyard.discovery import (
    IDENTITY_PORT,
    CheckingConnector,
    Discovery,
    ForeignSession,
    Identity,
    discovery,
)
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.names import namespace_of, resource_name

PORT = 8000
_FRESH_SECONDS = 2.0
_IDLE_SECONDS = 300.0
_PASSED_ON = ("content-type", "accept", "content-encoding")
_ANSWERED = ("content-type", "content-encoding", "content-length", "retry-after")


@dataclass
class _Replica:
    address: str
    connections: aiohttp.ClientSession
    in_flight: int = 0
    gone: bool = False

    async def release(self) -> None:
        """One request less; what is in flight when an address vanishes may end."""
        self.in_flight -= 1
        await self.close_if_idle()

    async def close_if_idle(self) -> None:
        if self.gone and self.in_flight == 0:
            await self.connections.close()


class _Answer(StreamingResponse):
    """The replica's answer; the replica is released however the client's connection ends."""

    def __init__(self, replica: _Replica, response: aiohttp.ClientResponse) -> None:
        kept = {name: response.headers[name] for name in _ANSWERED if name in response.headers}
        super().__init__(response.content.iter_any(), response.status, kept)
        self._replica = replica
        self._response = response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._response.release()
            await self._replica.release()


@dataclass
class _Known:
    """What is known of one session."""

    discovery: Discovery
    replicas: dict[str, _Replica] = field(default_factory=dict)
    looked: float = float("-inf")
    used: float = 0.0


class Replicas:
    """All sessions that this process was asked about."""

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        identity_port: int = IDENTITY_PORT,
        find: Callable[[str, Mapping[str, str]], Discovery] = discovery,
        connect_seconds: float = 5.0,
    ) -> None:
        self._connect_seconds = connect_seconds
        self._environment = environment
        self._identity_port = identity_port
        self._find = find
        self._known: dict[str, _Known] = {}
        self._asking: aiohttp.ClientSession | None = None

    async def addresses(self, session: InferenceSession) -> frozenset[str]:
        """The replicas that are ready now."""
        return frozenset((await self._refreshed(session)).replicas)

    async def forward(self, call: Call, session: InferenceSession, endpoint: str) -> Response:
        """Raises NotImplementedYet, Unavailable, BadGateway."""
        kind = call.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise NotImplementedYet(f"Content-Type: {kind!r} is not forwarded; application/json is")
        settings = call.api.platform.settings
        body = b"".join([piece async for piece in call.stream(settings.inference_bytes)])
        known = await self._refreshed(session)
        for replica in sorted(known.replicas.values(), key=lambda each: each.in_flight):
            try:
                return await self._ask(replica, endpoint, body, call, settings.inference_seconds)
            except (ForeignSession, aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                known.looked = float("-inf")  # nothing was sent: another one may be asked
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise BadGateway(f"the replica broke off: {type(error).__name__}: {error}") from error
        why = session.message or session.reason or session.status
        raise Unavailable(f"no replica of InferenceSession {session.id} answers ({why})", retry_after=2)

    async def close(self) -> None:
        for known in self._known.values():
            await asyncio.gather(*(each.connections.close() for each in known.replicas.values()))
        if self._asking is not None:
            await self._asking.close()

    async def _ask(
        self, replica: _Replica, endpoint: str, body: bytes, call: Call, seconds: float
    ) -> Response:
        headers = {name: call.headers[name] for name in _PASSED_ON if name in call.headers}
        headers.setdefault("content-type", "application/json")
        url = URL(replica.address).joinpath(endpoint.lstrip("/")).with_query(call.request.url.query)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=seconds, sock_connect=self._connect_seconds)
        replica.in_flight += 1
        try:
            response = await replica.connections.post(
                url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            )
        except BaseException:
            await replica.release()
            raise
        return _Answer(replica, response)

    async def _refreshed(self, session: InferenceSession) -> _Known:
        """Looked up anew when that is a while ago, or there was none."""
        now = asyncio.get_running_loop().time()
        await self._let_go(now)
        known = self._known.get(session.id)
        if known is None:
            name = f"{resource_name('InferenceSession', session.id)}.{namespace_of(session.account)}.svc"
            known = self._known[session.id] = _Known(self._find(f"dns:{name}:{PORT}", self._environment))
        known.used = now
        if now - known.looked > _FRESH_SECONDS or not known.replicas:
            known.looked = now
            await self._update(session.id, known)
        return known

    async def _update(self, session: str, known: _Known) -> None:
        found = await known.discovery.addresses()
        for address in set(known.replicas) - found:
            await _drop(known.replicas.pop(address))
        for address in found - set(known.replicas):
            known.replicas[address] = _Replica(address, self._connections(session, address))

    def _connections(self, session: str, address: str) -> aiohttp.ClientSession:
        self._asking = self._asking or aiohttp.ClientSession()
        identity = Identity(self._asking, session, self._identity_port)
        return aiohttp.ClientSession(
            connector=CheckingConnector(lambda: _verify(identity, address)),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _let_go(self, now: float) -> None:
        for id in [id for id, known in self._known.items() if now - known.used > _IDLE_SECONDS]:
            await asyncio.gather(*(_drop(each) for each in self._known.pop(id).replicas.values()))


async def _verify(identity: Identity, address: str) -> None:
    try:
        await identity.check(address)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise ForeignSession(f"{address} does not say whose it is: {error}") from error


async def _drop(replica: _Replica) -> None:
    replica.gone = True
    await replica.close_if_idle()
