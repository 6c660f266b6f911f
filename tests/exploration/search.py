"""A case of the exploration: a world, where its search begins, and how far the search has to come.

A search that is cut off before its floor proves less than this page says: that is a failure, not a shorter line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from steelyard.operator.exploration import Exploration, Search, World

FAULTS = 3
"""Faults in one history at most; how many of all such histories were seen is what `floor` says."""


@dataclass(frozen=True)
class Extent:
    """How many states are looked at, and the number of faults up to which that has to be all of them."""

    states: int
    floor: int


@dataclass(frozen=True)
class Case:
    """A world, the moves after which its search begins, and how far it goes in CI and in `make soak`."""

    name: str
    make: Callable[[], World]
    short: Extent
    long: Extent
    after: tuple[str, ...] = ()


def parameters(cases: Sequence[Case]) -> list[object]:
    return [pytest.param(case, id=case.name.replace(" ", "-")) for case in cases]


def explore(case: Case, extent: Extent, capsys: pytest.CaptureFixture[str]) -> Exploration:
    """Search, print what was reached, and fail where that is less than the extent's floor."""
    reached = Search(case.make(), limit=extent.states, faults=FAULTS, after=case.after).run()
    with capsys.disabled():
        print(f"\n{case.name}: {reached}", end="")
    assert reached.complete_to >= extent.floor, (
        f"not all histories of {extent.floor} faults were seen within {extent.states} states"
    )
    return reached
