"""The choice of a Service's endpoint: turns, and clients that return to their own."""

from steelyard_local_kubernetes.names.choice import Choice
from steelyard_local_kubernetes.names.table import Address

FRONT: Address = ("127.9.128.1", 80)
ONE, TWO = ("127.9.0.1", 8000), ("127.9.0.2", 8000)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_client_comes_back_to_who_answered_it_for_a_while() -> None:
    clock = Clock()
    choice = Choice(clock)
    choice.show({FRONT: (ONE, TWO)}, {FRONT: 10.0})
    first = next(choice.order(FRONT, "127.0.0.1"))
    choice.note_answer(FRONT, "127.0.0.1", first)
    assert [next(choice.order(FRONT, "127.0.0.1")) for _ in range(3)] == [first] * 3
    # Others take turns, and the rest is tried if that Pod does not answer.
    assert {next(choice.order(FRONT, "127.0.0.2")) for _ in range(2)} == {ONE, TWO}
    assert set(choice.order(FRONT, "127.0.0.1")) == {ONE, TWO}
    clock.now += 10.0
    assert {next(choice.order(FRONT, "127.0.0.1")) for _ in range(2)} == {ONE, TWO}


def test_who_is_gone_is_not_come_back_to() -> None:
    choice = Choice(Clock())
    choice.show({FRONT: (ONE, TWO)}, {FRONT: 10.0})
    choice.note_answer(FRONT, "127.0.0.1", ONE)
    choice.show({FRONT: (TWO,)}, {FRONT: 10.0})
    assert list(choice.order(FRONT, "127.0.0.1")) == [TWO]


def test_without_affinity_all_take_turns() -> None:
    choice = Choice(Clock())
    choice.show({FRONT: (ONE, TWO)}, {})
    choice.note_answer(FRONT, "127.0.0.1", ONE)
    assert [next(choice.order(FRONT, "127.0.0.1")) for _ in range(4)] == [ONE, TWO, ONE, TWO]
