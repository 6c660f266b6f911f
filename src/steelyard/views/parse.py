"""Queries as they come over the wire: flat parameters in camelCase, `query=` and `labels=` as JSON.

The API calls `parse_query` for each list. Every refusal names the parameter.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import orjson

from steelyard.schema.account import Scope
from steelyard.views.fields import INPUTS, LABEL, WITH_INPUTS, filters, has_input
from steelyard.views.matching import check
from steelyard.views.view import EVERYTHING, BadQuery, Query

MOST_CONDITIONS = 100
MOST_VALUES = 1000
MOST_RESULTS = 2**31 - 1

_ABOUT = ("query", "labels", "order", "orderBy", "limit", "after")


def parse_query(kind: str, params: Mapping[str, str], scope: Scope = EVERYTHING) -> Query:
    """Raises BadQuery. An empty parameter counts as absent; `order` without `orderBy` is ignored, as documented."""
    given = {name: text for name, text in params.items() if text}
    known = filters(kind)
    about = (*_ABOUT, INPUTS) if kind in WITH_INPUTS else _ABOUT
    for name in given:
        if name not in known and name not in about:
            raise BadQuery(name, f"no parameter of {kind}; there are {', '.join([*known, *about])}")
    order_by = given.get("orderBy")
    query = Query(
        kind=kind,
        filters={name: (text,) for name, text in given.items() if name in known},
        any_of=_with_inputs(given.get(INPUTS), _any_of(kind, given.get("query"))),
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


def _any_of(kind: str, text: str | None) -> Sequence[Mapping[str, Sequence[str]]]:
    if text is None:
        return ()
    content = _json("query", text)
    conditions = content if isinstance(content, list) else [content]
    if not conditions:
        raise _bad_count("query", 0)
    return _limited("query", [one for content in conditions for one in _conditions(kind, content)])


def _limited(
    field: str, conditions: Sequence[Mapping[str, Sequence[str]]]
) -> Sequence[Mapping[str, Sequence[str]]]:
    # Each condition is a search of its own.
    if len(conditions) > MOST_CONDITIONS:
        raise _bad_count(field, len(conditions))
    return conditions


def _bad_count(field: str, count: int) -> BadQuery:
    return BadQuery(field, f"{count} conditions, where 1 to {MOST_CONDITIONS} may be")


def _with_inputs(
    text: str | None, conditions: Sequence[Mapping[str, Sequence[str]]]
) -> Sequence[Mapping[str, Sequence[str]]]:
    """Return the conditions, each with one of the inputs."""
    if text is None:
        return conditions
    ids = [id for id in text.split(",") if id]
    return _limited(INPUTS, [{**one, **has_input(id)} for one in conditions or [{}] for id in ids])


def _conditions(kind: str, content: object) -> Sequence[Mapping[str, Sequence[str]]]:
    """Return the conditions that an object of `query` means: more than one where it names several inputs."""
    if not isinstance(content, dict):
        raise BadQuery("query", f"{content!r} should be an object or a list of objects")
    inputs = content.get(INPUTS) if kind in WITH_INPUTS else None
    if inputs is None:
        return [_condition(kind, content)]
    rest = _condition(kind, {name: value for name, value in content.items() if name != INPUTS})
    return [{**rest, **has_input(id)} for id in _values(INPUTS, inputs)]


def _condition(kind: str, content: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
    condition: dict[str, Sequence[str]] = {}
    for name, value in content.items():
        if name == "labels":
            condition |= {LABEL + key: (text,) for key, text in _pairs("query", value).items()}
        elif name in filters(kind) or name.startswith(LABEL):
            condition[name] = _values(name, value)
        else:
            raise BadQuery("query", f"{name!r} is not one of {', '.join(filters(kind))}, labels, labels.KEY")
    return condition


def _values(name: str, value: object) -> Sequence[str]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(value, str) for value in values):
        raise BadQuery("query", f"{name}: {value!r} should be a text or a list of texts")
    if len(values) > MOST_VALUES:
        raise BadQuery("query", f"{name}: {len(values)} values, where at most {MOST_VALUES} may be")
    return tuple(values)


def parse_labels(text: str | None) -> Mapping[str, str]:
    """Return the labels of a JSON object. Raises BadQuery."""
    return _pairs("labels", _json("labels", text)) if text is not None else {}


def _pairs(field: str, content: object) -> Mapping[str, str]:
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        raise BadQuery(field, f'{content!r} should be an object of texts, such as {{"tier": "gold"}}')
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
