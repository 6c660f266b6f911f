"""Many calls of the API, in batches that grow; a few one after the other, as a coroutine that needs no event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

FEW = 6
"""Up to so many, a task for each would cost more time than it saves."""
AT_ONCE = 32
"""Of one resource: the API has others to serve."""


async def for_each(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    """After the first error no further call is begun; those on their way are waited for, then it is raised.

    The first goes alone, then two at once, then four: an API that refuses one would refuse all, and is not flooded.
    """
    if len(items) <= FEW:
        for item in items:
            await work(item)
        return
    start, size = 0, 1
    while size < AT_ONCE and start < len(items):
        await _at_once(work, items[start : start + size])
        start, size = start + size, 2 * size
    await _at_once(work, items[start:])


async def _at_once(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    rest = iter(items)
    lines = [_line(work, rest) for _ in range(min(AT_ONCE, len(items)))]
    errors = [each for each in await asyncio.gather(*lines, return_exceptions=True) if each is not None]
    if errors:
        raise errors[0]


async def _line(work: Callable[[T], Awaitable[None]], rest: Iterator[T]) -> None:
    for item in rest:
        try:
            await work(item)
        except BaseException:
            for _ in rest:  # for the other lines, too, there is nothing left
                pass
            raise
