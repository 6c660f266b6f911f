"""urllib3's connections to addresses outside, each checked when it is opened, also behind a redirect."""

import socket
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import create_connection

from steelyard.egress.policy import check_target, resolve_blocking
from steelyard_schema.egress import EgressPolicy


class GuardedPoolManager(urllib3.PoolManager):
    """Calls what a policy allows; everything else raises EgressRefused."""

    def __init__(self, policy: EgressPolicy, **options: Any) -> None:
        super().__init__(**options)
        self._policy = policy
        plain = type("Plain", (_CheckedConnection, HTTPConnection), {"policy": policy})
        secure = type("Secure", (_CheckedConnection, HTTPSConnection), {"policy": policy})
        self.pool_classes_by_scheme = {
            "http": type("PlainPool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("SecurePool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **options: Any
    ) -> urllib3.BaseHTTPResponse:
        """Send one request; the manager calls itself for each redirect."""
        parts = urllib3.util.parse_url(url)
        value = parts._replace(auth=None, query=None, fragment=None).url
        check_target(self._policy, parts.scheme or "", parts.host or "", parts.port, value=value)
        return super().urlopen(method, url, redirect, **options)


class _CheckedConnection:
    """Opens its socket to a literal address that the policy allows; the name is kept for TLS."""

    policy: EgressPolicy

    def _new_conn(self: Any) -> socket.socket:
        try:
            addresses = resolve_blocking(self.policy, self._dns_host, self.port)
        except OSError as error:
            raise NewConnectionError(self, f"{self.host} cannot be resolved: {error}") from error
        failure: OSError | None = None
        for address in addresses:
            try:
                return create_connection(
                    (address, self.port),
                    self.timeout,
                    source_address=self.source_address,
                    socket_options=self.socket_options,
                )
            except OSError as error:
                failure = error
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, f"{self.host} does not answer") from failure
        raise NewConnectionError(self, f"no connection to {self.host}: {failure}") from failure
