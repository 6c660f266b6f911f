"""Queries as they come over the wire: flat parameters in camelCase, `query=` and `labels=` as JSON.

The API calls `parse_query` for each list. Every refusal names the parameter.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Literal

import orjson

from steelyard.views.fields import INPUTS, LABEL, WITH_INPUTS, filters, has_input
from steelyard.views.matching import check
from steelyard.views.view import EVERYTHING, BadQuery, Query
from steelyard_common.types import value_text
from steelyard_schema.account import Scope

MOST_CONDITIONS = 100
MOST_VALUES = 1000
MOST_RESULTS = 2**31 - 1

DIRECTIONS = ("ascending", "descending")

Conditions = Mapping[str, Sequence[str]]
"""Names of filters with their values: every name must have one of its values."""


def parse_query(kind: str, params: Mapping[str, str], scope: Scope = EVERYTHING) -> Query:
    """Raises BadQuery. An empty parameter counts as absent; `order` without `orderBy` is ignored, as documented.

    The application has refused parameters that the route does not have.
    """
    given = {name: text for name, text in params.items() if text}
    known = filters(kind)
    order_by = given.get("orderBy")
    objects = parse_objects(given.get("query"))
    filters_: Conditions = {name: (text,) for name, text in given.items() if name in known}
    for content in objects:
        filters_ = both(filters_, _conditions(kind, content))
    inputs = [content.get(INPUTS) for content in (given, *objects)] if kind in WITH_INPUTS else []
    query = Query(
        kind=kind,
        filters=filters_,
        any_of=_with_inputs([value for value in inputs if value is not None]),
        labels=parse_labels(given.get("labels")),
        scope=scope,
        order_by=order_by,
        order=_order(given.get("order"), order_by),
        limit=_limit(given.get("limit")),
        after=_after(given.get("after"), order_by),
    )
    check(query)
    return query


def _json(field: str, text: str) -> object:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadQuery(field, f"not JSON: {error}") from None
    return value


def parse_objects(text: str | None) -> Sequence[Mapping[str, object]]:
    """Return the objects of `query`; each has to hold. A value of null counts as absent. Raises BadQuery."""
    if text is None:
        return ()
    content = _json("query", text)
    objects = content if isinstance(content, list) else [content]
    _check_count("query", len(objects))
    given: list[dict[str, object]] = []
    for one in objects:
        if not isinstance(one, dict):
            raise BadQuery("query", f"{value_text(one)} should be an object or a list of objects")
        given.append({name: value for name, value in one.items() if value is not None})
    return given


def both(one: Conditions, other: Conditions) -> Conditions:
    """Return the conditions that hold where both do."""
    shared = {
        name: tuple(value for value in one[name] if value in other[name])
        for name in one.keys() & other.keys()
    }
    return {**one, **other, **shared}


def _check_count(field: str, count: int) -> None:
    if count > MOST_CONDITIONS:
        raise BadQuery(field, f"{count} conditions, where at most {MOST_CONDITIONS} may be")


def _with_inputs(inputs: Sequence[object]) -> Sequence[Conditions]:
    """Return alternatives: an entity has one of each value's inputs, which are a list, or a text with commas."""
    ids = [
        values(INPUTS, [id for id in given.split(",") if id] if isinstance(given, str) else given)
        for given in inputs
    ]
    # Each alternative is a search of its own, so their number is bounded before they are made.
    _check_count(INPUTS, prod(map(len, ids)))
    if not ids:
        return ()
    alternatives = [
        {name: value for id in chosen for name, value in has_input(id).items()} for chosen in product(*ids)
    ]
    # An empty list of inputs is met by nothing, where a query without alternatives is met by everything.
    return alternatives or [{"id": ()}]


def _conditions(kind: str, content: Mapping[str, object]) -> Conditions:
    conditions: Conditions = {}
    for name, value in content.items():
        if name == "labels":
            pairs = parse_labels(value) if isinstance(value, str) else _pairs("query", value)
            conditions = both(conditions, {LABEL + key: (text,) for key, text in pairs.items()})
        elif name in filters(kind) or name.startswith(LABEL):
            conditions = both(conditions, {name: values(name, value)})
        elif name != INPUTS or kind not in WITH_INPUTS:
            raise BadQuery("query", f"{name!r} is not one of {', '.join(filters(kind))}, labels, labels.KEY")
    return conditions


def values(name: str, value: object) -> Sequence[str]:
    """Return the texts of a filter's value; one has to be there. Raises BadQuery."""
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise BadQuery("query", f"{name}: {value_text(value)} should be a text or a list of texts")
    if len(texts) > MOST_VALUES:
        raise BadQuery("query", f"{name}: {len(texts)} values, where at most {MOST_VALUES} may be")
    return tuple(texts)


def parse_labels(text: str | None) -> Mapping[str, str]:
    """Return the labels of a JSON object. Raises BadQuery."""
    return _pairs("labels", _json("labels", text)) if text is not None else {}


def _pairs(field: str, content: object) -> Mapping[str, str]:
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        raise BadQuery(
            field, f'{value_text(content)} should be an object of texts, such as {{"tier": "gold"}}'
        )
    return content


def _order(text: str | None, order_by: str | None) -> Literal["ascending", "descending"]:
    match text:
        case None | "ascending":
            return "ascending"
        case "descending":
            return "descending" if order_by is not None else "ascending"
    raise BadQuery("order", f"{text!r} is neither ascending nor descending")


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    # By length first: Python refuses to read numbers of thousands of digits, with an error of its own.
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MOST_RESULTS):
        raise BadQuery("limit", f"{text!r} is not a whole number from 1 to {MOST_RESULTS}")
    return int(text)


def _after(text: str | None, order_by: str | None) -> tuple[str | None, str] | None:
    if text is None:
        return None
    if order_by is None:
        raise BadQuery("after", "needs orderBy, which says what its value is of")
    match _json("after", text):
        case [str() | None as value, str() as id]:
            return value, id
    raise BadQuery("after", f"{text} should be a list of orderBy's value and an id")
