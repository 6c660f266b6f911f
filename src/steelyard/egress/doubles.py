"""Names for tests that lead wherever a test wants, without a name server."""

import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def names_leading(monkeypatch: "pytest.MonkeyPatch") -> dict[str, list[str]]:
    """Return a table of names and the addresses that each leads to, one after the other, the last one for ever."""
    table: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host in table:
            host = table[host].pop(0) if len(table[host]) > 1 else table[host][0]
        return real(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table
