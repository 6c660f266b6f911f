"""Checks that a file has the tables that its number of migrations promises. `file.py` asks before it uses one.

The number alone does not say it: a version that was never released may have had other tables by the same number.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from steelyard_common import __version__

_MADE = "steelyard_made"
Shape = Mapping[str, frozenset[str]]
"""Table -> its columns."""


def shape(connection: sqlite3.Connection) -> Shape:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> ?"
    names = [row[0] for row in connection.execute(query, (_MADE,)).fetchall()]
    columns = "SELECT name FROM pragma_table_info(?)"
    return {name: frozenset(row[0] for row in connection.execute(columns, (name,))) for name in names}


def make_shape(migrations: Sequence[str]) -> Shape:
    return _make_shape(tuple(migrations))


@lru_cache(maxsize=16)
def _make_shape(migrations: tuple[str, ...]) -> Shape:
    connection = sqlite3.connect(":memory:")
    try:
        for script in migrations:
            connection.executescript(script)
        return shape(connection)
    finally:
        connection.close()


def difference(actual: Shape, expected: Shape) -> str | None:
    """The first thing that is wrong, in words; None where the file is as it should be."""
    for table in sorted({*actual, *expected}):
        if table not in actual:
            return f"it lacks the table {table}"
        if table not in expected:
            return f"it has a table {table} that is not known here"
        if lacking := expected[table] - actual[table]:
            return f"its table {table} lacks {_join_names(lacking)}"
        if unknown := actual[table] - expected[table]:
            return f"its table {table} has {_join_names(unknown)}, which is not known here"
    return None


def maker(connection: sqlite3.Connection) -> str:
    """The version that brought the file to its schema."""
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    if connection.execute(query, (_MADE,)).fetchone() is None:
        return "an early version of Steelyard that did not say its number,"
    return f"Steelyard {connection.execute(f'SELECT version FROM {_MADE}').fetchone()[0]}"


def sign(connection: sqlite3.Connection) -> None:
    """Say in the file that this version brought it to its schema."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {_MADE} (only_row INTEGER PRIMARY KEY, version TEXT NOT NULL)"
    )
    connection.execute(f"INSERT OR REPLACE INTO {_MADE} VALUES (1, ?)", (__version__,))


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
