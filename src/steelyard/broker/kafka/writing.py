"""Producers: of single messages, and of transactions of several ones or of a group's work with its positions."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from steelyard.broker.kafka.address import Address
from steelyard.broker.kafka.cluster import code, reason
from steelyard.broker.kafka.messages import Outgoing, confirm
from steelyard.broker.log import LogError, Record

DELIVERY_SECONDS = 30.0
"""Time in which a message is written, or its writer learns that this is unknown."""
TRANSACTION_SECONDS = 10.0
"""Time after which the brokers end a transaction that its writer left open. Readers of its partitions wait for it."""
GRACE_SECONDS = 2.0
"""Time beyond its own limit after which a call of the client is given up."""
RETRY_SECONDS = 0.5
"""Time between two tries of a transaction that was undone."""


class Undone(LogError):
    """A transaction that was ended: nothing of it was written."""


_ENDED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
"""Codes of a transaction that the brokers ended, because it took too long."""


_Ended = tuple["asyncio.Future[Record]", Record | str]
"""A message whose end is known: its record, or why it failed."""


class SingleWriter:
    """Writes messages that need no other one. Each is written once, or its writer learns that this is unknown."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._end = False
        self._ended: list[_Ended] = []

    async def write(self, message: Outgoing) -> Record:
        """Return the record once it is durable. Raises LogError: whether it was written is then unknown."""
        topic = message["topic"].removeprefix(self._address.prefix)
        future: asyncio.Future[Record] = self._loop.create_future()

        def note_delivery(error: KafkaError | None, written: KafkaMessage) -> None:
            if error is None:
                self._ended.append((future, confirm(message, written, topic)))
            else:
                self._ended.append((future, f"log {self._address.url}: {topic}: {reason(error)}"))
                if error.fatal():
                    self._producer = None

        while True:
            try:
                self._open().produce(**message, on_delivery=note_delivery)
                break
            except BufferError:
                await asyncio.sleep(0.01)  # as many as fit wait for the brokers
            except KafkaException as error:
                raise LogError(f"log {self._address.url}: {topic}: {reason(error)}") from error
        return await future

    def _open(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                self._address.client(
                    acks="all",
                    enable_idempotence=True,
                    linger_ms=1,
                    message_max_bytes=64 << 20,
                    delivery_timeout_ms=int(DELIVERY_SECONDS * 1000),
                )
            )
            self._thread = threading.Thread(
                target=self._serve, args=(self._producer,), name="kafka-writer", daemon=True
            )
            self._thread.start()
        return self._producer

    def _serve(self, producer: Producer) -> None:
        # One that met a fatal error is served until its last message has failed.
        while not self._end and (producer is self._producer or len(producer)):
            producer.poll(0.1)
            # One wake of the event loop for all that one answer of a broker has confirmed.
            ended, self._ended = self._ended, []
            if ended:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(_finish, ended)

    async def close(self) -> None:
        self._end = True
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._producer = None


@dataclass(frozen=True)
class Positions:
    """Positions of a group's member, which become durable with the transaction."""

    offsets: Sequence[TopicPartition]
    member: Any


class Transactions:
    """Writes transactions, one after the other, each by a blocking call in a thread of its own."""

    def __init__(self, address: Address, name: str) -> None:
        self._address, self._name = address, name
        self._producer: Producer | None = None

    def write(self, messages: Sequence[Outgoing], positions: Positions | None = None) -> list[Record]:
        """Write all of them and the positions, or nothing; return the records once they are durable.

        Raises Undone where nothing was written, LogError where that is unknown.
        """
        try:
            producer = self._open()
            producer.begin_transaction()
        except KafkaException as error:
            self._producer = None
            raise Undone(self._text(error)) from error
        try:
            written = self._fill(producer, messages, positions)
        except KafkaException as error:
            self._abort(producer)
            raise Undone(self._text(error)) from error
        self._commit(producer)
        return written

    def begin(self) -> None:
        """End what an earlier producer of this name left open, and fence it. Raises LogError."""
        try:
            self._open()
        except KafkaException as error:
            raise LogError(self._text(error)) from error

    def close(self) -> None:
        self._producer = None

    def _open(self) -> Producer:
        if self._producer is None:
            producer = Producer(
                self._address.client(
                    transactional_id=self._address.topic(self._name),
                    transaction_timeout_ms=int(TRANSACTION_SECONDS * 1000),
                    delivery_timeout_ms=int(TRANSACTION_SECONDS * 1000),
                    message_max_bytes=64 << 20,
                    linger_ms=0,
                )
            )
            # Ends what an earlier producer of this name left open.
            producer.init_transactions(DELIVERY_SECONDS)
            self._producer = producer
        return self._producer

    def _fill(
        self, producer: Producer, messages: Sequence[Outgoing], positions: Positions | None
    ) -> list[Record]:
        places: list[Record | None] = [None] * len(messages)
        failures: list[KafkaError] = []

        def make_callback(number: int) -> Callable[[KafkaError | None, KafkaMessage], None]:
            def place(error: KafkaError | None, report: KafkaMessage) -> None:
                if error is not None:
                    failures.append(error)
                else:
                    message = messages[number]
                    topic = message["topic"].removeprefix(self._address.prefix)
                    places[number] = confirm(message, report, topic)

            return place

        for number, message in enumerate(messages):
            while True:
                try:
                    producer.produce(**message, on_delivery=make_callback(number))
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(TRANSACTION_SECONDS)
        if failures:
            raise KafkaException(failures[0])
        written = [record for record in places if record is not None]
        if len(written) < len(messages):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the brokers did not confirm in time"))
        if positions is not None:
            self._send(producer, positions)
        return written

    def _send(self, producer: Producer, positions: Positions) -> None:
        """Add the positions of a group to the transaction. Raises Undone where the client does not come back.

        Where the group's coordinator was killed, the client's call was seen to go on for minutes after its time was
        over. A thread of its own is left with it: it commits nothing, and the next producer of this name ends its
        open transaction.
        """
        failures: list[KafkaException] = []

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(
                    list(positions.offsets), positions.member, TRANSACTION_SECONDS
                )
            except KafkaException as error:
                failures.append(error)

        sender = threading.Thread(target=send, name="kafka-positions", daemon=True)
        sender.start()
        sender.join(TRANSACTION_SECONDS + GRACE_SECONDS)
        if sender.is_alive():
            self._producer = None
            raise Undone(f"log {self._address.url}: the positions of a group could not be written in time")
        if failures:
            raise failures[0]

    def _commit(self, producer: Producer) -> None:
        end = time.monotonic() + DELIVERY_SECONDS
        while True:
            try:
                producer.commit_transaction(TRANSACTION_SECONDS)
                return
            except KafkaException as error:
                cause = error.args[0]
                if cause.txn_requires_abort():
                    self._abort(producer)
                    raise Undone(self._text(error)) from error
                if cause.retriable() and time.monotonic() < end:
                    continue
                # The next producer of this name learns from the brokers how it ended, before it begins anything.
                self._producer = None
                if code(error) in _ENDED:
                    raise Undone(self._text(error)) from error
                raise LogError(f"{self._text(error)}; whether it was written is unknown") from error

    def _abort(self, producer: Producer) -> None:
        try:
            producer.abort_transaction(TRANSACTION_SECONDS)
        except KafkaException:
            self._producer = None  # the next one's start aborts it

    def _text(self, error: KafkaException) -> str:
        return f"log {self._address.url}: {reason(error)}"


def _finish(ended: Sequence[_Ended]) -> None:
    for future, result in ended:
        if future.done():
            continue
        if isinstance(result, Record):
            future.set_result(result)
        else:
            future.set_exception(LogError(result))
