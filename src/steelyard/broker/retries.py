"""Retries of a record at which a step failed: how often, and how long the records behind it wait for that.

A pause helps where something outside was in disorder for a moment. It delays all other entities, so that all pauses of
a consumer share an allowance: a sender of one bad record after the other delays the others for no longer than that.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

PAUSES = (0.05, 0.25)
"""Seconds before the second try, the third, and so on."""
ALLOWANCE = 2.0
"""Seconds of pauses within a window; what comes beyond is tried again at once."""
WINDOW = 60.0


class Retries:
    """The tries of one consumer."""

    def __init__(
        self,
        pauses: Sequence[float] = PAUSES,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pauses, self._clock, self._sleep = pauses, clock, sleep
        self._spent: deque[tuple[float, float]] = deque()

    async def again(self, number: int) -> bool:
        """Wait before a record's try of this number, from 0; False once it has had its tries."""
        if number >= len(self._pauses):
            return False
        now, pause = self._clock(), self._pauses[number]
        while self._spent and self._spent[0][0] <= now - WINDOW:
            self._spent.popleft()
        if sum(spent for _, spent in self._spent) + pause > ALLOWANCE:
            pause = 0.0
        else:
            self._spent.append((now, pause))
        await self._sleep(pause)
        return True
