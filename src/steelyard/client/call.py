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
    json: Any = field(default=None, repr=False)
    """Body. It is not shown: it may hold a secret."""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = SECONDS
    """Longest time without a byte from the platform."""
    repeatable: bool = True
    """True if sending it again does no harm when its answer was lost."""

    def read(self, response: httpx.Response) -> T:
        """Return the answer. Raises ApiError, UnexpectedAnswer."""
        return read(response, self.answer)


def read(response: httpx.Response, kind: type[T]) -> T:
    """Return an answer's body as a value of a type. Raises ApiError, UnexpectedAnswer."""
    if not response.is_success:  # a redirect is an error too: followed, it would take the token along
        raise error_for(response)
    if kind is type(None):
        return None  # whatever the body
    try:
        # A newer platform may send fields that this client does not know.
        # Making an adapter takes some milliseconds, so each is kept.
        if kind not in _ADAPTERS:
            _ADAPTERS[kind] = TypeAdapter(kind)
        answer: T = _ADAPTERS[kind].validate_json(response.content, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise UnexpectedAnswer(
            f"{response.request.method} {response.url} answered {response.status_code}, but not as the platform does: "
            f"{where}: {first['msg']}; does the endpoint end in /v0?"
        ) from error
    return answer


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
