"""The meaning of a query, in plain terms over parsed entities: the reference for every form of the view.

Pure. `in_memory.py` is made of it, and the API lays entities that the view does not show yet over a query's result.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import orjson

from steelyard.views.fields import CREATED, LABEL, Entity, filters, labels, make_key, orders, sort_key, value
from steelyard.views.view import BadQuery, Query, StoredEntity

Key = str | int | None
T = TypeVar("T")


def parse(stored: StoredEntity) -> Entity:
    entity: Entity = orjson.loads(stored.json)
    return entity


def check(query: Query) -> None:
    """Raises BadQuery for what the kind does not have."""
    known = filters(query.kind)
    for name in [*query.filters, *(name for condition in query.any_of for name in condition)]:
        if name not in known and not name.startswith(LABEL):
            raise BadQuery(name, f"no filter of {query.kind}; there are {', '.join(known)}, labels.KEY")
    if query.order_by is not None and query.order_by not in orders(query.kind):
        raise BadQuery("orderBy", f"{query.order_by!r} is not one of {', '.join(orders(query.kind))}")
    if query.order not in ("ascending", "descending"):
        raise BadQuery("order", f"{query.order!r} is neither ascending nor descending")
    if query.limit is not None and query.limit < 1:
        raise BadQuery("limit", f"{query.limit} is less than 1")
    after_key(query)


def after_key(query: Query) -> tuple[Key, str] | None:
    """The cursor as a sort key and an id. Raises BadQuery for a text that is not a time."""
    if query.after is None:
        return None
    text, id = query.after
    try:
        return make_key(query.order_by or CREATED, text), id
    except (ValueError, OverflowError):
        raise BadQuery("after", f"{text!r} is not a time, such as 2026-01-31T12:00:00.000001Z") from None


def matches(entity: Entity, query: Query) -> bool:
    """Return whether filters, `any_of`, labels and scope hold; not whether the cursor has passed it."""
    if entity.get("kind") != query.kind:
        return False
    account, id = value(entity, ("account",)) or "", value(entity, ("id",)) or ""
    return (
        query.scope.covers(account, id)
        and _holds(entity, query.kind, query.filters)
        and (not query.any_of or any(_holds(entity, query.kind, condition) for condition in query.any_of))
        and labels(entity).items() >= query.labels.items()
    )


def _holds(entity: Entity, kind: str, condition: Mapping[str, Sequence[str]]) -> bool:
    return all(_read(entity, kind, name) in allowed for name, allowed in condition.items())


def _read(entity: Entity, kind: str, name: str) -> str | None:
    if name.startswith(LABEL):
        return labels(entity).get(name.removeprefix(LABEL))
    return value(entity, filters(kind)[name])


Row = tuple[Key, str, T]


def page(rows: Iterable[Row[T]], query: Query) -> list[T]:
    """Rows (sort key, id, value) in order, those up to the cursor left out, cut to the limit."""
    down = query.order == "descending"
    rows = list(rows)
    # Entities without the field come last in both directions, as both databases are made to do.
    present = sorted((row for row in rows if row[0] is not None), key=lambda row: row[:2], reverse=down)
    absent = sorted((row for row in rows if row[0] is None), key=lambda row: row[1], reverse=down)
    after = after_key(query)
    following = [row for row in (*present, *absent) if after is None or _follows(row[:2], after, down)]
    return [wanted for _, _, wanted in following[: query.limit]]


def _follows(place: tuple[Key, str], after: tuple[Key, str], down: bool) -> bool:
    if (place[0] is None) != (after[0] is None):
        return place[0] is None
    if place[0] is None:
        return place[1] < after[1] if down else place[1] > after[1]
    return place < after if down else place > after


def row(entity: Entity, stored: StoredEntity, query: Query) -> Row[StoredEntity]:
    return sort_key(entity, query.kind, query.order_by or CREATED), stored.id, stored


def widen(query: Query, overlay: Sequence[StoredEntity]) -> Query:
    """Return the query to send to the view, so that `merge` can fill the page though the overlay removes entities."""
    return query if query.limit is None else replace(query, limit=query.limit + len(overlay))


def merge(
    query: Query, answer: Sequence[StoredEntity], overlay: Sequence[StoredEntity]
) -> list[StoredEntity]:
    """The answer to `query` once `overlay` is applied, from the answer to `widened(query, overlay)`.

    `overlay` is what the view does not show yet: entities that are new to it, or newer states of what it has. Where
    both have an entity the later position counts.
    """
    if not overlay:
        return list(answer)
    newest = {stored.id: stored for stored in answer}
    for stored in overlay:
        if stored.id not in newest or newest[stored.id].position < stored.position:
            newest[stored.id] = stored
    # An entity that the overlay has changed may match no longer, or come at another place: everything is
    # matched again.
    entities = [(parse(stored), stored) for stored in newest.values()]
    return page([row(entity, stored, query) for entity, stored in entities if matches(entity, query)], query)
