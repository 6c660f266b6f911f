"""A thread that polls one consumer. Everything that is done with the consumer is done in this thread.

librdkafka calls back, for rebalances, in the thread that polls.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import Message as KafkaMessage

from steelyard.broker.kafka.address import logger
from steelyard.broker.log import LogError

T = TypeVar("T")
POLL_SECONDS = 0.02
"""Longest time that a request to the thread waits while there are no records."""
BATCH = 500


class Poller:
    """Polls until it is closed; `take` gets what came, in the thread.

    Where that fails, as it does on a full disk, the thread ends, and `fail` is called on the event loop.
    """

    def __init__(
        self,
        consumer: Consumer,
        take: Callable[[Sequence[KafkaMessage]], None],
        fail: Callable[[str], None],
        name: str,
    ) -> None:
        self._consumer, self._take, self._fail = consumer, take, fail
        self._loop = asyncio.get_running_loop()
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._end = False
        # Held while a request is added and while the last ones are taken: none is added that is never taken.
        self._adding = threading.Lock()
        self._ended = ""
        """Why the thread takes no more requests; empty while it does."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[Consumer], T]) -> T:
        """Return the result of `work`, which runs in the thread between two polls. Raises LogError if that ended."""
        future: asyncio.Future[T] = self._loop.create_future()

        def run() -> None:
            try:
                result = work(self._consumer)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's
                self.on_loop(_fail, future, error)
            else:
                self.on_loop(_resolve, future, result)

        if not self._add(run):
            raise LogError(f"the consumer of Kafka takes no requests any more: {self._ended}")
        return await future

    def post(self, work: Callable[[Consumer], None]) -> None:
        """Run `work` in the thread between two polls, after earlier requests. Its failure is logged."""

        def run() -> None:
            try:
                work(self._consumer)
            except KafkaException as error:
                logger.info("%s", error)

        self._add(run)

    def _add(self, run: Callable[[], None]) -> bool:
        """Leave a request to the thread; return False if the thread has ended."""
        with self._adding:
            if not self._ended:
                self._requests.put(run)
            return not self._ended

    def on_loop(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function on the event loop, after everything that was called in this way before."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and no task waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    async def close(self) -> None:
        """End the thread, and with it the consumer."""
        self._end = True
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        fault = "it was closed"
        try:
            while not self._end:
                self._serve()
                first = self._consumer.poll(POLL_SECONDS)
                if first is not None:
                    self._take([first, *self._consumer.consume(BATCH, 0)])
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the reading
            logger.exception("reading from Kafka ended")
            fault = f"{type(error).__name__}: {error}"
            self.on_loop(self._fail, fault)
        finally:
            with self._adding:
                self._ended = fault
            try:
                self._consumer.close()
            finally:
                # Those that came before: a closed consumer refuses them.
                self._serve()

    def _serve(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._requests.get_nowait()()


def _resolve(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
