"""Transactions on a client that does not come back."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from steelyard.broker.kafka.address import parse
from steelyard.broker.kafka.writing import Positions, Transactions, Undone


class Client:
    """A producer that writes nothing; its call about positions returns once `answered` is set."""

    def __init__(self, answered: threading.Event, done: Callable[[str], None]) -> None:
        self._answered, self._done = answered, done

    def begin_transaction(self) -> None:
        self._done("begin")

    def flush(self, timeout: float) -> int:
        return 0

    def send_offsets_to_transaction(self, offsets: object, member: object, timeout: float) -> None:
        self._answered.wait()
        self._done("positions")

    def commit_transaction(self, timeout: float) -> None:
        self._done("commit")

    def abort_transaction(self, timeout: float) -> None:
        self._done("abort")


def test_a_client_that_does_not_come_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call goes on for longer than its time: the batch is undone, and another producer writes it."""
    answered, done = threading.Event(), list[str]()
    clients: list[Any] = [Client(answered, done.append)]
    monkeypatch.setattr("steelyard.broker.kafka.writing.TRANSACTION_SECONDS", 0.05)
    monkeypatch.setattr("steelyard.broker.kafka.writing.GRACE_SECONDS", 0.05)
    transactions = Transactions(parse("kafka://127.0.0.1:9"), "name")
    transactions._producer = clients[0]
    try:
        with pytest.raises(Undone, match="positions of a group"):
            transactions.write([], Positions([], None))
        assert done == ["begin"], "nothing was committed"
        assert transactions._producer is None, "the next write begins with a producer of its own"
    finally:
        answered.set()
    monkeypatch.setattr("steelyard.broker.kafka.writing.TRANSACTION_SECONDS", 60.0)
    monkeypatch.setattr("steelyard.broker.kafka.writing.GRACE_SECONDS", 60.0)
    transactions._producer = clients[0]
    assert transactions.write([], Positions([], None)) == []
    assert done[-1] == "commit"
