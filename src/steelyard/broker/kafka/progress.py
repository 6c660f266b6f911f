"""Positions up to which partitions have been read, and waiting for them to be read further."""

import asyncio

from steelyard.broker.log import LogError

STALLED_SECONDS = 60.0
"""Time without any progress after which a reader gives up. A killed writer's transaction is ended earlier than that."""


class Progress:
    """The position up to which a partition has been read. Belongs to the event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reached = 0
        self.fault = ""
        self._ended = False
        self._moved = asyncio.Event()

    def end(self, fault: str) -> None:
        """Let all who wait fail: nothing will be read any more."""
        self.fault, self._ended = fault, True
        self._wake()

    def advance(self, reached: int) -> None:
        if reached > self.reached:
            self.reached = reached
            self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def reach(self, target: int, seconds: float = STALLED_SECONDS) -> None:
        """Wait until everything before `target` was read. Raises LogError once nothing has come for so long."""
        while self.reached < target:
            if self._ended:
                raise LogError(f"{self._name}: reading ended: {self.fault}")
            try:
                async with asyncio.timeout(seconds):
                    await self._moved.wait()
            except TimeoutError:
                raise LogError(
                    f"{self._name}: read up to {self.reached} of {target}, "
                    f"and nothing came for {seconds:.0f} s{self.fault and ': '}{self.fault}"
                ) from None
