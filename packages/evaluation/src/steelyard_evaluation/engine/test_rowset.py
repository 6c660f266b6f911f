"""Row sets: they are sets, however they are written down."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard_evaluation.engine.rowset import RowSet, make_ranges

POSITIONS = st.lists(st.integers(0, 40), max_size=60)


@given(POSITIONS)
def test_ranges_hold_exactly_the_positions(positions: list[int]) -> None:
    ranges = make_ranges(positions)
    assert [position for start, stop in ranges for position in range(start, stop)] == sorted(set(positions))
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


@given(POSITIONS, POSITIONS)
def test_a_row_set_counts_each_row_once(first: list[int], second: list[int]) -> None:
    rows = RowSet(41)
    assert rows.add_new(np.array(first, dtype=np.int64)).sum() == len(set(first))
    assert rows.add_new(np.array(second, dtype=np.int64)).sum() == len(set(second) - set(first))
    union = set(first) | set(second)
    assert len(rows) == len(union)
    assert rows.ranges() == make_ranges(union)
    assert list(rows.missing()) == sorted(set(range(41)) - union)


@given(POSITIONS)
def test_of_equal_positions_the_first_is_new(positions: list[int]) -> None:
    new = RowSet(41).add_new(np.array(positions, dtype=np.int64))
    assert [bool(place) for place in new] == [
        position not in positions[:n] for n, position in enumerate(positions)
    ]


@given(POSITIONS, POSITIONS)
def test_ranges_add_up(first: list[int], second: list[int]) -> None:
    rows = RowSet(41)
    rows.add_ranges(make_ranges(first))
    rows.add_ranges(make_ranges(second))
    assert rows.ranges() == make_ranges([*first, *second])
    assert len(rows) == len({*first, *second})


def test_a_row_is_complete_with_all_its_replications() -> None:
    rows = RowSet(6)
    rows.add([0, 1, 2, 5])
    assert rows.complete(2).tolist() == [True, False, False]


def test_ranges_outside_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[4, 9\) is outside"):
        RowSet(6).add_ranges([[4, 9]])
