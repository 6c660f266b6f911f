"""Addresses that cannot be listened on: each is reported once, and tried again after a while where another program has
taken it, which may be any program that listens on all addresses while no Pod is ready.
"""

import asyncio
import errno
from collections.abc import Callable, Collection

from steelyard_common.errors import system_words
from steelyard_local_kubernetes.names.table import Address

RETRY_SECONDS = 30.0


class TakenAddresses:
    """`report` gets one line for each address; `retry` asks for another try of all of them."""

    def __init__(
        self, report: Callable[[str], None], retry: Callable[[], None], retry_seconds: float, protocol: str
    ) -> None:
        self._report, self._retry, self._retry_seconds = report, retry, retry_seconds
        self._protocol = f"/{protocol}" if protocol != "TCP" else ""
        self._retrying: asyncio.TimerHandle | None = None
        self._reported: set[Address] = set()
        self._taken = False

    def add(self, address: Address, error: OSError, *, spare: bool = False) -> None:
        """Remember an address; a spare one is neither reported nor tried again."""
        if spare:
            return
        self._taken |= error.errno == errno.EADDRINUSE
        if address not in self._reported:
            self._reported.add(address)
            place = f"{address[0]}:{address[1]}{self._protocol}"
            self._report(f"a Service or Pod cannot listen on {place}: {system_words(error)}")

    def remove(self, address: Address) -> None:
        self._reported.discard(address)

    def end_of_round(self, addresses: Collection[Address]) -> None:
        """Plan the next try of what this round has found taken, and forget addresses that are not in use any more."""
        # Of all addresses: one whose Pods become ready again and again would be reported each time.
        self._reported &= set(addresses)
        self.close()
        if self._taken:
            self._retrying = asyncio.get_running_loop().call_later(self._retry_seconds, self._retry)
        self._taken = False

    def close(self) -> None:
        if self._retrying is not None:
            self._retrying.cancel()
        self._retrying = None
