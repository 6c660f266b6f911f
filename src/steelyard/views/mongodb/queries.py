"""Queries as MongoDB's filters. Pure: `view.py` runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.views.fields import CREATED, LABEL, TIMES
from steelyard.views.matching import after_key
from steelyard.views.mongodb.documents import label
from steelyard.views.view import Query

Filter = dict[str, Any]


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
        parts = [*conditions, {key: {"$exists": True}}]
        if after is not None:
            # One comparison for the index to begin at, and one for the entities with the same value.
            parts.append({key: {f"{than}e": after[0]}})
            parts.append({"$or": [{key: {than: after[0]}}, {"_id": {than: after[1]}}]})
        sort = [(key, way)] if key == "_id" else [(key, way), ("_id", way)]
        in_order.append(Search(_all(parts), sort))
    if key != "_id":
        parts = [*conditions, {key: {"$exists": False}}]
        if after is not None and after[0] is None:
            parts.append({"_id": {than: after[1]}})
        in_order.append(Search(_all(parts), [("_id", way)]))
    return in_order


def _all(conditions: Sequence[Filter]) -> Filter:
    return {"$and": list(conditions)} if conditions else {}


def _holds(condition: Mapping[str, Sequence[str]]) -> list[Filter]:
    return [_among(name, values) for name, values in condition.items()]


def _among(name: str, values: Sequence[str]) -> Filter:
    if name.startswith(LABEL):
        key = name.removeprefix(LABEL)
        return {"labels": {"$in": [label(key, text) for text in values]}}
    return {"_id" if name == "id" else f"fields.{name}": {"$in": list(values)}}


def _labels(labels: Mapping[str, str]) -> list[Filter]:
    return [{"labels": label(key, text)} for key, text in labels.items()]
