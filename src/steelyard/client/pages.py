"""Queries page by page: the request for the next page, and the end. Nothing here does I/O.

A page begins after the last entity of the page before, which is named by its id and the value of the order. Entities
that are created or changed in between therefore neither shift the pages nor hide others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx

from steelyard.client.call import Call, read
from steelyard.client.errors import UnexpectedAnswer
from steelyard_schema.base import DyffEntity
from steelyard_schema.curve import Curve
from steelyard_schema.score import Score

E = TypeVar("E", bound=DyffEntity | Score | Curve)
T = TypeVar("T")
PAGE = 500
MORE = "steelyard-more"
"""Header of an answer that does not hold all entities that match."""

_SERVICE = {
    "inferenceService": "inferenceService.id",
    "inferenceServiceName": "inferenceService.name",
    "model": "inferenceService.model.id",
    "modelName": "inferenceService.model.name",
}
_ANALYSIS = {
    "method": "method.id",
    "methodName": "method.name",
    **{name: f"scope.{name}" for name in ("dataset", "evaluation", "inferenceService", "model")},
}
NESTED: Mapping[str, Mapping[str, str]] = {
    "InferenceService": {"model": "model.id", "modelName": "model.name"},
    "InferenceSession": _SERVICE,
    "Evaluation": {name: f"inferenceSession.{path}" for name, path in _SERVICE.items()},
    "Report": {"report": "rubric"},
    "Method": {"outputKind": "output.kind"},
    "Measurement": _ANALYSIS,
    "SafetyCase": _ANALYSIS,
}
"""Paths of values, by kind and order, for orders that are not named as the entity's field."""


@dataclass(frozen=True)
class Page(Generic[E]):
    """One page of entities, and whether there are more."""

    entities: Sequence[E]
    more: bool


@dataclass(frozen=True)
class PageCall(Call[Page[E]], Generic[E]):
    """Request for one page of at most `size` entities."""

    entities: type[list[E]] = list
    size: int = PAGE

    def read(self, response: httpx.Response) -> Page[E]:
        entities = read(response, self.entities)
        # The header comes also with a short page: the platform leaves out rows that it cannot read.
        return Page(entities, response.headers.get(MORE) == "true" or len(entities) >= self.size)


@dataclass
class Pages(Generic[E]):
    """One query: `call` returns the request for the next page, or None; `take` receives the page."""

    path: str
    entity: type[E]
    filters: Mapping[str, Any]
    limit: int | None = None
    _after: tuple[str | None, str] | None = None
    _left: int | None = field(init=False)
    _over: bool = False

    def __post_init__(self) -> None:
        self._left = self.limit
        if self.limit is not None and self.limit < 0:
            raise ValueError(f"limit: {self.limit} should not be negative")

    @property
    def order_by(self) -> str:
        return str(self.filters.get("orderBy") or "creationTime")

    def call(self) -> PageCall[E] | None:
        if self._over or self._left == 0:
            return None
        size = PAGE if self._left is None else min(self._left, PAGE)
        filters = {**self.filters, "limit": size}
        if issubclass(self.entity, DyffEntity):
            filters["orderBy"] = self.order_by
        if self._after is not None:
            filters["after"] = self._after
        return PageCall(
            "GET", self.path, Page, params=query_params(filters), entities=list_type(self.entity), size=size
        )

    def take(self, page: Page[E]) -> Sequence[E]:
        """Return the page's entities. Raises UnexpectedAnswer for a page after which the same page would follow."""
        if page.entities:
            last, before = page.entities[-1], self._after
            self._after = self._position(last)
            # Else a platform that ignores `after` would be asked for the same page without end.
            if self._after == before:
                raise UnexpectedAnswer(f"{self.path}: the page after {before} ends where it begins")
        if self._left is not None:
            self._left -= len(page.entities)
        self._over = not (page.more and page.entities)
        return page.entities

    def _position(self, last: E) -> tuple[str | None, str]:
        """Return what the next page begins after. Scores and curves follow their analyses, in no other order."""
        return (find_value(last, self.order_by) if isinstance(last, DyffEntity) else last.analysis), last.id


def list_type(entity: type[T]) -> type[list[T]]:
    """Return the type of a list of entities."""
    return list[entity]  # type: ignore[valid-type]


def find_value(entity: DyffEntity, order_by: str) -> str | None:
    """Return the value of an order in an entity's JSON, or None."""
    path = NESTED.get(type(entity).__name__, {}).get(order_by, order_by)
    value: Any = entity.dump()
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def query_params(filters: Mapping[str, Any]) -> dict[str, str]:
    """Return filters as query parameters, without None; filters of several values go into `query`; others are JSON."""
    parameters = {name: value for name, value in filters.items() if value is not None}
    several = {
        name: _to_list(parameters.pop(name))
        for name in list(parameters)
        if name not in {"query", "after"} and isinstance(parameters[name], list | tuple | set | frozenset)
    }
    if several:
        parameters["query"] = _join(parameters.get("query"), several)
    return {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()
    }


def _to_list(values: Any) -> list[Any]:
    return sorted(values) if isinstance(values, set | frozenset) else list(values)


def _join(query: Any, several: Mapping[str, Any]) -> Any:
    """Return `query` and the filters that have several values: all of them have to hold."""
    if isinstance(query, str):
        query = json.loads(query)
    if not query:
        return several
    return [*(query if isinstance(query, list) else [query]), several]
