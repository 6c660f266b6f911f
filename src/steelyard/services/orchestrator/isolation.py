"""Work on many entities one by one: a fault of one is its own, and all other tasks have their turn meanwhile.

The orchestrator uses it where it looks at all entities: at its start, and at each comparison.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from steelyard.broker.scan import PIECE
from steelyard.errors import is_engine_failure

T = TypeVar("T")
R = TypeVar("R")


async def each_apart(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], failed: Callable[[T, Exception], Awaitable[None]]
) -> list[R]:
    """Results of `work` for the items. An item at which it fails goes to `failed`, and the others go on.

    Raises what a failing engine raises.
    """
    done: list[R] = []
    for number, item in enumerate(items, 1):
        try:
            done.append(await work(item))
        except Exception as error:
            if is_engine_failure(error):
                raise
            await failed(item, error)
        if number % PIECE == 0:
            await asyncio.sleep(0)
    return done
