"""Runs a query on the view's tables: works for `Database.read`, each on one snapshot; `view.py` calls."""

import sqlite3
from collections.abc import Collection
from itertools import product

import orjson

from steelyard.engines.origin import Origin
from steelyard.views.fields import CREATED, OWN
from steelyard.views.matching import Row, page
from steelyard.views.sqlite.plan import Bounds, Conjunction, Search, Statement, by_rarity, conjunctions, count
from steelyard.views.view import STATE, Position, Query, StoredEntity

_STORED = "e.id, e.epoch, e.position, CAST(e.json AS BLOB)"
_ONE = {kind: f"SELECT {_STORED} FROM {kind} e WHERE e.id = ?" for kind in OWN}
_KIND = " UNION ALL ".join(f"SELECT '{kind}', e.id FROM {kind} e WHERE e.id = :id" for kind in OWN)
_ANY = " UNION ALL ".join(f"SELECT '{kind}', {_STORED} FROM {kind} e WHERE e.id = :id" for kind in OWN)


def get(connection: sqlite3.Connection, kind: str, id: str) -> StoredEntity | None:
    row = connection.execute(_ONE[kind], (id,)).fetchone() if kind in _ONE else None
    return None if row is None else StoredEntity(kind, row[0], row[3], Position(row[1], row[2]))


def find(connection: sqlite3.Connection, id: str) -> StoredEntity | None:
    row = connection.execute(_ANY, {"id": id}).fetchone()
    return None if row is None else StoredEntity(row[0], row[1], row[4], Position(row[2], row[3]))


def kinds(connection: sqlite3.Connection, ids: Collection[str]) -> dict[str, str]:
    rows = (connection.execute(_KIND, {"id": id}).fetchone() for id in ids)
    return {row[1]: row[0] for row in rows if row is not None}


def run(connection: sqlite3.Connection, query: Query, bounds: Bounds) -> list[StoredEntity]:
    """Return the entities of a query, in its order."""
    searches = [
        search
        for conjunction in conjunctions(query)
        for search in leads(connection, query, conjunction, bounds)
    ]
    results = [_rows(connection, search) for search in searches]
    if len(results) == 1:
        numbers = [number for _, _, number in results[0]]
    else:
        # An entity that two alternatives find is one.
        unique = {row[2]: row for rows in results for row in rows}
        numbers = page(unique.values(), query)
    return _entities(connection, query.kind, numbers)


def _rows(connection: sqlite3.Connection, search: Search) -> list[Row[int]]:
    rows: list[Row[int]] = []
    limit = search.query.limit
    for statement in search.statements():
        if limit is None or len(rows) < limit:
            rows += connection.execute(statement.sql, statement.parameters)
    return rows if limit is None else rows[:limit]


def _entities(connection: sqlite3.Connection, kind: str, numbers: list[int]) -> list[StoredEntity]:
    rows = connection.execute(
        # Numbers are ours: one parameter for all of them, where each text needs its own.
        f"SELECT e.number, {_STORED} FROM {kind} e WHERE e.number IN (SELECT value FROM json_each(?))",
        (orjson.dumps(numbers).decode(),),
    )
    stored = {number: StoredEntity(kind, id, json, Position(*place)) for number, id, *place, json in rows}
    return [stored[number] for number in numbers]


def leads(
    connection: sqlite3.Connection, query: Query, conjunction: Conjunction, bounds: Bounds
) -> list[Search]:
    """The searches that find a conjunction's entities.

    A condition that leaves few entities leads, and its entities are sorted. Where none does, an index that is in the
    order already is walked to the limit, once for each of its values.
    """
    if "id" in conjunction:
        return [Search(query, conjunction, ("id",))]
    created = (query.order_by or CREATED) == CREATED
    if not conjunction:
        return [Search(query, conjunction, ())]
    if created and len(conjunction) == 1 and all(len(values) == 1 for values in conjunction.values()):
        return [Search(query, conjunction, tuple(conjunction))]
    best, few = _rarest(connection, query.kind, conjunction, bounds)
    lead = _BOTH if best in _BOTH and conjunction.keys() >= set(_BOTH) else (best,)
    # An order by creation is in every index and is walked cheaply; for any other, sorting some thousands is.
    if few <= (bounds.small if created else bounds.many) or (query.limit is None and not created):
        return [Search(query, conjunction, lead)]
    if not created:
        return [Search(query, conjunction, ())]
    lead = (
        ("account", "status")
        if few > bounds.many and {"account", "status"} <= conjunction.keys()
        else (best,)
    )
    return [
        Search(query, {**conjunction, **dict(zip(lead, map(_only, values), strict=True))}, lead)
        for values in product(*(sorted(conjunction[name]) for name in lead))
    ]


_BOTH = ("account", "status")
"""Columns that queries name together often enough to have an index of their own."""


def _only(value: str) -> frozenset[str]:
    return frozenset([value])


def _rarest(
    connection: sqlite3.Connection, kind: str, conjunction: Conjunction, bounds: Bounds
) -> tuple[str, int]:
    """The condition that leaves the fewest entities, and how many; counted to a bound, guessed beyond it."""
    for bound in (bounds.small, bounds.many):
        counts = {
            name: _count(connection, count(kind, name, values, bound + 1))
            for name, values in conjunction.items()
        }
        best = min(counts, key=lambda name: (counts[name], by_rarity(name)))
        if counts[best] <= bound:
            break
    return best, counts[best]


def _count(connection: sqlite3.Connection, statement: Statement) -> int:
    return int(connection.execute(statement.sql, statement.parameters).fetchone()[0])


def origin(connection: sqlite3.Connection) -> Origin | None:
    log, epoch = connection.execute("SELECT log, epoch FROM state").fetchone()
    return Origin(log, epoch, {STATE: positions(connection, epoch)}) if epoch >= 0 else None


def positions(connection: sqlite3.Connection, epoch: int) -> dict[int, int]:
    rows = connection.execute(
        "SELECT partition, position FROM positions WHERE (SELECT epoch FROM state) = ?", (epoch,)
    )
    return dict(rows.fetchall())
