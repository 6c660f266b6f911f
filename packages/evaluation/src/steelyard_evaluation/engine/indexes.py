"""Positions of rows in the dataset by their `_index_`, without holding the dataset.

Datasets are nearly always numbered in a row, which needs no memory at all; others cost 16 bytes a row.
"""

import numpy as np
import numpy.typing as npt

from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.source import Source

Int64s = npt.NDArray[np.int64]
ABSENT = -1


class IndexMap:
    """`ordinals(indexes)`: where rows stand in the dataset; ABSENT for an index that it does not have."""

    def __init__(self, source: Source) -> None:
        """Reads the dataset's `_index_` column (blocking); EvaluationFailed when an index stands twice."""
        self._first = 0
        self._total = source.rows
        self._sorted: Int64s | None = None
        self._order: Int64s | None = None
        if not self._in_a_row(source):
            self._sort(np.concatenate(list(source.indexes())))

    def ordinals(self, indexes: Int64s) -> Int64s:
        if self._sorted is None or self._order is None:
            ordinals = indexes - self._first
            return np.where((ordinals >= 0) & (ordinals < self._total), ordinals, ABSENT)
        # Clipped: an index above all others is placed behind the end, where there is nothing to compare it
        # with.
        places = np.searchsorted(self._sorted, indexes).clip(max=self._total - 1)
        return np.where(self._sorted[places] == indexes, self._order[places], ABSENT)

    def index(self, ordinal: int) -> int:
        """The inverse: the `_index_` of the row at `ordinal`. For messages: it may search."""
        if self._sorted is None or self._order is None:
            return ordinal + self._first
        return int(self._sorted[np.flatnonzero(self._order == ordinal)[0]])

    def _in_a_row(self, source: Source) -> bool:
        expected: int | None = None
        for batch in source.indexes():
            if not len(batch):
                continue
            if expected is None:
                self._first = expected = int(batch[0])
            if batch[0] != expected or not np.all(np.diff(batch) == 1):
                return False
            expected += len(batch)
        return True

    def _sort(self, indexes: Int64s) -> None:
        self._order = np.argsort(indexes, kind="stable")
        self._sorted = indexes[self._order]
        double = np.flatnonzero(np.diff(self._sorted) == 0)
        if len(double):
            index = int(self._sorted[double[0]])
            raise EvaluationFailed(
                "BadDataset", f"the dataset has the index {index} twice", permanent=True, row=str(index)
            )
