"""Columns that a rubric names by several names: `target|answer|label` is the first of these that the dataset has.

An empty name stands for "or none": `choices|` may be missing. A column may also have the name `a|b` itself.
"""

from collections.abc import Collection, Mapping
from typing import Any


def present(column: str, there: Collection[str]) -> str | None:
    """Return the requested column of those in `there`; None where it is missing or optional."""
    return next((name for name in (column, *column.split("|")) if name and name in there), None)


def optional(column: str) -> bool:
    return "" in column.split("|")


def named(column: str) -> str:
    """Name the columns for a message: `'target' (nor 'answer', nor 'label')`."""
    first, *others = [name for name in column.split("|") if name]
    return repr(first) + (f" (nor {', nor '.join(map(repr, others))})" if others else "")


def value(column: str, row: Mapping[str, Any]) -> Any:
    """Return the row's value in the first of these columns; None if it has none of them."""
    name = present(column, row)
    return None if name is None else row[name]
