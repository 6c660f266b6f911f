"""Searches all that may befall an operator and its resource, up to a bound, and checks that it always ends well.

From each state that is reached, a run without further faults (caches catch up, the operator looks whenever its
queue says so, Jobs and sessions get on, time passes when nothing else can happen) must end where it should.
Faults cost; all states within n faults come before those with n + 1, and of the last, incomplete round the seed
decides which are looked at.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, NamedTuple, Protocol

from steelyard.operator.bench import GROUPS, WRITES, Bench, Interruption, State

Json = dict[str, Any]
Actor = Literal["operator", "late operator", "surroundings"]
"""Who made a change. A late operator was suspended between its decision and its write."""


class Move(NamedTuple):
    """Something that may happen: its name, how many faults it counts as, and what it does."""

    name: str
    cost: int
    run: Callable[[Bench], None]


class World(Protocol):
    """The surroundings of one resource."""

    name: str
    transitions: frozenset[str]

    def begin(self) -> Bench: ...

    def moves(self, bench: Bench) -> list[Move]:
        """What may happen now besides the operator's own doing."""
        ...

    def progress(self, bench: Bench) -> bool:
        """What happens sooner or later if nothing goes wrong; False when there is nothing left."""
        ...

    def fault(self, before: State, bench: Bench, actor: Actor) -> str:
        """What is wrong with a change; empty when nothing is."""
        ...

    def end_fault(self, bench: Bench) -> str:
        """What is wrong with an end; empty when nothing is."""
        ...


class Violation(AssertionError):
    """Something that must never happen, and how it came about."""


class _Step(NamedTuple):
    parent: int | None
    move: str


@dataclass
class Exploration:
    """What a search found, for the test's printed line."""

    world: str
    states: int = 0
    complete_to: int = -1  # all states with so many faults were seen
    taken: Counter[str] = field(default_factory=Counter)
    fair_states: int = 0

    def __str__(self) -> str:
        within = f"all within {self.complete_to} faults"
        moves = ", ".join(f"{name} {count}" for name, count in sorted(self.taken.items()))
        return f"{self.world}: {self.states} states ({within}), {self.fair_states} more on fair runs; {moves}"


MAX_FAIR = 400


class Search:
    """One search of one world."""

    def __init__(
        self, world: World, *, limit: int, faults: int, after: Sequence[str] = (), seed: int = 1
    ) -> None:
        """The search begins after the moves `after`, by name."""
        self._world, self._limit, self._faults, self._after = world, limit, faults, after
        self._chance = Random(seed)
        self._bench = world.begin()
        self._parents: dict[int, _Step] = {}
        self._settled: set[int] = set()  # states from which a fair run ends well
        self.found = Exploration(world.name)

    def run(self) -> Exploration:
        """Raises Violation, which says what happened, move by move."""
        start = self._bench.save()
        for name in self._after:
            move = next(each for each in self._moves(start) if each.name == name)
            self._bench.load(start)
            move.run(self._bench)
            start = self._bench.save()
        self._parents[start.key()] = _Step(None, "")
        self._settle(start)
        rounds: list[list[State]] = [[start], *([] for _ in range(self._faults))]
        for spent, states in enumerate(rounds):
            for state in states:  # grows: what happens without a further fault belongs to the same round
                if len(self._parents) >= self._limit:
                    return self._report()
                states.extend(following for _, following in self._expand(state, range(1)))
            self.found.complete_to = spent
            self._chance.shuffle(states)
            for state in states:
                if len(self._parents) >= self._limit:
                    return self._report()
                for cost, following in self._expand(state, range(1, self._faults - spent + 1)):
                    rounds[spent + cost].append(following)
        return self._report()

    def _report(self) -> Exploration:
        self.found.states = len(self._parents)
        self.found.fair_states = len(self._settled - self._parents.keys())
        return self.found

    # ---- what may happen

    def _expand(self, state: State, costs: range) -> Iterator[tuple[int, State]]:
        for move in self._moves(state):
            if move.cost not in costs:
                continue
            self._bench.load(state)
            move.run(self._bench)
            self.found.taken[move.name] += 1
            self._check(state, move)
            following = self._bench.save()
            key = following.key()
            if key not in self._parents:
                self._parents[key] = _Step(state.key(), move.name)
                self._settle(following)
                yield move.cost, following

    def _moves(self, state: State) -> list[Move]:
        self._bench.load(state)
        moves = list(self._world.moves(self._bench))
        behind = self._bench.behind()
        if behind:
            moves.append(Move("caches catch up", 0, lambda bench: bench.catch_up(*GROUPS)))
            if len(behind) > 1:
                moves += [_only(group) for group in behind]
        if self._bench.paused:
            moves.append(Move(RESUMED, 0, Bench.resume))
        if self._bench.due():
            moves += self._steps(state)
        return moves

    def _steps(self, state: State) -> list[Move]:
        """The operator's look, and each way in which it may be interrupted."""
        self._bench.load(state)
        self._bench.step()
        calls = self._bench.calls
        steps = [_step("operator looks", 0, None)]
        for number, call in enumerate(calls):
            steps.append(_step(f"crash before {call.verb}", 1, ("crash before", number)))
            steps.append(_step("refused", 1, ("refused", number)))
            if call.verb in WRITES:
                steps.append(_step("answer lost", 1, ("answer lost", number)))
                if state.paused is None:  # suspended before a read is the same as one that begins later
                    steps.append(_pause(call.verb, number))
            if call.verb == "patch/status":
                steps.append(_step("conflict", 1, ("conflict", number)))
        if calls:
            steps.append(_step("crash after the last call", 1, ("crash after", len(calls) - 1)))
        return steps

    def _check(self, state: State, move: Move) -> None:
        if fault := self._world.fault(state, self._bench, _actor(move.name)):
            raise self._violation(fault, state.key(), [move.name])

    # ---- a run without faults

    def _settle(self, state: State) -> None:
        """From the state itself, and from what the operator makes of it with its cache as it is."""
        self._bench.load(state)
        self._run(state, [])
        self._bench.load(state)
        if self._bench.due():
            self._bench.step()
            if fault := self._world.fault(state, self._bench, "operator"):
                raise self._violation(fault, state.key(), ["operator looks"])
            self._run(state, ["operator looks"])

    def _run(self, state: State, moves: list[str]) -> None:
        path: list[int] = []
        key = self._bench.save().key()
        while key not in self._settled:
            if key in path or len(path) > MAX_FAIR:
                raise self._violation("a run without faults never ends", state.key(), moves)
            path.append(key)
            before = self._bench.save()
            moves.append(self._fair_move())
            if not moves[-1]:
                if fault := self._world.end_fault(self._bench):
                    raise self._violation(f"a run without faults ends badly: {fault}", state.key(), moves)
                break
            if fault := self._world.fault(before, self._bench, _actor(moves[-1])):
                raise self._violation(fault, state.key(), moves)
            key = self._bench.save().key()
        self._settled.update(path)

    def _fair_move(self) -> str:
        bench = self._bench
        if bench.paused:
            bench.resume()
            return RESUMED
        if bench.behind():
            bench.catch_up(*GROUPS)
            return "caches catch up"
        if bench.cluster.collect():
            return "garbage collection"
        if bench.due():
            before = bench.save().key()
            bench.step()
            if not bench.dirty or bench.save().key() != before:
                return "operator looks"  # else it could do nothing yet: the world goes on first
        if self._world.progress(bench):
            return "progress"
        if bench.look is not None:
            bench.now = max(bench.look, bench.now)
            return "time passes"
        return ""

    def _violation(self, fault: str, key: int, moves: list[str]) -> Violation:
        path: list[str] = []
        step: _Step | None = self._parents.get(key)
        while step is not None and step.parent is not None:
            path.append(step.move)
            step = self._parents.get(step.parent)
        told = " → ".join(reversed(path)) or "at the start"
        objects = "\n".join(
            f"  {obj['kind']} {obj['metadata']['name']} {obj.get('status', '')}"
            for obj in self._bench.store.objects()
        )
        facts = ", ".join(sorted(self._bench.facts))
        return Violation(
            f"{self._world.name}: {fault}\n{told}\nthen: {' → '.join(moves)}\nfacts: {facts}\n{objects}"
        )


RESUMED = "the second operator goes on"
_OPERATOR = frozenset({"operator looks", "refused", "answer lost", "conflict"})


def _actor(move: str) -> Actor:
    if move == RESUMED:
        return "late operator"
    by_operator = move in _OPERATOR or move.startswith(("crash", "a second operator"))
    return "operator" if by_operator else "surroundings"


def _only(group: str) -> Move:
    return Move(f"only {group} catch up", 1, lambda bench: bench.catch_up(group))


def _step(name: str, cost: int, interruption: Interruption) -> Move:
    return Move(name, cost, lambda bench: bench.step(interruption))


def _pause(verb: str, number: int) -> Move:
    return Move(f"a second operator pauses before {verb}", 1, lambda bench: bench.pause(number))
