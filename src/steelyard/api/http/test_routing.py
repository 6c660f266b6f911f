"""Paths find their routes."""

import pytest
from starlette.responses import Response

from steelyard.api.http.access import Public
from steelyard.api.http.context import RequestContext
from steelyard.api.http.routing import Method, Route, Router


async def nothing(context: RequestContext) -> Response:
    return Response()


def row(method: Method, path: str) -> Route:
    return Route(method, path, Public(), nothing, "")


ROWS: tuple[tuple[Method, str], ...] = (
    ("GET", "/v0/reports"),
    ("POST", "/v0/reports"),
    ("GET", "/v0/reports/{id}"),
    ("GET", "/v0/reports/scores"),
    ("GET", "/v0/reports/{id}/scores"),
    ("GET", "/v0/reports/{id}/upload/{path:path}"),
    ("GET", "/health"),
)
ROUTER = Router(row(method, path) for method, path in ROWS)


@pytest.mark.parametrize(
    ("method", "path", "route", "values"),
    [
        ("GET", "/health", "/health", {}),
        ("POST", "/v0/reports", "/v0/reports", {}),
        ("GET", "/v0/reports/5", "/v0/reports/{id}", {"id": "5"}),
        ("GET", "/v0/reports/scores", "/v0/reports/scores", {}),
        ("GET", "/v0/reports/scores/scores", "/v0/reports/{id}/scores", {"id": "scores"}),
        (
            "GET",
            "/v0/reports/5/upload/a/b",
            "/v0/reports/{id}/upload/{path:path}",
            {"id": "5", "path": "a/b"},
        ),
        ("GET", "/v0/reports/5/upload/", None, {}),
        ("GET", "/v0/reports/5/upload", None, {}),
        ("GET", "/v0/reports/", None, {}),
        ("GET", "/v0//reports", None, {}),
        ("GET", "/v0", None, {}),
        ("GET", "/", None, {}),
    ],
)
def test_a_path_finds_its_row(method: str, path: str, route: str | None, values: dict[str, str]) -> None:
    match = ROUTER.find(method, path)
    assert (match.route.path if match.route else None, match.values) == (route, values)


def test_another_method_gets_a_list_of_those_allowed() -> None:
    assert ROUTER.find("PATCH", "/v0/reports").methods == {"GET", "POST"}
    assert ROUTER.find("PATCH", "/v0/nothing").methods == frozenset()


def test_a_row_stands_in_the_table_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        Router([row("GET", "/a/{id}"), row("GET", "/a/{name}")])
