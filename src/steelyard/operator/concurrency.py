"""Many calls of the API in batches that grow; a few calls one after the other, in a coroutine without an event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

FEW = 6
"""Number of items up to which a task for each item would cost more time than it saves."""
AT_ONCE = 32
"""Most calls in flight for one resource: the API has other resources to serve."""


async def for_each(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    """Call `work` with each item. After an error no further call begins; those in flight end, then it is raised.

    The first call goes alone, then two at once, then four: an API that refuses one would refuse all, and is not
    flooded.
    """
    if len(items) <= FEW:
        for item in items:
            await work(item)
        return
    start, size = 0, 1
    while size < AT_ONCE and start < len(items):
        await _all_at_once(work, items[start : start + size])
        start, size = start + size, 2 * size
    await _all_at_once(work, items[start:])


async def _all_at_once(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    rest = iter(items)
    workers = [_worker(work, rest) for _ in range(min(AT_ONCE, len(items)))]
    results = await asyncio.gather(*workers, return_exceptions=True)
    if errors := [error for error in results if error is not None]:
        raise errors[0]


async def _worker(work: Callable[[T], Awaitable[None]], rest: Iterator[T]) -> None:
    for item in rest:
        try:
            await work(item)
        except BaseException:
            for _ in rest:  # empties the shared iterator, so that the other workers begin nothing more
                pass
            raise
