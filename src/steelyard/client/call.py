"""One request as a value. Building it and reading its answer do no I/O; `transport.py` sends it, sync or async."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx
from pydantic import TypeAdapter

from steelyard.client.errors import error_for

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the type of its answer. `retried`: it may be sent again when no answer came."""

    method: str
    path: str
    answer: type[T]
    params: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def read(self, response: httpx.Response) -> T:
        """The answer. Raises ApiError."""
        if response.is_error:
            raise error_for(response)
        if self.answer is type(None):
            return None
        return _adapter(self.answer).validate_json(response.content)


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def query_params(filters: Mapping[str, Any]) -> dict[str, str]:
    """Filters as the wire has them: what is None is left out, mappings and lists of `query` and `labels` are JSON."""
    params = {}
    for name, value in filters.items():
        if value is None:
            continue
        params[name] = value if isinstance(value, str) else _text(value)
    return params


def _text(value: Any) -> str:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value)
