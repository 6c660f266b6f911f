"""Sync calls made of async ones: a client's event loop runs in a thread of its own.

Each method is written once, async; `blocking` and `blocking_lines` turn it into the sync one, with its types and its
docstring. It works in a notebook too, where an event loop runs already.
"""

import asyncio
import functools
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


END_SECONDS = 1.0
"""Longest wait for the end of a loop whose client was never closed: the program goes on, or ends, without it."""


class LoopThread:
    """An event loop in a thread, which starts with the first call.

    If it is not closed, `closing` runs in it when the last object that uses it is gone, or the program ends.
    """

    def __init__(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._closing = closing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result. A caller that is interrupted (Ctrl-C) cancels the call."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._start())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield what an async iterator yields; it is closed when the caller stops."""
        end = object()

        async def following() -> object:
            return await anext(items, end)

        async def closing() -> None:
            if hasattr(items, "aclose"):
                await items.aclose()

        try:
            while (item := self.run(following())) is not end:
                yield item  # type: ignore[misc]  # all but the end are items
        finally:
            self.run(closing())

    def close(self) -> None:
        """Run `closing`, and end the thread."""
        self.run(self._closing())
        if self._loop is not None and self._unclosed.detach():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = None

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="steelyard-client", daemon=True
                )
                self._thread.start()
                self._unclosed = weakref.finalize(self, _end, self._loop, self._thread, self._closing)
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    closing: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def close() -> None:
        try:
            await closing()
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(close(), loop)
    if thread is not threading.current_thread():
        # The collector may call this while its thread holds a lock that the loop needs: no wait without an end.
        thread.join(END_SECONDS)


class Sync:
    """The sync form of a group of async methods."""

    def __init__(self, methods: Any, thread: LoopThread) -> None:
        self._methods = methods
        self._thread = thread


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the sync form of an async method."""

    @functools.wraps(method)
    def call(self: Sync, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._methods, *args, **kwargs))

    return call


def blocking_lines(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Return the sync form of a method that yields."""

    @functools.wraps(method)
    def call(self: Sync, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._thread.iterate(method(self._methods, *args, **kwargs))

    return call
