"""The search of all that may befall an operator and its resource in a scenario of the exploration, up to some faults.

From each state that is reached, a run without further faults (caches catch up, the operator reconciles whenever its
queue says so, Jobs and sessions get on, time passes when nothing else can happen) must end where it should. Faults
cost; all states within n faults come before those with n + 1, up to the floor. Beyond it, the seed decides which are
looked at.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

from steelyard.operator.simulation.exploration import (
    CAUGHT_UP,
    GARBAGE,
    LOOKED,
    RESUMED,
    Exploration,
    Move,
    Scenario,
    Violation,
    fair_move,
    find_actor,
    operator_moves,
)
from steelyard.operator.simulation.simulator import State

MAX_FAIR = 400
GOOD_END = 0
"""Stands where a state would follow in a run without faults, and it has ended as it should."""
KEPT = 5_000
"""States from which the search goes on beyond its floor."""
FURTHER = 2
"""Faults beyond the floor in one history at most."""


class _Step(NamedTuple):
    """First way to a state: the state before, and which of its moves."""

    parent: int
    number: int
    move: str


class ReachedState(NamedTuple):
    """A state that is to be looked at, and the faults that led to it."""

    key: int
    spent: int
    state: State


class Search:
    """One search of one scenario: all histories of at most `floor` faults, then some with a few more."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        limit: int,
        floor: int,
        beyond: int = 0,
        after: Sequence[str] = (),
        seed: int = 1,
        merging: bool = True,
    ) -> None:
        """The search begins after the moves `after`, by name.

        It visits `limit` states at most; `beyond` of them have more faults than the floor. Without `merging`, also
        the states of the last round are distinguished by all that they differ in.
        """
        self._scenario, self._limit, self._floor, self._beyond = scenario, limit, floor, beyond
        self._rng, self._merging = Random(seed), merging
        self._simulator = scenario.begin()
        self._simulator.number_by_content()
        self._rounds: list[deque[ReachedState]] = [deque() for _ in range(self._floor + 1)]
        self._reached: dict[int, int] = {}  # by key, with how few faults
        self._steps: dict[int, _Step] = {}  # how a state was first reached
        self._kept: list[ReachedState] = []
        self._fair: dict[int, int] = {}  # the state that follows in a run without faults
        self.exploration = Exploration(scenario.name)
        self._simulator.load(self._after(after))
        self._first = self._meet(0, None)
        self._start = self._simulator.save()

    def run(self) -> Exploration:
        """Raises Violation, which says what happened, move by move."""
        for spent, states in enumerate(self._rounds):
            while states:  # it grows: what needs no further fault is of the same round
                if self.exploration.states >= self._limit:
                    # The limit is reached: what was met and not looked at has to come to a good end at least.
                    for left in self._rounds:
                        for reached in left:
                            self._settle(reached)
                    self._require_good_ends()
                    return self.exploration
                if self._reached[states[0].key] == spent:  # else it was reached with fewer faults meanwhile
                    self.expand(states[0])
                    self._keep(states[0])
                states.popleft()
            self._require_good_ends()
            self.exploration.complete_to = spent
        self._sample()
        self._require_good_ends()
        return self.exploration

    def _after(self, names: Sequence[str]) -> State:
        state = self._simulator.save()
        for name in names:
            move = next(move for move in self._moves(state, with_faults=True) if move.name == name)
            self._simulator.load(state)
            move.run(self._simulator)
            state = self._simulator.save()
        return state

    # ---- all states

    def _meet(self, spent: int, step: _Step | None) -> int:
        """Return the key of the state that the simulator is in, and put it into its round if it is new.

        In the last round, states count as equal that differ in nothing that matters without further faults. A state
        of an earlier round stands for those of the last that equal it.
        """
        last = spent == self._floor and self._merging
        key = alike = self._simulator.state_key(last=True)
        if not last:
            key = self._simulator.state_key()
        if self._reached.get(key, spent + 1) <= spent:
            return key
        self._reached[key] = spent
        if step is not None:
            self._steps[key] = step
        if not last:
            self._reached[alike] = min(self._reached.get(alike, spent), spent)
            if (
                alike != key
            ):  # what an operator that knows its writes sees has one key: it would follow itself
                self._fair.setdefault(alike, key)
        self._rounds[spent].append(ReachedState(key, spent, self._simulator.save()))
        return key

    def expand(self, reached: ReachedState) -> None:
        """Take every move that the faults allow, from a state that was reached."""
        key, spent, state = reached
        left = self._floor - spent
        self.exploration.states += 1
        followers: dict[str, int] = {}
        for number, move in enumerate(self._moves(state, left > 0)):
            if move.cost <= left:
                self._take(move, reached)
                followers[move.name] = self._meet(spent + move.cost, _Step(key, number, move.name))
        self._fair[key] = self._fair_follower(key, state, followers)

    def _moves(self, state: State, with_faults: bool) -> list[Move]:
        """Return the moves that may happen next; those without cost come first, so that numbers do not depend
        on the cost.
        """
        self._simulator.load(state)
        moves = list(self._scenario.moves(self._simulator))
        return moves + operator_moves(self._simulator, with_faults)

    def _take(self, move: Move, reached: ReachedState) -> None:
        self._simulator.load(reached.state)
        move.run(self._simulator)
        self.exploration.taken[move.name] += 1
        self._check(reached.state, reached.key, [move.name])

    def _check(self, before: State, key: int, moves: list[str]) -> None:
        """The last of these moves since `key` has left nothing that must not be."""
        if fault := self._scenario.fault(before, self._simulator, find_actor(moves[-1])):
            raise self._violation(fault, key, moves)

    # ---- some states

    def _keep(self, reached: ReachedState) -> None:
        """Keep an even choice of all states that were looked at, to go on from beyond the floor."""
        if len(self._kept) < KEPT:
            self._kept.append(reached)
        elif (index := self._rng.randrange(self.exploration.states)) < KEPT:
            self._kept[index] = reached

    def _sample(self) -> None:
        """Go beyond the floor, from states that chance decides on, until the limit."""
        limit = min(self._limit, self.exploration.states + self._beyond)
        self._rng.shuffle(self._kept)
        for reached in self._kept:
            costs = range(self._floor - reached.spent + 1, self._floor - reached.spent + 1 + FURTHER)
            for number, move in enumerate(self._moves(reached.state, with_faults=True)):
                if self.exploration.states >= limit:
                    return
                if move.cost in costs:
                    self._take(move, reached)
                    key = self._simulator.state_key()
                    if key not in self._steps:
                        self.exploration.states += 1
                        self._steps[key] = _Step(reached.key, number, move.name)
                        self._settle(ReachedState(key, reached.spent + move.cost, self._simulator.save()))

    def _settle(self, reached: ReachedState) -> None:
        """Go on without faults from a state, and from what the operator makes of it with its cache as it is."""
        self._simulator.load(reached.state)
        self._fair[reached.key] = self._run_fairly(reached.key, [])
        self._simulator.load(reached.state)
        if self._simulator.due():
            self._simulator.step()
            self._check(reached.state, reached.key, [LOOKED])
            self._run_fairly(reached.key, [LOOKED])

    # ---- runs without faults

    def _fair_follower(self, key: int, state: State, followers: dict[str, int]) -> int:
        """The key of the state that follows without faults: one that the search has met itself, where it can be."""
        if state.paused:
            return followers[RESUMED]
        if CAUGHT_UP in followers:
            return followers[CAUGHT_UP]
        if followers.get(GARBAGE, key) != key:
            return followers[GARBAGE]
        looked = followers.get(LOOKED)
        if looked is not None and (looked != key or not state.dirty):
            return looked
        self._simulator.load(state)
        return self._run_fairly(key, [])

    def _run_fairly(self, key: int, moves: list[str]) -> int:
        """Go on from the state that the simulator is in until a known one follows; return what follows first."""
        followers: list[int] = []
        while len(followers) < MAX_FAIR:
            before = self._simulator.save()
            moves.append(fair_move(self._scenario, self._simulator))
            if moves[-1]:
                self._check(before, key, moves)
                followers.append(self._simulator.state_key(last=True))
            elif fault := self._scenario.end_fault(self._simulator):
                raise self._violation(f"a run without faults ends badly: {fault}", key, moves)
            else:
                followers.append(GOOD_END)
            self._fair.update(pairwise(followers[-2:]))
            if followers[-1] == GOOD_END or followers[-1] in self._reached or followers[-1] in self._fair:
                return followers[0]
            self.exploration.fair_states += 1
        raise self._violation("a run without faults never ends", key, moves)

    def _require_good_ends(self) -> None:
        """Require that a run without faults reaches a good end from every known state."""
        for key in (self._first, *self._steps):
            path: dict[int, None] = {}
            following: int | None = key
            while following is not None and following != GOOD_END:
                if following in path:
                    raise self._endless(key)
                path[following] = None
                following = self._fair.get(following)
            if following == GOOD_END:
                self._fair.update(dict.fromkeys(path, GOOD_END))

    # ---- what went wrong

    def _endless(self, key: int) -> Violation:
        self._simulator.load(self._rebuild_state(key))
        moves: list[str] = []
        seen: set[int] = set()
        while (now := self._simulator.state_key()) not in seen:
            seen.add(now)
            moves.append(fair_move(self._scenario, self._simulator))
        return self._violation("a run without faults never ends", key, moves)

    def _rebuild_state(self, key: int) -> State:
        """Return a state that was met, by taking all moves once more that led to it."""
        state = self._start
        for step in self._path(key):
            move = self._moves(state, with_faults=True)[step.number]
            self._simulator.load(state)
            move.run(self._simulator)
            self._scenario.fault(state, self._simulator, find_actor(move.name))  # it may note something
            state = self._simulator.save()
        return state

    def _path(self, key: int) -> list[_Step]:
        path = []
        while step := self._steps.get(key):
            path.append(step)
            key = step.parent
        return path[::-1]

    def _violation(self, fault: str, key: int, moves: list[str]) -> Violation:
        path = " → ".join(step.move for step in self._path(key)) or "at the start"
        objects = "\n".join(
            f"  {obj['kind']} {obj['metadata']['name']} {obj.get('status', '')}"
            for obj in self._simulator.store.objects()
        )
        facts = ", ".join(sorted(self._simulator.facts))
        return Violation(
            f"{self._scenario.name}: {fault}\n{path}\nthen: {' → '.join(moves)}\nfacts: {facts}\n{objects}"
        )
