"""Scores and curves of safety cases, which their files in storage hold.

A query reads the files of the safety cases that may match, the newest first, until its answer is full, because
there is no index of scores. `limit` and `after` give the rest page by page.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson
from starlette.responses import Response

from steelyard.api.datasets.delivery import read_content
from steelyard.api.entities.collection import MORE
from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.api.http.responses import value_response
from steelyard.api.http.routing import Handler
from steelyard.views.fields import cursor
from steelyard.views.parse import Conditions, both, parse_objects, values
from steelyard.views.view import BadQuery, Query
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import ObjectMissing
from steelyard_schema.ids import id_in_namespace
from steelyard_schema.names import OWN_LOGS, place
from steelyard_schema.status import SUCCESS

KIND = "SafetyCase"
_PAGE = 100
"""Safety cases that are read from the view at a time."""
FILES = {"Score": "scores", "Curve": "curves"}
"""Name of the file that holds what an analysis writes, and of the list in it."""
_OF_CASE = ("method", "methodName", "dataset", "evaluation", "inferenceService", "model")
"""Filters that select safety cases; `analysis` is the id of one."""
PARAMETERS = ("id", "name", "analysis", *_OF_CASE)
PAGING = ("limit", "after")


def case_handler(kind: str) -> Handler:
    """Return the handler that answers the scores or the curves of one safety case."""

    async def answer(context: RequestContext) -> Response:
        entity = await load(context)
        return value_response(await _read(context, entity.dump(), kind))

    return answer


def query(kind: str) -> Handler:
    """Return the handler that answers the scores or the curves that match a query.

    Where there are more of them than one answer holds, the header `steelyard-more` says so.
    """

    async def answer(context: RequestContext) -> Response:
        page = await _page(context)
        conditions = _conditions(context.query)
        matching: list[Json] = []
        async for case in _cases(context, conditions, page):
            items = await _read(context, case, kind)
            if page.case is not None and case["id"] == page.case["id"]:
                ids = [item["id"] for item in items]
                items = items[ids.index(page.last) + 1 :] if page.last in ids else items
            matching += [
                item for item in items if all(_matches(item, case, condition) for condition in conditions)
            ]
            if len(matching) > page.limit:
                break
        response = value_response(matching[: page.limit])
        if len(matching) > page.limit:
            response.headers[MORE] = "true"
        return response

    return answer


@dataclass(frozen=True)
class _Page:
    """The part of the matching scores that a query asks for."""

    limit: int
    case: Json | None = None
    """The safety case of the last score on the previous page; None for the first page."""
    last: str = ""
    """Id of that score."""


async def _page(context: RequestContext) -> _Page:
    """Return the page that `limit` and `after` name. Raises Invalid."""
    maximum = context.api.platform.settings.query_limit
    limit, after = context.query.get("limit") or str(maximum), context.query.get("after")
    if not limit.isascii() or not limit.isdecimal() or int(limit[:20]) < 1:
        raise Invalid(f"limit: {limit[:80]!r} should be a whole number of at least 1", field="limit")
    size = min(int(limit[:20]), maximum)
    if not after:
        return _Page(size)
    allowed = 'should be ["<analysis>", "<id>"] of the last score on the previous page'
    try:
        analysis, last = orjson.loads(after)
    except (ValueError, TypeError) as error:
        raise Invalid(f"after: {after[:80]!r} {allowed}", field="after") from error
    json = await context.api.entities.get(KIND, analysis) if isinstance(analysis, str) else None
    case = orjson.loads(json) if json is not None else None
    if case is None or not context.access.allows("safetycases", "query", case["account"], case["id"]):
        raise Invalid(f"after: there is no {KIND} {str(analysis)[:80]}: {allowed}", field="after")
    return _Page(size, case, str(last))


async def _read(context: RequestContext, case: Json, kind: str) -> list[Json]:
    """Return what the file of a safety case holds; nothing where there is none, and nothing of a case that is not
    Complete: an attempt that failed, or whose safety case was ended, may have written the file before.
    """
    if case["status"] not in SUCCESS:
        return []
    name = FILES[kind]
    key = f"{place(case['kind'], case['id'])}/{OWN_LOGS}{name}.json"
    try:
        content = orjson.loads(await read_content(context.api.platform.store, key))
    except ObjectMissing:
        return []
    return [{**item, "kind": kind, "id": id_in_namespace(case["id"], item["name"])} for item in content[name]]


async def _cases(
    context: RequestContext, conditions: Sequence[Conditions], page: _Page
) -> AsyncIterator[Json]:
    """Yield the safety cases that may have matching scores, the newest first, beginning with that of the page."""
    scope = context.access.scope("safetycases", "query")
    filters: Conditions = {"status": ("Complete",)}
    for condition in conditions:
        filters = both(filters, await _case_filters(context, condition))
    wanted = Query(
        KIND,
        filters,
        scope=scope,
        order_by="creationTime",
        order="descending",
        limit=_PAGE,
    )
    if page.case is not None:
        yield page.case
        wanted = replace(wanted, after=cursor(page.case, KIND, wanted.order_by))
    while cases := [orjson.loads(json) for json in await context.api.entities.query(wanted)]:
        for case in cases:
            yield case
        wanted = replace(wanted, after=cursor(cases[-1], KIND, wanted.order_by))


async def _case_filters(context: RequestContext, condition: Conditions) -> dict[str, tuple[str, ...]]:
    """Return the part of a condition that selects safety cases."""
    selecting = {name: tuple(values) for name, values in condition.items() if name in _OF_CASE}
    ids = [set(condition["analysis"])] if "analysis" in condition else []
    # `id` may name scores as well; it selects safety cases only where every id is one of a safety case.
    named = condition.get("id", ())
    if named and all([await context.api.entities.get(KIND, id) is not None for id in named]):
        ids.append(set(named))
    return selecting | ({"id": tuple(sorted(set.intersection(*ids)))} if ids else {})


def _matches(item: Json, case: Json, condition: Conditions) -> bool:
    values = {
        "name": {item["name"]},
        "analysis": {case["id"]},
        # The published client asks for the scores of a safety case by its id.
        "id": {item["id"], case["id"]},
        "method": {case["method"]["id"]},
        "methodName": {case["method"]["name"]},
        **{name: {(case.get("scope") or {}).get(name)} for name in _OF_CASE[2:]},
    }
    return all(values[name] & set(allowed) for name, allowed in condition.items())


def _conditions(params: Mapping[str, str]) -> list[Conditions]:
    """Return conditions that all have to hold. Raises Invalid, which names the parameter."""
    filters = {name: text for name, text in params.items() if text and name not in {"query", *PAGING}}
    try:
        objects = [filters, *parse_objects(params.get("query") or None)]
        for condition in objects:
            _check_names(condition)
        return [{name: values(name, value) for name, value in one.items()} for one in objects]
    except BadQuery as error:
        raise Invalid(str(error), field=error.field) from error


def _check_names(names: Mapping[str, object]) -> None:
    for name in names:
        if name not in PARAMETERS:
            raise Invalid(
                f"{name}: no parameter of scores; there are query, {', '.join((*PARAMETERS, *PAGING))}",
                field=name,
            )
