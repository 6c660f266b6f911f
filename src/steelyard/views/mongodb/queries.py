"""Queries as MongoDB's filters. Pure: `view.py` runs them.

A filter names each field once at its top, by equality or by a range, because that is what every planner finds an index
for. A planner that knows only this form reads all entities for the same condition within `$and`, `$in` or `$exists`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.views.fields import CREATED, LABEL, TIMES
from steelyard.views.matching import after_key
from steelyard.views.mongodb.documents import label
from steelyard.views.view import Query

Filter = dict[str, Any]
FIRST_TIME = -(2**63)
"""Number before every time, which the view keeps as microseconds."""


@dataclass(frozen=True)
class Search:
    """One sorted search; those of a query follow each other until its limit is reached."""

    filter: Filter
    sort: list[tuple[str, int]]


def searches(query: Query) -> list[Search]:
    """Return the search of the entities that have the field of the order, then that of those that have not."""
    conditions = [{"kind": query.kind}, *_holds(query.filters), *_labels(query.labels)]
    if query.any_of:
        conditions.append({"$or": [_all(_holds(condition)) for condition in query.any_of]})
    if not query.scope.everything:
        accounts, entities = (sorted(names) for names in (query.scope.accounts, query.scope.entities))
        conditions.append({"$or": [{"fields.account": {"$in": accounts}}, {"_id": {"$in": entities}}]})
    name = query.order_by or CREATED
    key = "_id" if name == "id" else f"keys.{name}" if name in TIMES else f"fields.{name}"
    way, than = (-1, "$lt") if query.order == "descending" else (1, "$gt")
    after = after_key(query)
    in_order: list[Search] = []
    if after is None or after[0] is not None:
        # A range holds only values of its own type, so it leaves out the entities that lack the field.
        present: Filter = {key: {"$gte": FIRST_TIME if name in TIMES else ""}}
        if after is not None:
            # One comparison for the index to begin at, and one for the entities with the same value.
            present = {
                key: {f"{than}e": after[0]},
                "$or": [{key: {than: after[0]}}, {"_id": {than: after[1]}}],
            }
        sort = [(key, way)] if key == "_id" else [(key, way), ("_id", way)]
        in_order.append(Search(_all([present, *conditions]), sort))
    if key != "_id":
        absent: Filter = {key: None}
        if after is not None and after[0] is None:
            absent["_id"] = {than: after[1]}
        in_order.append(Search(_all([absent, *conditions]), [("_id", way)]))
    return in_order


def _all(conditions: Sequence[Filter]) -> Filter:
    """Return one filter of all conditions; a condition on a field that is named already goes into `$and`."""
    merged: Filter = {}
    others: list[Filter] = []
    for condition in conditions:
        if merged.keys().isdisjoint(condition):
            merged |= condition
        else:
            others.append(condition)
    return {**merged, "$and": others} if others else merged


def _holds(condition: Mapping[str, Sequence[str]]) -> list[Filter]:
    return [_among(name, values) for name, values in condition.items()]


def _among(name: str, values: Sequence[str]) -> Filter:
    if name.startswith(LABEL):
        key = name.removeprefix(LABEL)
        return {"labels": _any_value([label(key, text) for text in values])}
    return {"_id" if name == "id" else f"fields.{name}": _any_value(values)}


def _any_value(values: Sequence[str]) -> object:
    return values[0] if len(values) == 1 else {"$in": list(values)}


def _labels(labels: Mapping[str, str]) -> list[Filter]:
    return [{"labels": label(key, text)} for key, text in labels.items()]
