"""A check of the search itself: states that it takes for the same without further faults have the same futures.

It distinguishes all states, and compares what follows from those that `Simulator.state_key(last=True)` makes equal.
"""

from collections import Counter
from collections.abc import Sequence

from steelyard.operator.simulation.exploration import Scenario, find_actor, operator_moves
from steelyard.operator.simulation.search import ReachedState, Search


class MergingCheck(Search):
    """A search that merges nothing, and raises Violation where merging would have lost something."""

    def __init__(self, scenario: Scenario, *, limit: int, floor: int, after: Sequence[str] = ()) -> None:
        super().__init__(scenario, limit=limit, floor=floor, after=after, merging=False)
        self._followers: dict[object, tuple[Counter[tuple[str, int]], ReachedState]] = {}
        self.merged = 0

    def expand(self, reached: ReachedState) -> None:
        super().expand(reached)
        simulator, state = self._simulator, reached.state
        simulator.load(state)
        # how often a name was made decides the uid of the next object of that name, and nothing else
        alike = simulator.state_key(last=True), frozenset(state.objects.made.items())
        followers = self._without_faults(reached)
        others, other = self._followers.setdefault(alike, (followers, reached))
        self.merged += other is not reached
        if followers != others:
            names = ", ".join(sorted({name for name, _ in (followers - others) + (others - followers)}))
            raise self._violation(f"taken for the same, and differing after: {names}", reached.key, [])

    def _without_faults(self, reached: ReachedState) -> Counter[tuple[str, int]]:
        simulator, followers = self._simulator, Counter[tuple[str, int]]()
        for move in [*self._scenario.moves(simulator), *operator_moves(simulator, with_faults=False)]:
            if move.cost == 0:
                simulator.load(reached.state)
                move.run(simulator)
                self._scenario.fault(reached.state, simulator, find_actor(move.name))
                followers[move.name, simulator.state_key(last=True)] += 1
        return followers
