"""An alarm that many callers set and that rings once, at the earliest of their times."""

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls `ring` at the earliest time, of the running loop's clock, for which it was set since it last rang."""

    def __init__(self, ring: Callable[[], object]) -> None:
        self._on_ring = ring
        self._time = 0.0
        self._handle: asyncio.Handle | None = None

    def set(self, time: float) -> None:
        # The time is kept here: what uvloop returns for a time that has come is no TimerHandle and has no `when`.
        if self._handle is not None:
            if self._time <= time:
                return
            self._handle.cancel()
        self._time = time
        self._handle = asyncio.get_running_loop().call_at(time, self._ring)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._on_ring()
