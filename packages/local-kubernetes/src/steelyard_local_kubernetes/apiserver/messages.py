"""A request and an answer as the core sees them, whatever carries them (`transport.py` carries them over HTTP)."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import orjson

from steelyard_local_kubernetes.apiserver.access.users import User
from steelyard_local_kubernetes.apiserver.answers import Answers

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request of an authenticated user; header names are lower-case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    user: User
    warnings: list[str] = field(default_factory=list)  # of the answer, whether it is a refusal or not
    answers: Answers = field(default_factory=Answers)
    several: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # parameters that came several times

    def all_values(self, name: str) -> tuple[str, ...]:
        """All values of a parameter that may be given several times."""
        return self.several.get(name) or ((self.query[name],) if name in self.query else ())

    def flag(self, name: str) -> bool:
        # Kubernetes' rule: a parameter that is there is true, also without a value, unless it says false or 0.
        return self.query.get(name, "false").lower() not in ("false", "0")


@dataclass(slots=True)
class Response:
    """An answer: bytes, or a stream of them that ends when the transport stops reading."""

    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    content_type: str = JSON
    warnings: list[str] = field(default_factory=list)
    retry_after: int = 0  # seconds; 0: nothing is said of a repeat


def json_response(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status)
