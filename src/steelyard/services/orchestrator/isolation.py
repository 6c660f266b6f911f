"""Work on many entities one by one, so that a fault of one stops no other and other tasks have their turn.

The orchestrator uses it where it goes through all entities: at its start, and at each comparison.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from steelyard.broker.scan import PIECE
from steelyard_common.errors import is_engine_failure

T = TypeVar("T")
R = TypeVar("R")


async def run_isolated(
    items: Iterable[T],
    work: Callable[[T], Awaitable[R]],
    on_failure: Callable[[T, Exception], Awaitable[None]],
) -> list[R]:
    """Return the results of `work` for the items. An item at which it fails goes to `on_failure` instead.

    Raises the error of an engine that fails: it is the fault of no item.
    """
    results: list[R] = []
    for number, item in enumerate(items, 1):
        try:
            results.append(await work(item))
        except Exception as error:
            if is_engine_failure(error):
                raise
            await on_failure(item, error)
        if number % PIECE == 0:
            await asyncio.sleep(0)
    return results
