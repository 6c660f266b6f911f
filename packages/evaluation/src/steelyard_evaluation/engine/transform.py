"""The template language of the TransformJSON adapter, compiled once per evaluation.

A template has the shape of its output. A string that begins with `$` is a JSONPath with exactly one match, `$$` is a
`$`; `{"$compute": [...]}` computes a value: first `$literal`, `$scalar` or `$list`, then functions of `re` and such.
"""

import functools
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.json_path import find, parse_json_path
from steelyard_evaluation.engine.patterns import Pattern
from steelyard_evaluation.engine.shape import short

Value = Callable[[JsonValue], JsonValue]

_OUTPUT_SIZE = 16 << 20
"""Characters, numbers and names of a template's output: an answer of the largest size, and room."""
_SCALARS = frozenset({int, float, bool, type(None)})
_PLAIN_PATH = re.compile(r"\$((?:\.[A-Za-z_]\w*|\[\d+\])+)")
_PLAIN_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]")


class Template:
    """A compiled template; calling it with a JSON value gives the output."""

    def __init__(self, template: Mapping[str, JsonValue]) -> None:
        # A copy as plain JSON: a caller that holds the original may change it, and `match` knows only dict and
        # list.
        self._value = _compile(json.loads(json.dumps(template)))

    def __call__(self, item: JsonValue) -> JsonValue:
        output = self._value(item)
        _check_size(output)
        return output


def _check_size(value: JsonValue) -> None:
    """Raise ValueError for an output that a template has multiplied: its parts are shared until they are written."""
    room, waiting = _OUTPUT_SIZE - 1, [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            room -= len(part)
        elif isinstance(part, dict):
            room -= sum(map(len, part)) + len(part)
            waiting += part.values()
        elif isinstance(part, list | tuple):
            # Counted at once: an embedding has thousands of numbers, and each has one size.
            room -= len(part)
            waiting += [item for item in part if type(item) not in _SCALARS]
        if room < 0:
            raise ValueError(f"the output would have more than {_OUTPUT_SIZE} characters, numbers and names")


def _compile(template: JsonValue) -> Value:
    match template:
        case {"$compute": steps}:
            if len(template) != 1:
                raise ValueError("$compute must be the only key of its object")
            return _computation(steps if isinstance(steps, list) else [steps])
        case dict():
            fields = {_key(key): _compile(value) for key, value in template.items()}
            return lambda item: {key: value(item) for key, value in fields.items()}
        case list():
            values = [_compile(value) for value in template]
            return lambda item: [value(item) for value in values]
        case str() if template.startswith("$$"):
            return _literal(template[1:])
        case str() if template.startswith("$"):
            return _scalar(template)
        case _:
            return _literal(template)


def _key(key: str) -> str:
    if not key.startswith("$"):
        return key
    if not key.startswith("$$"):
        raise ValueError(f"the key {key!r} is reserved; write ${key} for a key that begins with $")
    return key[1:]


def _literal(value: JsonValue) -> Value:
    return lambda _: value


def _scalar(path: str) -> Value:
    """The one match of a JSONPath. Plain paths, nearly all there are, are walked without the JSONPath library."""
    # The library takes 50 ms to import and some 20 µs a path, for each row.
    if _PLAIN_PATH.fullmatch(path):
        return _walk(path, [name or int(number) for name, number in _PLAIN_STEP.findall(path)])
    expression = parse_json_path(path)

    def value(item: JsonValue) -> JsonValue:
        matches = find(expression, item)
        if len(matches) != 1:
            raise ValueError(f"{path} has {len(matches)} matches, it needs exactly one")
        return matches[0].value

    return value


def _walk(path: str, steps: list[Any]) -> Value:
    def value(item: JsonValue) -> JsonValue:
        for step in steps:
            # A string can be indexed too: `$.a[0]` of a text would be its first letter.
            container = list if isinstance(step, int) else dict
            if not isinstance(item, container):
                raise ValueError(f"{path} has no match")
            try:
                item = item[step]
            except LookupError:
                raise ValueError(f"{path} has no match") from None
        return item

    return value


def _list(path: JsonValue) -> Value:
    if isinstance(path, list):
        values = [_first(step) for step in path]
        return lambda item: [value(item) for value in values]
    expression = parse_json_path(_path("$list", path))
    return lambda item: [match.value for match in find(expression, item)]


def _path(name: str, path: JsonValue) -> str:
    if not isinstance(path, str) or not path.startswith("$") or path.startswith("$$"):
        raise ValueError(f"{name} takes a JSONPath, not {short(path)}; use $literal for a literal")
    return path


def _first(step: JsonValue) -> Value:
    match step:
        case {"$literal": value} if len(step) == 1:
            return _literal(value)
        case {"$scalar": path} if len(step) == 1:
            return _scalar(_path("$scalar", path))
        case {"$list": path} if len(step) == 1:
            return _list(path)
        case _:
            raise ValueError(f"expected one of $literal, $scalar and $list, not {short(step)}")


def _computation(steps: list[JsonValue]) -> Value:
    compiled = [
        _function(step) if isinstance(step, dict) and "$func" in step else _first(step) for step in steps
    ]

    def value(item: JsonValue) -> JsonValue:
        for step in compiled:
            item = step(item)
        return item

    return value


def _findall(pattern: str, flags: int = 0) -> Value:
    return Pattern(pattern, flags).findall


def _join(separator: str = "") -> Value:
    def value(parts: JsonValue) -> JsonValue:
        # Of a text, every character is a part, and takes eight bytes as such.
        if isinstance(parts, str) and 8 * len(parts) > _OUTPUT_SIZE:
            raise ValueError(f"join: would have more than {_OUTPUT_SIZE // 8} characters to join")
        texts = list(parts)
        _check_size([*texts, " " * min(len(separator) * len(texts), _OUTPUT_SIZE)])
        return separator.join(texts)

    return value


def _as_list() -> Value:
    return list


def _reduce() -> Value:
    def value(parts: JsonValue) -> JsonValue:
        parts = list(parts)
        _check_size(parts)
        # A sum of texts or lists would copy what is there already for each further one.
        if len(parts) > 1 and all(isinstance(part, str) for part in parts):
            return "".join(parts)
        if len(parts) > 1 and all(isinstance(part, list) for part in parts):
            return [item for part in parts for item in part]
        return functools.reduce(operator.add, parts)

    return value


def _search(pattern: str, flags: int = 0, group: int | str = 0, default: str | None = None) -> Value:
    search = Pattern(pattern, flags).search

    def value(text: JsonValue) -> JsonValue:
        match = search(text)
        return default if match is None else match.group(group)

    return value


def _split(pattern: str, maxsplit: int = 0, flags: int = 0) -> Value:
    compiled = Pattern(pattern, flags)
    return lambda text: compiled.split(text, maxsplit)


def _sub(pattern: str, repl: str, count: int = 0, flags: int = 0) -> Value:
    compiled = Pattern(pattern, flags)
    return lambda text: compiled.sub(repl, text, count)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "findall": _findall,
    "join": _join,
    "list": _as_list,
    "reduce": _reduce,
    "search": _search,
    "split": _split,
    "sub": _sub,
}


def _function(step: Mapping[str, JsonValue]) -> Value:
    name = step["$func"]
    build = _FUNCTIONS.get(name)
    if build is None:
        raise ValueError(f"there is no function {name!r}; there are {', '.join(sorted(_FUNCTIONS))}")
    return build(**{key: value for key, value in step.items() if key != "$func"})
