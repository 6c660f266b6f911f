"""httpx's connections to addresses outside, each checked when it is opened, also behind a redirect."""

from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from steelyard.egress.policy import check_target, resolve_blocking
from steelyard_schema.egress import EgressPolicy

_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0)


class _CheckedBackend(httpcore.SyncBackend):
    """Opens sockets to literal addresses that the policy allows."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._policy = policy

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = resolve_blocking(self._policy, host, port)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        failure: Exception | None = None
        for address in addresses:
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise httpcore.ConnectError("a socket of this machine is not an address outside")


class _CheckedTransport(httpx.HTTPTransport):
    def __init__(self, policy: EgressPolicy) -> None:
        context = httpx.create_ssl_context(trust_env=False)
        super().__init__(verify=context, trust_env=False, limits=_LIMITS)
        # httpx has no option for it. Should it keep its pool elsewhere one day, nothing may be called unchecked.
        if not isinstance(getattr(self, "_pool", None), httpcore.ConnectionPool):
            raise RuntimeError("this version of httpx cannot be guarded")
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=_LIMITS.max_connections,
            max_keepalive_connections=_LIMITS.max_keepalive_connections,
            keepalive_expiry=_LIMITS.keepalive_expiry,
            network_backend=_CheckedBackend(policy),
        )
        self._policy = policy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        value = str(url.copy_with(query=None, fragment=None))
        check_target(self._policy, url.scheme, url.raw_host.decode("ascii"), url.port, value=value)
        return super().handle_request(request)


def make_guarded_client(policy: EgressPolicy, **options: Any) -> httpx.Client:
    """Return a client whose calls the policy allows; all others raise EgressRefused. `options` are httpx.Client's."""
    return httpx.Client(**{**options, "transport": _CheckedTransport(policy), "trust_env": False})
