"""JSONPath, parsed by a library that is imported with the first path: few interfaces have one, and it takes 50 ms.

A path is bounded in what it can find: each `..` and each comparison of two paths multiplies the work by the size of the
value, so that there is one `..` at most, and no comparison.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

PATH_CHARACTERS = 1000
_UNIONS = 16
_BOUNDED = frozenset(
    {"Root", "This", "Fields", "Index", "Slice", "Child", "Descendants", "Union", "Wildcard"}
)
_MULTIPLYING = "Descendants"


class BadJsonPath(ValueError):
    """The text is not a JSONPath, or one that may need any time; the message says where."""


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

    if len(text) > PATH_CHARACTERS:
        raise BadJsonPath(f"the path has {len(text)} characters; {PATH_CHARACTERS} are allowed")
    try:
        path: JsonPath = parse(text)
        parts = [type(part).__name__ for part in _parts(path)]
    except JSONPathError as error:
        raise BadJsonPath(f"{type(error).__name__} {error}") from error
    except RecursionError:
        raise BadJsonPath("the path is nested too deep") from None
    if unknown := sorted(set(parts) - _BOUNDED):
        raise BadJsonPath(f"{text}: {unknown[0]} is not supported; there are {', '.join(sorted(_BOUNDED))}")
    if parts.count(_MULTIPLYING) > 1:
        raise BadJsonPath(f"{text}: has '..' more than once")
    if parts.count("Union") > _UNIONS:
        raise BadJsonPath(f"{text}: has more than {_UNIONS} '|'")
    return path


def find(path: JsonPath, value: Any) -> Sequence[Match]:
    """Return the matches. Raises ValueError for a value that is nested too deep to be searched."""
    try:
        return path.find(value)
    except RecursionError:
        raise ValueError("the value is nested too deep to be searched") from None


def _parts(path: Any) -> Iterator[Any]:
    yield path
    for side in ("left", "right"):
        if hasattr(path, side):
            yield from _parts(getattr(path, side))
