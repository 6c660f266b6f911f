"""The thread of a consumer, and what becomes of requests once it has ended."""

import asyncio
import threading
from typing import Any

import pytest

from steelyard.broker.kafka.polling import Poller
from steelyard.broker.log import LogError


class Silent:
    """A consumer that gets no records; once it is `broken`, its poll fails."""

    def __init__(self) -> None:
        self.broken, self.closed = threading.Event(), threading.Event()

    def poll(self, seconds: float) -> None:
        if self.broken.wait(seconds):
            raise OSError("no space left on device")

    def close(self) -> None:
        self.closed.set()

    def name(self) -> str:
        if self.closed.is_set():
            raise RuntimeError("Consumer closed")
        return "silent"


def name(consumer: Any) -> str:
    return str(consumer.name())


async def test_a_request_after_the_end_is_refused_with_the_reason() -> None:
    consumer, faults = Silent(), asyncio.Queue[str]()
    poller = Poller(consumer, lambda messages: None, faults.put_nowait, "test")  # type: ignore[arg-type]
    assert await poller.call(name) == "silent"
    consumer.broken.set()
    assert await faults.get() == "OSError: no space left on device"
    with pytest.raises((LogError, RuntimeError)):  # it may have come before the consumer was closed
        await poller.call(name)
    await poller.close()
    async with asyncio.timeout(60):
        with pytest.raises(LogError, match="takes no requests any more: OSError: no space left on device"):
            await poller.call(name)
    poller.post(lambda consumer: None)


async def test_the_error_of_a_request_is_its_callers_and_the_thread_goes_on() -> None:
    poller = Poller(Silent(), lambda messages: None, lambda fault: None, "test")  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        with pytest.raises(AttributeError):
            await poller.call(lambda consumer: consumer.nothing)  # type: ignore[attr-defined]
        assert await poller.call(name) == "silent"
    await poller.close()


async def test_a_request_after_the_close_is_refused() -> None:
    poller = Poller(Silent(), lambda messages: None, lambda fault: None, "test")  # type: ignore[arg-type]
    await poller.close()
    async with asyncio.timeout(60):
        with pytest.raises(LogError, match="it was closed"):
            await poller.call(name)


async def test_every_request_has_an_end_while_the_thread_ends() -> None:
    """Requests come from the event loop at any moment of the thread's end."""
    consumer = Silent()
    poller = Poller(consumer, lambda messages: None, lambda fault: None, "test")  # type: ignore[arg-type]
    closing = asyncio.create_task(poller.close())
    results: list[object] = []
    async with asyncio.timeout(60):
        while not closing.done():
            results += await asyncio.gather(poller.call(name), return_exceptions=True)
    assert {type(result) for result in results} <= {str, RuntimeError, LogError}
    await closing
