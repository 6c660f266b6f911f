"""Scores beside the rows of an output. A file of scores has a row for each row of the output, in its order, or a row
for each of another unit (a document of several requests), which stands at the first of its rows.

Whoever shows rows with their scores asks here: the rows of a report's page, `show` and `export`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.report.statistics.intervals import Integers

KEYS = ["_index_", "_replication_"]


class Beside:
    """Gives the scores of rows of the output, asked for in any order; in the order of the scores it is fastest."""

    def __init__(self, scores: pa.Table) -> None:
        self._scores = scores
        self._start = 0
        self._sorted: tuple[list[str], Integers, Integers] | None = None
        self.missing = 0
        """Number of rows that were asked for so far and have no scores."""

    def of(self, rows: pa.Table) -> pa.Table:
        """The scores of these rows in their order; null in each column of a row that has none."""
        near = self._scores.slice(self._start, rows.num_rows)
        if near.select(KEYS).equals(rows.select(KEYS)):
            self._start += rows.num_rows
            return near
        return self._look_up(rows)

    def _look_up(self, rows: pa.Table) -> pa.Table:
        names, keys, order = self._by_key()
        wanted = _keys(rows, names)
        places = np.minimum(np.searchsorted(keys, wanted), max(0, keys.size - 1))
        missing = keys[places] != wanted if keys.size else np.ones(wanted.size, dtype=np.bool_)
        self.missing += int(missing.sum())
        taken: Any = pa.array(order[places] if keys.size else places, pa.int64(), mask=missing)
        scores = self._scores.take(taken)
        for name in KEYS:
            place = scores.column_names.index(name)
            scores = scores.set_column(place, self._scores.schema.field(name), rows[name])
        return scores

    def _by_key(self) -> tuple[list[str], Integers, Integers]:
        """Names of the replications, the key of each row of the scores in order, and the places of these rows."""
        if self._sorted is None:
            names: Any = self._scores["_replication_"].unique().to_pylist()
            keys = _keys(self._scores, names)
            order = np.argsort(keys, kind="stable")
            self._sorted = names, keys[order], order
        return self._sorted


def _keys(rows: pa.Table, names: list[str]) -> Integers:
    """A number for each row that is the same for the same row; below zero for replications that are not named."""
    codes = {name: code for code, name in enumerate(names)}
    names_of_rows: Any = rows["_replication_"].to_pylist()
    replication = np.asarray([codes.get(name, -1) for name in names_of_rows], dtype=np.int64)
    index = np.asarray(rows["_index_"].to_numpy(), dtype=np.int64)
    return np.where(replication < 0, -1, index * max(1, len(names)) + replication)
