"""aiohttp's connections to addresses outside, each checked when it is opened, also behind a redirect."""

import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from steelyard.egress.policy import check_address, check_target, resolve
from steelyard_common.connections import TrackingConnector, make_socket
from steelyard_common.errors import SteelyardError
from steelyard_schema.egress import EgressPolicy, EgressRefused

_PIECE = 1 << 16


class AnswerTooLarge(SteelyardError):
    """An answer of more bytes than its reader takes."""


class _CheckedResolver(AbstractResolver):
    """Resolves names to literal addresses that the policy allows, or to none."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await resolve(self._policy, host, port)
        ]

    async def close(self) -> None:
        pass


class GuardedConnector(TrackingConnector):
    """Opens connections that a policy allows. Raises EgressRefused for all others."""

    def __init__(self, policy: EgressPolicy, **options: Any) -> None:
        self._policy = policy
        super().__init__(
            # What was resolved is used once: the check and the connection see the same addresses.
            **{
                **options,
                "resolver": _CheckedResolver(policy),
                "use_dns_cache": False,
                "socket_factory": self._socket,
            }
        )

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """Return a connection for one request: every redirect is a request of its own."""
        url = req.url
        value = str(url.with_query(None).with_fragment(None))
        if req.proxy is not None:
            raise EgressRefused("should not be called by a proxy", field="url", value=value)
        check_target(self._policy, url.scheme, url.raw_host or "", url.port, value=value)
        return await super().connect(req, traces, timeout)

    def _socket(self, info: tuple[Any, Any, int, str, tuple[Any, ...]]) -> socket.socket:
        """Make the socket for one address, just before the connection: literal ones come here too."""
        check_address(self._policy, str(info[-1][0]))
        return make_socket(info)


def make_guarded_session(
    policy: EgressPolicy, *, seconds: float = 30.0, **options: Any
) -> aiohttp.ClientSession:
    """Return a session whose calls the policy allows, each within `seconds`; `options` are the connector's.

    It has no proxy and no credentials from the environment, and keeps no cookies.
    """
    return aiohttp.ClientSession(
        connector=GuardedConnector(policy, **options),
        timeout=aiohttp.ClientTimeout(total=seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


async def read_bounded(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Return the body of an answer. Raises AnswerTooLarge, and ends the connection, when it is larger."""
    pieces, size = [], 0
    async for piece in response.content.iter_chunked(_PIECE):
        size += len(piece)
        if size > most_bytes:
            response.close()
            raise AnswerTooLarge(f"the answer of {response.url.host} has more than {most_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)
