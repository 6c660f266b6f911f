"""Bounds of one HTTP server, known before a caller sends its first byte."""

import resource
from dataclasses import dataclass

CONNECTIONS = 500
"""Connections of one server at once; fewer where the process may open few files."""


def _connections() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS if soft == resource.RLIM_INFINITY else max(8, min(CONNECTIONS, soft // 2))


@dataclass(frozen=True)
class HttpLimits:
    """Amounts that a caller may send, and times that it may take."""

    head_bytes: int = 32 << 10
    """Bytes of a request's line and headers together, and of what stands between two pieces of a body."""
    headers: int = 100
    """Number of headers, those after the body among them."""
    requests: int = 16
    """Requests in one piece of what comes, before the first of them is answered (pipelining)."""
    head_seconds: float = 15.0
    """Seconds from a connection, or from the first byte of a later request, until its headers are whole."""
    stall_seconds: float = 30.0
    """Seconds in which a caller sends, or takes, at least `stall_bytes`."""
    stall_bytes: int = 1024
    connections: int = 0
    """Connections at once; 0 stands for 500, or half of the files that the process may open."""

    def most_connections(self) -> int:
        return self.connections or _connections()


DEFAULT = HttpLimits()
"""The limits of every server that is made from now on; tests set shorter ones."""


def default_limits() -> HttpLimits:
    return DEFAULT
