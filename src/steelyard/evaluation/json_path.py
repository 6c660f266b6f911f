"""JSONPath, parsed by a library that is imported with the first path: few interfaces have one, and it takes 50 ms."""

from collections.abc import Sequence
from typing import Any, Protocol


class BadJsonPath(ValueError):
    """The text is no JSONPath; the message says where."""


class Match(Protocol):
    """One match."""

    @property
    def value(self) -> Any: ...


class JsonPath(Protocol):
    """A parsed path; `find` gives its matches in a JSON value."""

    def find(self, data: Any, /) -> Sequence[Match]: ...


def parse_json_path(text: str) -> JsonPath:
    """Raises BadJsonPath."""
    from jsonpath_ng.exceptions import JSONPathError
    from jsonpath_ng.parser import parse

    try:
        path: JsonPath = parse(text)
    except JSONPathError as error:
        raise BadJsonPath(f"{type(error).__name__} {error}") from error
    return path
