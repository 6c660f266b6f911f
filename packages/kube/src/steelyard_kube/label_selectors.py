"""Label selectors, read as Kubernetes reads them, with its messages. `selectors.py` hands them out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SYMBOLS = "=!(),<>"
# The longest symbol: `==` is one, `=!` is two.
_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_WORDS = ("in", "notin")
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LIMIT = 1 << 63


class BadSelector(ValueError):
    """A text that is not a selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on an object's labels: `operator` is a binary one, `exists` or `!`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def __call__(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in" | "=" | "==":
                return value in self.values
            case "notin" | "!=":
                return value not in self.values
        limit, number = whole_number(next(iter(self.values))), whole_number(value or "")
        if limit is None or number is None:
            return False
        return number > limit if self.operator == ">" else number < limit


def whole_number(text: str) -> int | None:
    """A number of 64 bits, as Go reads one."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and -_LIMIT <= number < _LIMIT else None


def requirements(selector: str) -> list[Requirement]:
    """All conditions of a selector. Raises BadSelector."""
    return _Parser(selector).parse()


def _tokens(text: str) -> list[str]:
    """Symbols and words; the end is the empty text."""
    return [*_TOKEN.findall(text), ""]


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in _SYMBOLS


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def _next(self) -> str:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take(self) -> str:
        token = self._next()
        self._at += 1
        return token

    def parse(self) -> list[Requirement]:
        parsed: list[Requirement] = []
        while token := self._next():
            if not _is_word(token) and token != "!":
                raise BadSelector(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                parsed.append(self._requirement())
            except BadSelector as error:
                raise BadSelector(f"unable to parse requirement: {error}") from error
            token = self._take()
            if not token:
                break
            if token != ",":
                raise BadSelector(f"found '{token}', expected: ',' or 'end of string'")
            if not _is_word(following := self._next()) and following != "!":
                raise BadSelector(f"found '{following}', expected: identifier after ','")
        return parsed

    def _requirement(self) -> Requirement:
        absent = self._next() == "!"
        if absent:
            self._take()
        key = self._take()
        if not _is_word(key):
            raise BadSelector(f"found '{key}', expected: identifier")
        if self._next() in ("", ","):
            return Requirement(key, "!" if absent else "exists")
        # As there: what is between `!` and an operator is not looked at.
        operator = self._take()
        if operator not in (*_WORDS, "=", "==", "!=", "<", ">"):
            raise BadSelector(f"found '{operator}', expected: {', '.join(_BINARY)}")
        if absent:
            return Requirement(key, "!")
        values = self._values() if operator in _WORDS else {self._value()}
        return Requirement(key, operator, frozenset(values))

    def _value(self) -> str:
        if self._next() in ("", ","):
            return ""
        token = self._take()
        if not _is_word(token):
            raise BadSelector(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> set[str]:
        if (token := self._take()) != "(":
            raise BadSelector(f"found '{token}' expected: '('")
        values: set[str] = set()
        last = ","
        while (token := self._take()) != ")":
            if token == ",":
                # Between two commas, and before the first, is an empty value.
                values |= {""} if last == "," else set()
            elif not _is_word(token):
                text = "',' or ')'" if last != "," else "',', ')' or identifier"
                raise BadSelector(f"found '{token}', expected: {text}")
            elif last != ",":
                raise BadSelector(f"found '{token}', expected: ',' or ')'")
            else:
                values.add(token)
            last = token
        return values | ({""} if last == "," else set())
