"""Columns of a dataset by their names: those that rubrics and input pipelines read, and what to say of missing ones.

A rubric may name several: `target|answer|label` is the first of these that the dataset has. An empty name stands for
"or none": `choices|` may be missing. A column may also have the name `a|b` itself.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from steelyard_schema.data import SchemaAdapter

INDEX = "_index_"
"""Column with the number of a row."""
_READ_BY = {"Select": "fields", "ExplodeCollections": "collections", "Map": "collections"}
_PLAIN_PATH = re.compile(r"\$\.([A-Za-z_]\w*)(?:[.\[][^|]*)?")


def present(column: str, there: Collection[str]) -> str | None:
    """Return the requested column of those in `there`; None where it is missing or optional."""
    return next((name for name in (column, *column.split("|")) if name and name in there), None)


def parts(column: str) -> list[str]:
    """Return the names; one of them is requested."""
    return [name for name in column.split("|") if name]


def optional(column: str) -> bool:
    return "" in column.split("|")


def column_text(column: str) -> str:
    """Name the columns for a message: `'target' (nor 'answer', nor 'label')`."""
    first, *others = parts(column)
    return repr(first) + (f" (nor {', nor '.join(map(repr, others))})" if others else "")


def lacking(requested: Collection[str], there: Collection[str]) -> str:
    """Return what a dataset has in place of a column, for a message: its columns, and the one that was probably
    meant."""
    there = [name for name in there if name != INDEX]
    has = f"it has {', '.join(there) or 'no columns'}"
    by_form = {_form(name): name for name in reversed(there)}
    for wanted in requested:
        near = difflib.get_close_matches(_form(wanted), by_form, 1, 0.8)
        if near:
            return f"{has}; did you mean {by_form[near[0]]!r}?"
    return has


def sentence(text: str) -> str:
    """End a text as a sentence: one that ends with a question has its mark."""
    return text if text.endswith("?") else f"{text}."


def columns_read(adapter: SchemaAdapter) -> tuple[str, ...]:
    """Return the columns that each row must have for an adapter; none where the adapter decides by the row."""
    configuration = adapter.configuration or {}
    if adapter.kind == "Rename":
        return tuple(configuration)
    if adapter.kind == "TransformJSON":
        return tuple(dict.fromkeys(_paths(configuration)))
    names = configuration.get(_READ_BY.get(adapter.kind, ""), ())
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _paths(template: Any) -> Iterator[str]:
    """Yield the columns in whose places a template has values; computations may do without theirs."""
    match template:
        case str() if path := _PLAIN_PATH.fullmatch(template):
            yield path[1]
        case dict() if "$compute" not in template:
            for value in template.values():
                yield from _paths(value)
        case list():
            for value in template:
                yield from _paths(value)


def _form(name: str) -> str:
    """Return a name without the characters that are easily overlooked."""
    return re.sub(r"[\W_]+", "", name).casefold()


def missing(column: str, there: Collection[str], location: str) -> str | None:
    """Return what a message says of a column that a rubric reads and `location` lacks; None if nothing is missing."""
    if present(column, there) is not None or optional(column):
        return None
    return f"reads the column {column_text(column)}, which {location} lacks: {lacking(parts(column), there)}"


def value(column: str, row: Mapping[str, Any]) -> Any:
    """Return the row's value in the first of these columns; None without any of them."""
    name = present(column, row)
    return None if name is None else row[name]
