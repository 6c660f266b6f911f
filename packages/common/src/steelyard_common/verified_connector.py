"""aiohttp's connections to replicas: each is opened after the replica has said whose it is.

Apart from `discovery.py`: evaluations that call plain http do without aiohttp, which takes 0.2 s to import.
"""

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace
from yarl import URL

from steelyard_common.connections import TrackingConnector
from steelyard_common.discovery import IDENTITY_SECONDS, GetJson, Verify


def json_getter(session: aiohttp.ClientSession) -> GetJson:
    """Gets JSON by connections of `session`; what it returns raises aiohttp.ClientError, OSError or ValueError."""
    timeout = aiohttp.ClientTimeout(total=IDENTITY_SECONDS)

    async def get_json(url: URL) -> object:
        async with session.get(url, timeout=timeout) as response:
            response.raise_for_status()
            return await response.json()

    return get_json


class _OneAddress(AbstractResolver):
    """Every name is at one address."""

    def __init__(self, host: str) -> None:
        self._address = host

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address_family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host,
                host=self._address,
                port=port,
                family=address_family,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        pass


class CheckingConnector(TrackingConnector):
    """Awaits `verify` before each new connection, so that a reused address is never sent a row."""

    def __init__(self, verify: Verify | None, host: str | None = None) -> None:
        """Connect to `host` in place of the URL's host, where it is given."""
        super().__init__(
            limit=0,
            limit_per_host=0,
            keepalive_timeout=4.0,
            use_dns_cache=True,
            ttl_dns_cache=5,
            resolver=None if host is None else _OneAddress(host),
        )
        self._verify = verify

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if self._verify is not None:
            await self._verify()
        return await super()._create_connection(req, traces, timeout)
