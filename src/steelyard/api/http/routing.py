"""The route table's rows, and how a request finds its row.

A row is a value: what it matches, who may call it, what it takes and answers, and its handler. The app dispatches by
it, the OpenAPI page is written from it, and the tests list it.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from steelyard.api.http.errors import JSON
from steelyard.schema.account import APIFunction, APIResource

if TYPE_CHECKING:
    from starlette.responses import Response

    from steelyard.api.http.context import Call

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET"]
Handler = Callable[["Call"], Awaitable["Response"]]


@dataclass(frozen=True)
class Grant:
    """The caller's grants have to hold this function of this resource; for which entities, the handler asks."""

    resource: APIResource
    function: APIFunction


@dataclass(frozen=True)
class Administrator:
    """The caller's grants have to hold everything of everybody."""


@dataclass(frozen=True)
class Signed:
    """The URL carries its own right, a signature."""


@dataclass(frozen=True)
class Public:
    """Anybody may; there is nothing of anybody in the answer."""


Check = Grant | Administrator | Signed | Public


@dataclass(frozen=True)
class Parameter:
    """A query parameter, for the documentation."""

    name: str
    description: str


@dataclass(frozen=True)
class Route:
    """One row. In `path`, `{name}` is one segment, and a last `{name:path}` all that is left."""

    method: Method
    path: str
    check: Check
    handler: Handler
    summary: str
    request: Any = None
    """Model of the body, if there is one."""
    answer: Any = None
    """Type of the answer, for the documentation."""
    parameters: Sequence[Parameter] = ()
    tag: str = ""
    media: str = JSON
    """Content type of the answer; empty: it has no content."""
    errors: Sequence[int] = ()
    """Statuses besides those that follow from method, check, path and parameters."""


@dataclass
class _Node:
    literal: dict[str, "_Node"] = field(default_factory=dict)
    one: "_Node | None" = None
    rest: "_Node | None" = None
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)
    """By method, with the names of the path's parameters."""


@dataclass(frozen=True)
class Match:
    """The row of a request, and the values of its path's parameters; without a row, the methods that there are."""

    route: Route | None
    values: dict[str, str]
    methods: frozenset[str] = frozenset()


class Router:
    """A tree of path segments: a look-up costs as much with one route as with three hundred."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            self._add(route)

    def find(self, method: str, path: str) -> Match:
        """`path` is decoded. A slash at the end makes it another path: nothing is ever redirected."""
        found = _walk(self._root, path.split("/")[1:], 0, ())
        if found is None:
            return Match(None, {})
        node, values = found
        row = node.routes.get(method)
        if row is None:
            return Match(None, {}, frozenset(node.routes))
        return Match(row[0], dict(zip(row[1], values, strict=True)))

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            if not segment.startswith("{"):
                node = node.literal.setdefault(segment, _Node())
            elif segment.endswith(":path}"):
                node.rest = node = node.rest or _Node()
            else:
                node.one = node = node.one or _Node()
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path}: is in the table twice")
        node.routes[route.method] = (route, _names(route.path))


def _walk(
    node: _Node, segments: Sequence[str], at: int, values: tuple[str, ...]
) -> tuple[_Node, tuple[str, ...]] | None:
    """A literal segment comes before a parameter, one segment before all that is left."""
    if at == len(segments):
        return (node, values) if node.routes else None
    segment = segments[at]
    if (child := node.literal.get(segment)) and (found := _walk(child, segments, at + 1, values)):
        return found
    if node.one and segment and (found := _walk(node.one, segments, at + 1, (*values, segment))):
        return found
    if node.rest and segments[-1]:
        return node.rest, (*values, "/".join(segments[at:]))
    return None


def _names(path: str) -> tuple[str, ...]:
    return tuple(part.strip("{}").removesuffix(":path") for part in path.split("/") if part.startswith("{"))
