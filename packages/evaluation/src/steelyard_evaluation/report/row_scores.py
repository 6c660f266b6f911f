"""Look-up of the scores of rows of an output. A file of scores has a row for each row of the output, in its order, or a
row for each of another unit (a document of several requests), with the index of the unit's first row.

The rows of a report's page, `show` and `export` use it.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from steelyard_evaluation.report.statistics.intervals import Integers

KEYS = ["_index_", "_replication_"]


class RowScores:
    """Scores by row of the output, which may be requested in any order; the order of the scores is fastest."""

    def __init__(self, scores: pa.Table) -> None:
        self._scores = scores
        self._start = 0
        self._sorted: tuple[list[str], Integers, Integers] | None = None
        self.missing = 0
        """Number of requested rows that have no scores."""

    def lookup(self, rows: pa.Table) -> pa.Table:
        """Return the scores of these rows in their order; a row without scores has nulls."""
        near = self._scores.slice(self._start, rows.num_rows)
        # Scores are in the order of the output: comparing a slice costs a fraction of looking up each row.
        if near.select(KEYS).equals(rows.select(KEYS)):
            self._start += rows.num_rows
            return near
        return self._look_up(rows)

    def _look_up(self, rows: pa.Table) -> pa.Table:
        names, keys, order = self._by_key()
        requested = _keys(rows, names)
        positions = np.minimum(np.searchsorted(keys, requested), max(0, keys.size - 1))
        missing = keys[positions] != requested if keys.size else np.ones(requested.size, dtype=np.bool_)
        self.missing += int(missing.sum())
        indices: Any = pa.array(order[positions] if keys.size else positions, pa.int64(), mask=missing)
        scores = self._scores.take(indices)
        for name in KEYS:
            column = scores.column_names.index(name)
            # A row without scores has nulls in the taken columns, also in its own keys: these are put back.
            scores = scores.set_column(column, self._scores.schema.field(name), rows[name])
        return scores

    def _by_key(self) -> tuple[list[str], Integers, Integers]:
        """Return the names of the replications, the sorted keys of the scores, and the rows that have these keys."""
        if self._sorted is None:
            names: Any = self._scores["_replication_"].unique().to_pylist()
            keys = _keys(self._scores, names)
            order = np.argsort(keys, kind="stable")
            self._sorted = names, keys[order], order
        return self._sorted


def _keys(rows: pa.Table, names: list[str]) -> Integers:
    """Return a number for each row, equal for equal keys; below zero for replications that are not in `names`."""
    codes = {name: code for code, name in enumerate(names)}
    names_of_rows: Any = rows["_replication_"].to_pylist()
    replication = np.asarray([codes.get(name, -1) for name in names_of_rows], dtype=np.int64)
    index = np.asarray(rows["_index_"].to_numpy(), dtype=np.int64)
    return np.where(replication < 0, -1, index * max(1, len(names)) + replication)
