"""The gate before a provider: so many calls at once, so many begun within a minute, first come first served."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from steelyard_common.errors import SteelyardError

WINDOW_SECONDS = 60.0


class RateLimited(SteelyardError):
    """A call has to wait for longer than it may; `retry_after` is the number of seconds until its turn."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the service's limit of calls is reached; try again in {retry_after} s")
        self.retry_after = retry_after


class Gate:
    """Lets calls pass; made in a running event loop."""

    def __init__(
        self,
        per_minute: int | None,
        at_once: int | None,
        writers: Callable[[], int] = lambda: 1,
        window: float = WINDOW_SECONDS,
    ) -> None:
        """`writers` is the number of processes that share the limits; each of them takes an equal part.

        `window` is the length of a minute, in seconds.
        """
        self._window = window
        self._per_minute = per_minute
        self._at_once = at_once
        self._writers = writers
        self._in_flight = 0
        self._begun: deque[float] = deque()
        """Times at which the calls of the last minute began."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    def check(self, patience: float) -> None:
        """Raise RateLimited where a call that comes now would wait for longer than `patience` seconds."""
        if (seconds := self._seconds_until(len(self._waiting))) > patience:
            raise RateLimited(math.ceil(seconds))

    @asynccontextmanager
    async def turn(self, patience: float) -> AsyncIterator[None]:
        """Wait for the call's turn, and let the next one pass at the end.

        Raises RateLimited after `patience` seconds.
        """
        await self._enter(patience)
        try:
            yield
        finally:
            self._in_flight -= 1
            self._serve()

    async def _enter(self, patience: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._serve()
        try:
            if not waiter.done():
                if (seconds := self._seconds_until(len(self._waiting) - 1)) > patience:
                    raise RateLimited(math.ceil(seconds))
                # The limit cancels nothing: a turn that comes in the same moment would be lost.
                await asyncio.wait([waiter], timeout=patience)
            if not waiter.done():
                raise RateLimited(max(1, math.ceil(self._seconds_until(self._waiting.index(waiter)))))
        except BaseException:
            self._leave(waiter)
            raise

    def _leave(self, waiter: "asyncio.Future[None]") -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        elif waiter.done():  # its turn came, and it does not take it
            self._in_flight -= 1
        self._serve()

    def _serve(self) -> None:
        """Let calls pass for as long as the limits allow."""
        while self._waiting:
            if self._at_once is not None and self._in_flight >= max(1, self._at_once // self._writers()):
                return  # the end of a call serves again
            if (seconds := self._seconds_until(0)) > 0:
                self._serve_in(seconds)
                return
            if self._per_minute is not None:
                self._begun.append(asyncio.get_running_loop().time())
            self._in_flight += 1
            self._waiting.popleft().set_result(None)

    def _serve_in(self, seconds: float) -> None:
        def ring() -> None:
            self._alarm = None
            self._serve()

        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(seconds, ring)

    def _seconds_until(self, place: int) -> float:
        """Return the least seconds until the call at a place of the queue may begin, by the rate alone."""
        if self._per_minute is None:
            return 0.0
        now, most = asyncio.get_running_loop().time(), max(1, self._per_minute // self._writers())
        while self._begun and self._begun[0] + self._window <= now:
            self._begun.popleft()
        # A call may begin one window after the call that is `most` places before it, which may be waiting itself.
        before, windows = len(self._begun) + place - most, 1
        while before >= len(self._begun):
            before, windows = before - most, windows + 1
        begins = self._begun[before] if before >= 0 else now - self._window
        return max(0.0, begins + self._window * windows - now)
