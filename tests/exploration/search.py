"""A case of the exploration: a scenario, where its search begins, and how far the search has to come.

A search that is cut off before its floor proves less than this page says: that is a failure, not a shorter line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from steelyard.operator.simulation.exploration import Exploration, Scenario
from steelyard.operator.simulation.search import Search


@dataclass(frozen=True)
class Extent:
    """The number of faults up to which all states are looked at, in how many at most, and how many beyond."""

    floor: int
    states: int
    beyond: int = 500


@dataclass(frozen=True)
class Case:
    """A scenario, the moves after which its search begins, and how far it goes in CI and in `make soak`."""

    name: str
    make: Callable[[], Scenario]
    short: Extent
    long: Extent
    after: tuple[str, ...] = ()


def parameters(cases: Sequence[Case]) -> list[object]:
    return [pytest.param(case, id=case.name.replace(" ", "-")) for case in cases]


def explore(case: Case, extent: Extent, capsys: pytest.CaptureFixture[str]) -> Exploration:
    """Search, print the reached states, and fail if they are fewer than the extent's floor."""
    reached = Search(
        case.make(),
        limit=extent.states,
        floor=extent.floor,
        beyond=extent.beyond,
        after=case.after,
    ).run()
    with capsys.disabled():
        print(f"\n{case.name}: {reached}", end="")
    assert reached.complete_to >= extent.floor, (
        f"not all histories of {extent.floor} faults were seen within {extent.states} states"
    )
    return reached
