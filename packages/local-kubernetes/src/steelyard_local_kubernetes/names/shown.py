"""Registry of Pods whose names are published: the kubelet waits for them before it starts their programs, in
the process that runs both.
"""

import asyncio
import contextlib


class PublishedNames:
    """Addresses whose names stand in the hosts files."""

    def __init__(self) -> None:
        self._addresses: frozenset[str] = frozenset()
        self._changed = asyncio.Event()

    def publish(self, addresses: frozenset[str]) -> None:
        if addresses != self._addresses:
            self._addresses = addresses
            self._changed.set()
            self._changed = asyncio.Event()

    async def wait(self, address: str, seconds: float) -> None:
        """Wait until the address has its names, or the time is up: names that are late must not stop anybody."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while address not in self._addresses:
                    await self._changed.wait()
