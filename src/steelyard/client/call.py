"""One request as a value. Building it and reading its answer do no I/O; `transport.py` sends it, sync or async."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from steelyard.client.errors import UnexpectedAnswer, error_for

T = TypeVar("T")
SECONDS = 30.0


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the type of its answer."""

    method: str
    path: str
    answer: type[T]
    params: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = SECONDS
    """Longest silence of the platform."""
    repeatable: bool = True
    """Whether it does no harm to send it again when its answer was lost."""

    def read(self, response: httpx.Response) -> T:
        """The answer. Raises ApiError, UnexpectedAnswer."""
        return read(response, self.answer)


def read(response: httpx.Response, kind: type[T]) -> T:
    """An answer's body. Raises ApiError, UnexpectedAnswer."""
    if not response.is_success:  # redirects are not followed: the token would go along
        raise error_for(response)
    if kind is type(None):
        return None  # whatever the body
    try:
        # A newer platform may say more than this client knows.
        answer: T = _adapter(kind).validate_json(response.content, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise UnexpectedAnswer(
            f"{response.request.method} {response.url} answered {response.status_code}, but not as the platform does: "
            f"{where}: {first['msg']}; does the endpoint end in /v0?"
        ) from error
    return answer


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once: it takes some milliseconds."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
