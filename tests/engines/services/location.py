"""Places where a server of the tests runs, and how its clients reach it: directly, by a proxy, or in a network
of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Through = Callable[[int], int]
"""Gives the port by which clients reach a server that listens on another."""


def direct(port: int) -> int:
    """Return the server's own port."""
    return port


@dataclass(frozen=True)
class Location:
    """A server listens on `host`; commands with the prefix `enter` run where it does."""

    host: str = "127.0.0.1"
    through: Through = direct
    enter: Sequence[str] = ()

    def reached(self, port: int) -> str:
        """Return the address by which clients reach a server that listens on `port`."""
        return f"{self.host}:{self.through(port)}"


HERE = Location()


class Cut(Protocol):
    """Cuts the servers of one place off from their clients."""

    def cut(self) -> None:
        """Let nothing through until `heal`."""

    def heal(self) -> None:
        """Let everything through again."""
