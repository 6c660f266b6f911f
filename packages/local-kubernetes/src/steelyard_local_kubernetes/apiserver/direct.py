"""The core for clients in its process: requests and answers as over HTTP, without sockets, TLS and parsing of headers.

The controllers and the kubelet of `run.py` send thousands of small requests a second, and carrying one over
loopback costs more processor time than answering it. The core decides what a request means here, too, so that these
clients work with any other server as well, by a kubeconfig.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import unquote

from steelyard_kube.client import RestCluster
from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.messages import JSON, Request, Response


class Handler(Protocol):
    """The part of the core that answers."""

    async def handle(self, request: Request) -> Response: ...


@dataclass(frozen=True, slots=True)
class Chunks:
    """Content of an answer, as the client reads it."""

    chunks: AsyncIterator[bytes]

    def iter_any(self) -> AsyncIterator[bytes]:
        return self.chunks


@dataclass(frozen=True, slots=True)
class DirectAnswer:
    """An answer of the core in the form that clients read."""

    response: Response

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.response.retry_after)} if self.response.retry_after else {}

    @property
    def content(self) -> Chunks:
        body = self.response.body
        return Chunks(_once(body) if isinstance(body, bytes) else body)

    async def read(self) -> bytes:
        body = self.response.body
        return body if isinstance(body, bytes) else b"".join([chunk async for chunk in body])


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


class Direct:
    """Carrier of the requests of one user."""

    def __init__(self, core: Handler, user: User) -> None:
        self._core, self._user = core, user

    async def ask(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> DirectAnswer:
        headers = {"accept": JSON, "content-type": content_type, "user-agent": "steelyard"}
        request = Request(method, unquote(path), query, headers, body, self._user)
        return DirectAnswer(await self._core.handle(request))

    @asynccontextmanager
    async def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> AsyncIterator[DirectAnswer]:
        answer = await self.ask(method, path, query, body, content_type)
        response = answer.response
        if isinstance(response.body, bytes):
            yield answer
            return
        # Closed when its reader ends: a watch would otherwise wait for changes for ever.
        async with aclosing(cast("AsyncGenerator[bytes, None]", response.body)):
            yield answer


def direct_cluster(core: Handler, user: User, url: str = "") -> RestCluster:
    """A client of the core; `url` is where others find the same server."""
    return RestCluster(url, carrier=Direct(core, user))
