"""Work on each of many entities for itself: a fault of one is its own, and all other tasks have their turn meanwhile.

Services that look at all there is from time to time use it: the orchestrator's beginning and its comparison.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from steelyard.broker.scan import PIECE
from steelyard.errors import is_engine_failure

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger(__name__)


async def each_apart(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], failed: Callable[[T, Exception], Awaitable[None]]
) -> list[R]:
    """What `work` makes of each item. One at which it fails is told to `failed`, and the others go on.

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
