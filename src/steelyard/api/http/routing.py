"""Routes, and how a request finds its route.

A route is a value: what it matches, who may call it, what it takes and answers, and its handler. The application
dispatches by it, the OpenAPI document is made from it, and the tests list it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_origin

from starlette.responses import Response

from steelyard.api.http.access import Check
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import JSON

ANY = "*/*"
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET"]
Handler = Callable[[RequestContext], Awaitable[Response]]


@dataclass(frozen=True)
class Parameter:
    """A query parameter, as it is documented."""

    name: str
    description: str
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "string"})
    """JSON Schema of its value."""


def number(most: int | None = None) -> Mapping[str, object]:
    """Return the schema of a parameter that is a whole number of at least 1."""
    return {"type": "integer", "minimum": 1} | ({} if most is None else {"maximum": most})


@dataclass(frozen=True)
class Route:
    """One method of one path.

    In `path`, `{name}` stands for one segment, and a last `{name:path}` for all the segments that are left.
    """

    method: Method
    path: str
    check: Check
    handler: Handler
    summary: str
    request: Any = None
    """Model of the body; None if the route takes no body."""
    answer: Any = None
    """Type of the answer, as it is documented."""
    parameters: Sequence[Parameter] = ()
    tag: str = ""
    media: str = JSON
    """Content type of the answer; empty if the answer has no content."""
    forwarded: bool = False
    """True if the answer may be another program's, with statuses and bodies of its own."""
    partial: bool = False
    """True if the answer may be the part of a file that `Range` names, with status 206."""
    errors: Sequence[int] = ()
    """Error statuses besides those that follow from method, check, path and parameters."""

    @property
    def refuses_parameters(self) -> bool:
        """Return whether a parameter that is not documented is refused: a list would leave nothing out by it."""
        return self.method == "GET" and (bool(self.parameters) or get_origin(self.answer) is list)


@dataclass
class _Node:
    literal: dict[str, "_Node"] = field(default_factory=dict)
    one: "_Node | None" = None
    rest: "_Node | None" = None
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)
    """The route of each method, with the names of the path's parameters."""


@dataclass(frozen=True)
class Match:
    """The route of a request, and the values of its path's parameters."""

    route: Route | None
    values: dict[str, str]
    methods: frozenset[str] = frozenset()
    """Methods of the path, where the request's is not one of them."""


class Router:
    """A tree of path segments, in which a look-up costs as much with one route as with three hundred."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            self._add(route)

    def find(self, method: str, path: str) -> Match:
        """Return the route of a decoded path. A slash at the end makes it another path: nothing is redirected."""
        end = _walk(self._root, path.split("/")[1:], 0, ())
        if end is None:
            return Match(None, {})
        node, values = end
        if method not in node.routes:
            return Match(None, {}, frozenset(node.routes))
        route, names = node.routes[method]
        return Match(route, dict(zip(names, values, strict=True)))

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
        # Two routes may name the parameter of one segment differently, so each keeps its own names.
        names = [
            part.strip("{}").removesuffix(":path") for part in route.path.split("/") if part.startswith("{")
        ]
        node.routes[route.method] = (route, tuple(names))


def _walk(
    node: _Node, segments: Sequence[str], at: int, values: tuple[str, ...]
) -> tuple[_Node, tuple[str, ...]] | None:
    """Return the node at the end of the path, and the values on the way.

    A literal segment goes before a parameter, and a parameter of one segment before one of all that is left.
    """
    if at == len(segments):
        return (node, values) if node.routes else None
    segment = segments[at]
    if (child := node.literal.get(segment)) and (end := _walk(child, segments, at + 1, values)):
        return end
    if node.one and segment and (end := _walk(node.one, segments, at + 1, (*values, segment))):
        return end
    if node.rest and segments[-1]:
        return node.rest, (*values, "/".join(segments[at:]))
    return None
