"""The connections to the replicas of inference sessions.

Replicas are found by discovery. A pod's address may be used again by another session's pod, so every new connection
first asks the replica which session it belongs to, and no request goes to a foreign one. One process keeps one
connection pool for each replica, and closes it when the session was not used for a while.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import aiohttp
import orjson
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from yarl import URL

from steelyard.api.http.errors import JSON, BadGateway, Unavailable
from steelyard.api.inference_sessions.errors import ending_with_error, in_openai_form
from steelyard.api.inference_sessions.upstream import Answer, Unreachable, Upstream
from steelyard_common.connections import TrackingConnector
from steelyard_common.discovery import (
    IDENTITY_PORT,
    Discovery,
    ForeignSession,
    Identity,
    discovery,
)
from steelyard_common.serving.openai import EVENT_STREAM
from steelyard_common.types import JsonValue
from steelyard_common.verified_connector import json_getter
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.names import account_namespace, resource_name

PORT = 8000
_REFRESH_SECONDS = 2.0
_IDLE_SECONDS = 300.0
_FACT_SECONDS = 5.0
WHOLE_BYTES = 1 << 20
"""Most bytes of an answer that is read before it is passed on."""
_REQUEST_HEADERS = ("content-type", "accept", "content-encoding")
_RESPONSE_HEADERS = ("content-type", "content-encoding", "content-length", "retry-after", "allow")


@dataclass(frozen=True)
class Inference:
    """One request to a session, forwarded as it came."""

    endpoint: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    silence_seconds: float
    """Longest time without a byte of the answer."""
    method: str = "POST"


@dataclass
class _Replica:
    address: str
    connections: Upstream
    in_flight: int = 0
    gone: bool = False

    def release(self) -> None:
        """End one request."""
        self.in_flight -= 1
        self._close_if_idle()

    def retire(self) -> None:
        """Close the connections once no request is in flight: those that are may still get their answers."""
        self.gone = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self.gone and self.in_flight == 0:
            self.connections.close()


class _ReplicaResponse(StreamingResponse):
    """Response of a replica, streamed to the client; the replica is released however the client's connection ends."""

    def __init__(self, replica: _Replica, answer: Answer) -> None:
        pieces = ending_with_error(answer.pieces()) if _is_event_stream(answer) else answer.pieces()
        super().__init__(pieces, answer.status, _response_headers(answer))
        self._replica = replica
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answer.release()
            self._replica.release()


@dataclass
class _Session:
    """Replicas of one session by address; times are those of the event loop's clock."""

    discovery: Discovery
    replicas: dict[str, _Replica] = field(default_factory=dict)
    refreshed: float = float("-inf")
    used: float = 0.0


class Replicas:
    """Replicas of all sessions that this process has lately forwarded requests to."""

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
        self._sessions: dict[str, _Session] = {}
        self._identity_connections: aiohttp.ClientSession | None = None

    async def addresses(self, session: InferenceSession) -> frozenset[str]:
        """Return the addresses of the replicas that are ready."""
        return frozenset((await self._refresh(session)).replicas)

    async def forward(self, session: InferenceSession, inference: Inference) -> Response:
        """Send a request to the least busy replica, and return its response. Raises Unavailable, BadGateway."""
        entry = await self._refresh(session)
        # The least busy first; the others follow only while nothing was sent.
        for replica in sorted(entry.replicas.values(), key=lambda replica: replica.in_flight):
            try:
                return await self._ask(replica, inference)
            except (ForeignSession, Unreachable):
                # No connection, or not to this session: nothing was sent, so another replica may be tried.
                entry.refreshed = float("-inf")
            except OSError as error:
                # The replica may have begun to work: only the client knows whether a repeat does harm.
                raise BadGateway(f"the replica broke off: {type(error).__name__}: {error}") from error
        why = session.message or session.reason or session.status
        raise Unavailable(f"no replica of InferenceSession {session.id} answers ({why})", retry_after=2)

    async def get_json(self, session: InferenceSession, path: str) -> JsonValue:
        """Return the JSON that a replica has at a path; None where none answers with JSON."""
        entry = await self._refresh(session)
        for replica in entry.replicas.values():
            try:
                answer = await replica.connections.ask(
                    "GET", _target(replica.address, path, ""), {}, b"", _FACT_SECONDS
                )
                try:
                    if answer.status == 200:
                        return orjson.loads(await answer.read())
                finally:
                    answer.release()
            except (ForeignSession, OSError, ValueError):
                continue
        return None

    async def close(self) -> None:
        for session in self._sessions.values():
            for replica in session.replicas.values():
                replica.connections.close()
        if self._identity_connections is not None:
            await self._identity_connections.close()

    async def _ask(self, replica: _Replica, inference: Inference) -> Response:
        headers = {name: inference.headers[name] for name in _REQUEST_HEADERS if name in inference.headers}
        if inference.method == "POST":
            headers.setdefault("content-type", "application/json")
        target = _target(replica.address, inference.endpoint, inference.query)
        replica.in_flight += 1
        try:
            answer = await replica.connections.ask(
                # No limit on the whole: a stream of tokens may take long, as long as it does not fall silent.
                inference.method,
                target,
                headers,
                inference.body,
                inference.silence_seconds,
            )
            try:
                # An answer that says how long it is, is no stream. Passed on whole it costs half of what a stream does,
                # and one that breaks off is a 502 with the reason, not a broken connection.
                if answer.length is None or answer.length > WHOLE_BYTES:
                    return _ReplicaResponse(replica, answer)
                content = await answer.read()
            except BaseException:
                answer.release()
                raise
        except BaseException:
            replica.release()
            raise
        answer.release()
        replica.release()
        headers = _response_headers(answer)
        if "content-encoding" not in headers:
            stated = in_openai_form(inference.endpoint, answer.status, content)
            if stated is not None:
                content = stated
                headers |= {"content-type": JSON, "content-length": str(len(stated))}
        return Response(content, answer.status, headers)

    async def _refresh(self, session: InferenceSession) -> _Session:
        """Return the session's replicas; discover them again if that was a while ago, or found none."""
        now = asyncio.get_running_loop().time()
        for id in [id for id, session in self._sessions.items() if now - session.used > _IDLE_SECONDS]:
            for replica in self._sessions.pop(id).replicas.values():
                replica.retire()
        entry = self._sessions.get(session.id)
        if entry is None:
            name = f"{resource_name('InferenceSession', session.id)}.{account_namespace(session.account)}.svc"
            entry = self._sessions[session.id] = _Session(self._find(f"dns:{name}:{PORT}", self._environment))
        entry.used = now
        if now - entry.refreshed > _REFRESH_SECONDS or not entry.replicas:
            # Set before the await, so that requests which come meanwhile do not all ask for the addresses.
            entry.refreshed = now
            addresses = await entry.discovery.addresses()
            for address in set(entry.replicas) - addresses:
                # Requests in flight get their answers: a Pod that is ending still serves during its grace period.
                entry.replicas.pop(address).retire()
            for address in addresses - set(entry.replicas):
                entry.replicas[address] = _Replica(address, self._open_pool(session.id, address))
        return entry

    def _open_pool(self, session: str, address: str) -> Upstream:
        """Return the connections to one replica; each new one first asks whether the replica is the session's."""
        self._identity_connections = self._identity_connections or aiohttp.ClientSession(
            connector=TrackingConnector()
        )
        identity = Identity(json_getter(self._identity_connections), session, self._identity_port)
        return Upstream(address, lambda: _verify(identity, address), self._connect_seconds)


def _is_event_stream(answer: Answer) -> bool:
    """Return whether an answer is a stream of events that can be read as they pass."""
    content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return content_type == EVENT_STREAM and "content-encoding" not in answer.headers


def _response_headers(answer: Answer) -> dict[str, str]:
    return {name: answer.headers[name] for name in _RESPONSE_HEADERS if name in answer.headers}


@lru_cache(maxsize=256)
def _target(address: str, path: str, query: str) -> str:
    """Return path and query of a request to a replica, encoded; thousands of requests have the same ones."""
    url = URL(address).joinpath(path.lstrip("/"))
    return url.with_query(query).raw_path_qs


async def _verify(identity: Identity, address: str) -> None:
    try:
        await identity.check(address)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise ForeignSession(f"{address} does not say whose it is: {error}") from error
