"""Writes of the sink to the view's tables: works for `Database.write`, each one transaction; `view.py` calls."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from steelyard.views.fields import CREATED, OWN, Entity
from steelyard.views.sqlite.tables import Value, columns, label_rows, row
from steelyard.views.view import Change, Position, ViewError

Found = tuple[str, Entity] | None
LogPosition = tuple[int, Position]
"""The resync that named an entity last, and the position of its last command."""


@dataclass(frozen=True)
class Old:
    """An entity as it is there."""

    number: int
    place: LogPosition
    row: tuple[Value, ...]


def enter(connection: sqlite3.Connection, epoch: int) -> tuple[int, int]:
    """Return the current resync, and the last that was swept. A later epoch begins one; an earlier epoch raises."""
    current, resync, swept = connection.execute("SELECT epoch, resync, swept FROM state").fetchone()
    # A sink that was replaced while it stood still: its positions are those of a log that is not the truth any more.
    if epoch < current:
        raise ViewError(f"epoch {epoch} is over: the view has seen epoch {current}")
    if epoch > current:
        return begin(connection, epoch, resync + 1), swept
    return resync, swept


def begin(connection: sqlite3.Connection, epoch: int, resync: int) -> int:
    connection.execute("UPDATE state SET epoch = ?, resync = ?", (epoch, resync))
    connection.execute("DELETE FROM positions")
    return resync


def restart(connection: sqlite3.Connection, epoch: int) -> None:
    resync, _ = enter(connection, epoch)
    begin(connection, epoch, resync + 1)


def set_origin(connection: sqlite3.Connection, log: str, epoch: int) -> None:
    """The log that the view belongs to. Another log, or another epoch, begins a resync; the first one does not."""
    known, current, resync = connection.execute("SELECT log, epoch, resync FROM state").fetchone()
    if current >= 0 and (known not in ("", log) or epoch != current):
        begin(connection, epoch, resync + 1)
    connection.execute("UPDATE state SET log = ?, epoch = ?", (log, epoch))


def apply(
    connection: sqlite3.Connection,
    changes: Sequence[tuple[Change, Found]],
    epoch: int,
    positions: Mapping[int, int],
) -> None:
    """Apply changes.

    Of several changes of an entity the latest counts; one that is not later than the stored one is left out.
    """
    resync, _ = enter(connection, epoch)
    latest: dict[str, tuple[Change, Found]] = {}
    for change, entity in changes:
        # A batch may hold several states of one entity, and one that was delivered again out of its order.
        if change.id not in latest or latest[change.id][0].position < change.position:
            latest[change.id] = change, entity
    by_kind: dict[str, dict[str, tuple[Change, Entity]]] = defaultdict(dict)
    for id, (change, entity) in latest.items():
        if entity is not None:
            by_kind[entity[0]][id] = change, entity[1]
    forgotten = _find_forgotten(connection, latest)
    for kind, entities in by_kind.items():
        _put(connection, kind, entities, resync, forgotten)
    _forget(connection, [change for change, entity in latest.values() if entity is None], resync, forgotten)
    connection.executemany(
        "INSERT INTO positions VALUES (?, ?)"
        # A batch that is delivered again must not move the view's position back.
        " ON CONFLICT (partition) DO UPDATE SET position = max(position, excluded.position)",
        positions.items(),
    )


def _find_forgotten(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, LogPosition]:
    rows = connection.execute(
        "SELECT id, resync, epoch, position FROM forgotten WHERE id IN (SELECT value FROM json_each(?))",
        (_list(ids),),
    )
    return {id: (resync, Position(epoch, position)) for id, resync, epoch, position in rows}


def _list(values: Iterable[str | int]) -> str:
    return orjson.dumps(list(values)).decode()


def _old(connection: sqlite3.Connection, kind: str, ids: Iterable[str]) -> dict[str, Old]:
    rows = connection.execute(
        f"SELECT number, resync, epoch, position, {', '.join(columns(kind))} FROM {kind}"
        " WHERE id IN (SELECT value FROM json_each(?))",
        (_list(ids),),
    )
    return {row[4]: Old(row[0], (row[1], Position(row[2], row[3])), row[4:]) for row in rows}


def _put(
    connection: sqlite3.Connection,
    kind: str,
    entities: Mapping[str, tuple[Change, Entity]],
    resync: int,
    forgotten: Mapping[str, LogPosition],
) -> None:
    old = _old(connection, kind, entities)
    fresh: list[tuple[Change, Entity]] = []
    newer: list[tuple[Old, Change, Entity]] = []
    for id, (change, entity) in entities.items():
        known = old.get(id)
        place = known.place if known else forgotten.get(id)
        # Deliveries repeat: an older state must neither replace a newer one nor bring a forgotten entity back.
        if place is not None and place >= (resync, change.position):
            continue
        if known:
            newer.append((known, change, entity))
        else:
            fresh.append((change, entity))
    _insert(connection, kind, fresh, resync)
    _update(connection, kind, newer, resync)
    # A restored entity: its mark of being forgotten would outrank its next states.
    revived = [(change.id,) for change, _ in fresh if change.id in forgotten]
    connection.executemany("DELETE FROM forgotten WHERE id = ?", revived)


def _insert(
    connection: sqlite3.Connection, kind: str, entities: Sequence[tuple[Change, Entity]], resync: int
) -> None:
    first: int = connection.execute(f"SELECT coalesce(max(number), 0) + 1 FROM {kind}").fetchone()[0]
    marks = ", ".join("?" for _ in columns(kind))
    connection.executemany(
        f"INSERT INTO {kind} VALUES (?, {marks}, ?, ?, ?, CAST(? AS TEXT))",
        (
            (number, *row(entity, kind), resync, change.position.epoch, change.position.offset, change.json)
            for number, (change, entity) in enumerate(entities, first)
        ),
    )
    _add_labels(
        connection,
        kind,
        (
            (number, key, *rest)
            for number, (change, entity) in enumerate(entities, first)
            for key, rest in label_rows(entity, kind, change.id).items()
        ),
    )


def _add_labels(
    connection: sqlite3.Connection, kind: str, rows: Iterable[tuple[int, str, str, Value, str]]
) -> None:
    connection.executemany(f"INSERT INTO {kind}_labels VALUES (?, ?, ?, ?, ?)", rows)


def _update(
    connection: sqlite3.Connection, kind: str, entities: Sequence[tuple[Old, Change, Entity]], resync: int
) -> None:
    """Sets only the columns that differ: SQLite rewrites the indexes of every column that an UPDATE names."""
    names = columns(kind)
    for old, change, entity in entities:
        new = row(entity, kind)
        differing = [at for at in range(len(names)) if new[at] != old.row[at]]
        assigned = "".join(f", {names[at]} = ?" for at in differing)
        connection.execute(
            f"UPDATE {kind} SET resync = ?, epoch = ?, position = ?, json = CAST(? AS TEXT){assigned}"
            " WHERE number = ?",
            (
                resync,
                change.position.epoch,
                change.position.offset,
                change.json,
                *(new[at] for at in differing),
                old.number,
            ),
        )
    _update_labels(connection, kind, entities)


def _update_labels(
    connection: sqlite3.Connection, kind: str, entities: Sequence[tuple[Old, Change, Entity]]
) -> None:
    rows = connection.execute(
        f"SELECT entity, key, value, {CREATED}, id FROM {kind}_labels"
        " WHERE entity IN (SELECT value FROM json_each(?))",
        (_list(old.number for old, _, _ in entities),),
    )
    there = set(rows)
    desired = {
        (old.number, key, *rest)
        for old, change, entity in entities
        for key, rest in label_rows(entity, kind, change.id).items()
    }
    gone = [(number, key) for number, key, *_ in there - desired]
    connection.executemany(f"DELETE FROM {kind}_labels WHERE entity = ? AND key = ?", gone)
    _add_labels(connection, kind, desired - there)


def _forget(
    connection: sqlite3.Connection,
    changes: Sequence[Change],
    resync: int,
    forgotten: Mapping[str, LogPosition],
) -> None:
    """A record without an entity does not say its kind: it is looked for in each."""
    places = {change.id: (resync, change.position) for change in changes}
    marks = {id: place for id, place in places.items() if id not in forgotten or forgotten[id] < place}
    for kind in OWN if marks else ():
        old = _old(connection, kind, marks)
        later = [id for id, known in old.items() if known.place >= marks[id]]
        _delete(connection, kind, [row.number for id, row in old.items() if id not in later])
        marks = {id: place for id, place in marks.items() if id not in later}
    connection.executemany(
        "INSERT OR REPLACE INTO forgotten VALUES (?, ?, ?, ?)",
        [(id, resync, position.epoch, position.offset) for id, (resync, position) in marks.items()],
    )


def _delete(connection: sqlite3.Connection, kind: str, numbers: Sequence[int]) -> None:
    rows = [(number,) for number in numbers]
    connection.executemany(f"DELETE FROM {kind}_labels WHERE entity = ?", rows)
    connection.executemany(f"DELETE FROM {kind} WHERE number = ?", rows)


def sweep(connection: sqlite3.Connection, epoch: int, before: Mapping[int, int]) -> int:
    resync, swept = enter(connection, epoch)
    if swept == resync:
        return 0
    reached: dict[int, int] = dict(connection.execute("SELECT partition, position FROM positions"))
    # What a resync has not yet named is not gone: swept too early, entities would vanish that the log still has.
    if behind := [partition for partition, end in before.items() if reached.get(partition, 0) < end]:
        raise ViewError(f"the resync has not come to the end of partitions {behind}")
    count = 0
    for kind in OWN:
        rows = connection.execute(f"SELECT number FROM {kind} WHERE resync < ?", (resync,)).fetchall()
        _delete(connection, kind, [number for (number,) in rows])
        count += len(rows)
    connection.execute("DELETE FROM forgotten WHERE resync < ?", (resync,))
    connection.execute("UPDATE state SET swept = ?", (resync,))
    return count
