"""The terms of the exploration: a scenario, its moves, what the operator may do next, what goes on without faults.

`search.py` searches; `scenarios.py`, `session_scenario.py` and, for training jobs, `training/simulation/scenario.py`
say what else may happen, and what must hold.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from steelyard.operator.simulation.simulator import GROUPS, WRITES, Call, Interruption, Simulator, State

Actor = Literal["operator", "late operator", "surroundings"]
"""Actors that change objects. The late operator was suspended between its decision and its write."""


class Move(NamedTuple):
    """Something that may happen: its name, how many faults it counts as, and what it does."""

    name: str
    cost: int
    run: Callable[[Simulator], None]


class Scenario(Protocol):
    """The surroundings of one resource."""

    name: str
    transitions: frozenset[str]

    def begin(self) -> Simulator: ...

    def moves(self, simulator: Simulator) -> list[Move]:
        """Return the moves that may happen now, other than the operator's."""
        ...

    def progress(self, simulator: Simulator) -> bool:
        """Do what happens sooner or later if nothing goes wrong; return False if there is nothing left to do."""
        ...

    def fault(self, before: State, simulator: Simulator, actor: Actor) -> str:
        """Say what is wrong with a change; empty if nothing is."""
        ...

    def end_fault(self, simulator: Simulator) -> str:
        """Say what is wrong with an end; empty if nothing is."""
        ...


class Violation(AssertionError):
    """Something that must never happen, and how it came about."""


@dataclass
class Exploration:
    """Results of a search, for the line that the test prints."""

    scenario: str
    states: int = 0
    complete_to: int = -1  # all states with so many faults were seen
    taken: Counter[str] = field(default_factory=Counter)
    fair_states: int = 0

    def __str__(self) -> str:
        within = f"all within {self.complete_to} faults"
        moves = ", ".join(f"{name} {count}" for name, count in sorted(self.taken.items()))
        return (
            f"{self.scenario}: {self.states} states ({within}), {self.fair_states} more on fair runs; {moves}"
        )


RESUMED = "the second operator goes on"
CAUGHT_UP = "caches catch up"
GARBAGE = "garbage collection"
LOOKED = "operator looks"
_OPERATOR = frozenset({LOOKED, "refused", "answer lost", "conflict"})


def operator_moves(simulator: Simulator, with_faults: bool) -> list[Move]:
    """Return what the operator and its caches may do next, with interruptions; changes the simulator's state."""
    behind, due, paused = simulator.behind(), simulator.due(), simulator.paused is not None
    moves = []
    if behind:
        moves.append(Move(CAUGHT_UP, 0, lambda simulator: simulator.catch_up(*GROUPS)))
    if paused:
        moves.append(Move(RESUMED, 0, Simulator.resume))
    if due:
        moves.append(_step(LOOKED, 0, None))
    if with_faults and due:
        simulator.step()
        moves += _interrupt_steps(simulator.calls, paused)
    if with_faults and len(behind) > 1:
        moves += [Move(f"only {group} catch up", 1, _catches_up(group)) for group in behind]
    return moves


def _interrupt_steps(calls: Sequence[Call], paused: bool) -> Iterator[Move]:
    for number, call in enumerate(calls):
        yield _step(f"crash before {call.verb}", 1, ("crash before", number))
        yield _step("refused", 1, ("refused", number))
        if call.verb in WRITES:
            yield _step("answer lost", 1, ("answer lost", number))
            if not paused:  # suspended before a read is the same as one that begins later
                yield _pause(call.verb, number)
        if call.verb == "patch/status":
            yield _step("conflict", 1, ("conflict", number))
    if calls:
        yield _step("crash after the last call", 1, ("crash after", len(calls) - 1))


def fair_move(scenario: Scenario, simulator: Simulator) -> str:
    """Let happen what comes next without faults, and return its name; empty when nothing is left."""
    if simulator.paused:
        simulator.resume()
        return RESUMED
    if simulator.behind():
        simulator.catch_up(*GROUPS)
        return CAUGHT_UP
    if simulator.cluster.collect():
        return GARBAGE
    if simulator.due():
        before = simulator.state_key()
        simulator.step()
        if not simulator.dirty or simulator.state_key() != before:
            return LOOKED  # else it could do nothing yet: the surroundings go on first
    if scenario.progress(simulator):
        return "progress"
    if simulator.look is not None:
        simulator.now = max(simulator.look, simulator.now)
        return "time passes"
    return ""


def find_actor(move: str) -> Actor:
    if move == RESUMED:
        return "late operator"
    by_operator = move in _OPERATOR or move.startswith(("crash", "a second operator"))
    return "operator" if by_operator else "surroundings"


def _catches_up(group: str) -> Callable[[Simulator], None]:
    return lambda simulator: simulator.catch_up(group)


def _step(name: str, cost: int, interruption: Interruption) -> Move:
    return Move(name, cost, lambda simulator: simulator.step(interruption))


def _pause(verb: str, number: int) -> Move:
    return Move(f"a second operator pauses before {verb}", 1, lambda simulator: simulator.pause(number))
