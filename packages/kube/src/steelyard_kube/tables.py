"""Dictionaries that once held thousands of entries: Python never makes one smaller when entries go.

An owner that keeps one for as long as the process lives replaces it by `shrunk` after entries were removed.
"""

import sys
from typing import Any, TypeVar, cast

Table = TypeVar("Table", bound=dict[Any, Any])
_SMALL = 16_384  # bytes, below which nothing is gained
_BYTES_PER_ENTRY = 400  # a dictionary that has just grown takes a third of it


def shrunk(table: Table) -> Table:
    """Return a copy of the size that the entries need, or the table itself where it is not much larger than that."""
    size = sys.getsizeof(table)
    if size <= _SMALL or size <= _BYTES_PER_ENTRY * len(table):
        return table
    return cast("Table", table.copy())
