"""Long answers, page by page: which page is asked for next, and when it was the last one. Pure.

A page begins after the last entity of the one before, named by the value that it is ordered by and its id, so that
entities made or changed meanwhile neither shift the pages nor hide others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx

from steelyard.client.call import Call, read
from steelyard.client.errors import UnexpectedAnswer
from steelyard.schema.base import DyffEntity

E = TypeVar("E", bound=DyffEntity)
T = TypeVar("T")
PAGE = 500
MORE = "steelyard-more"
"""The header that says that there are more entities than the answer holds."""

_SERVICE = {
    "inferenceService": "inferenceService.id",
    "inferenceServiceName": "inferenceService.name",
    "model": "inferenceService.model.id",
    "modelName": "inferenceService.model.name",
}
NESTED: Mapping[str, Mapping[str, str]] = {
    "InferenceService": {"model": "model.id", "modelName": "model.name"},
    "InferenceSession": _SERVICE,
    "Evaluation": {name: f"inferenceSession.{path}" for name, path in _SERVICE.items()},
    "Report": {"report": "rubric"},
}
"""By kind: where an entity has the value of an order that is not called as its field."""


@dataclass(frozen=True)
class Page(Generic[E]):
    """One page, and whether there is more."""

    entities: Sequence[E]
    more: bool


@dataclass(frozen=True)
class PageCall(Call[Page[E]], Generic[E]):
    """Asks for one page of at most `size` entities."""

    entities: type[list[E]] = list
    size: int = PAGE

    def read(self, response: httpx.Response) -> Page[E]:
        found = read(response, self.entities)
        return Page(found, response.headers.get(MORE) == "true" or len(found) >= self.size)


@dataclass
class Pages(Generic[E]):
    """One query: `call` asks for the next page, None when there is none; `take` is told what came."""

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
        asked = {**self.filters, "orderBy": self.order_by, "limit": size}
        if self._after is not None:
            asked["after"] = self._after
        return PageCall(
            "GET", self.path, Page, params=query_params(asked), entities=listed(self.entity), size=size
        )

    def take(self, page: Page[E]) -> Sequence[E]:
        """The page's entities. Raises UnexpectedAnswer for a page that would be asked for again and again."""
        if page.entities:
            last, before = page.entities[-1], self._after
            self._after = value_of(last, self.order_by), last.id
            if self._after == before:
                raise UnexpectedAnswer(f"{self.path}: the page after {before} ends where it begins")
        if self._left is not None:
            self._left -= len(page.entities)
        self._over = not (page.more and page.entities)
        return page.entities


def listed(entity: type[T]) -> type[list[T]]:
    """The type of a list of them."""
    return list[entity]  # type: ignore[valid-type]


def value_of(entity: DyffEntity, order_by: str) -> str | None:
    """What an entity is ordered by, as its JSON has it; None for one that has it not."""
    path = NESTED.get(type(entity).__name__, {}).get(order_by, order_by)
    found: Any = entity.dump()
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None


def query_params(filters: Mapping[str, Any]) -> dict[str, str]:
    """Filters as the wire has them: None is left out, one of several values goes into `query`, the rest is JSON."""
    given = {name: value for name, value in filters.items() if value is not None}
    several = {name: _listed(given.pop(name)) for name in list(given) if _is_several(name, given[name])}
    if several:
        given["query"] = _joined(given.get("query"), several)
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}


def _is_several(name: str, value: object) -> bool:
    return name not in {"query", "after"} and isinstance(value, list | tuple | set | frozenset)


def _listed(values: Any) -> list[Any]:
    return sorted(values) if isinstance(values, set | frozenset) else list(values)


def _joined(query: Any, several: Mapping[str, Any]) -> Any:
    """All conditions of `query`, each with the filters that have several values."""
    if isinstance(query, str):
        query = json.loads(query)
    conditions = query if isinstance(query, list) else [query or {}]
    twice = {name for each in conditions for name in each} & set(several)
    if twice:
        raise ValueError(f"query: {', '.join(sorted(twice))} is also given as a filter; give it once")
    joined = [{**each, **several} for each in conditions]
    return joined if isinstance(query, list) else joined[0]
