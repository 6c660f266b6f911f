"""Sets of rows of one evaluation, and how they are written down.

A row's position is `ordinal in the input * replications + replication`: every call of an evaluation has exactly one,
in the order in which they are made, so that a finished stretch of work is one range.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

Ranges = list[list[int]]
"""Half-open `[start, stop)` pairs in ascending order."""

Positions = npt.NDArray[np.int64]


class RowSet:
    """A set of positions below `total`: one byte each, so that ten million rows take 10 MB."""

    def __init__(self, total: int) -> None:
        self._present = np.zeros(total, dtype=np.bool_)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, position: int) -> bool:
        return bool(self._present[position])

    @property
    def total(self) -> int:
        return len(self._present)

    def add(self, positions: Iterable[int]) -> None:
        self.add_new(np.fromiter(positions, dtype=np.int64))

    def add_new(self, positions: Positions) -> npt.NDArray[np.bool_]:
        """Add `positions`; says of each whether it was new (of two equal ones, the first is)."""
        first = np.zeros(len(positions), dtype=np.bool_)
        # One batch may hold the same position twice, which the array of earlier ones cannot show.
        first[np.unique(positions, return_index=True)[1]] = True
        new = np.logical_and(first, np.logical_not(self._present[positions]))
        self._present[positions] = True
        self._count += int(np.count_nonzero(new))
        return new

    def add_ranges(self, ranges: Ranges) -> None:
        for start, stop in ranges:
            if not 0 <= start <= stop <= self.total:
                raise ValueError(f"the range [{start}, {stop}) is outside 0 to {self.total}")
            self._present[start:stop] = True
        # Counted again: the ranges may overlap what was there.
        self._count = int(np.count_nonzero(self._present))

    def ranges(self) -> Ranges:
        return _ranges(self._present)

    def missing(self) -> Iterator[int]:
        """The positions that are not in the set, in ascending order."""
        for start, stop in _ranges(~self._present):
            yield from range(start, stop)

    def complete(self, replications: int) -> npt.NDArray[np.bool_]:
        """Return for each row of the dataset whether all its replications are in the set."""
        complete = np.logical_and.reduce(self._present.reshape(-1, replications), axis=1)
        return np.asarray(complete, dtype=np.bool_)


def make_ranges(positions: Iterable[int]) -> Ranges:
    """`positions` as ranges; they need no order and may repeat."""
    ordered = np.unique(np.fromiter(positions, dtype=np.int64))
    if len(ordered) == 0:
        return []
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    starts = np.concatenate(([0], breaks + 1))
    stops = np.concatenate((breaks, [len(ordered) - 1]))
    return [[int(ordered[a]), int(ordered[b]) + 1] for a, b in zip(starts, stops, strict=True)]


def _ranges(present: npt.NDArray[np.bool_]) -> Ranges:
    edges = np.flatnonzero(np.diff(present.astype(np.int8), prepend=0, append=0))
    return [[int(a), int(b)] for a, b in zip(edges[::2], edges[1::2], strict=True)]
