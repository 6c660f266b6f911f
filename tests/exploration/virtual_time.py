"""An event loop whose time passes only when every task waits: hours of an operator's life take seconds, and the same
seed gives the same run.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(AssertionError):
    """Every task waits for something that nothing will ever bring about."""


class _NoWaiting(selectors.SelectSelector):
    """A selector that lets the loop's time pass instead of waiting for it."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is left to happen")
        if timeout > 0:
            self._pass_time(timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Event loop whose time begins at 0 and jumps to the next timer whenever no task can go on."""

    def __init__(self) -> None:
        self._seconds = 0.0
        super().__init__(_NoWaiting(self._pass))

    def time(self) -> float:
        return self._seconds

    def _pass(self, seconds: float) -> None:
        self._seconds += seconds


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
