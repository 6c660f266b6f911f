"""Names by which a server may be asked.

A page in a browser can let its own name lead to the address of a server here (DNS rebinding), and then read what the
server answers. It can do so with names that the public DNS has, so that these have to be known.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

_PRIVATE = (".localhost", ".svc", ".cluster.local")
"""Ends of names that no public DNS has: those of a machine and of a cluster."""


class Hosts:
    """The names of one server: addresses, names without a dot, names of the cluster, and those that settings list."""

    def __init__(self, names: Iterable[str] = (), *, setting: str = "", every: bool = False) -> None:
        self._every = every
        self._names = frozenset(name.lower().rstrip(".") for name in names)
        self._setting = setting

    def known(self, header: str) -> bool:
        """Return whether a Host header names this server. An empty one is of no browser."""
        if self._every:
            return True
        try:
            name = (urlsplit(f"//{header.strip()}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if not name or "." not in name or name.endswith(_PRIVATE) or name in self._names:
            return not set(header) & set("/?#@\\")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def refusal(self, header: str) -> str:
        """Return what an unknown Host is answered."""
        hint = f"; if clients reach it by this name, add it to {self._setting}" if self._setting else ""
        return f"Host: {header[:255]!r} is not a name of this server{hint}"


EVERY_HOST = Hosts(every=True)


def find_host(url: str | None) -> list[str]:
    """Return the host of a URL, if there is one."""
    name = urlsplit(url).hostname if url else None
    return [name] if name else []
