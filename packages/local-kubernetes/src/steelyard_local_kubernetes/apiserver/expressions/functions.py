"""CEL's functions in addition to those of the engine: texts, lists and sets as Kubernetes has them.

`x.f(a)` and `f(x, a)` are the same call. Loads the engine, which takes a while: only when a rule needs it.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

from steelyard_local_kubernetes.apiserver.expressions import engine

Function = Callable[..., Any]
MAX_TEXT, MAX_PATTERN, MAX_REPEATS = 1024, 256, 3
SIZE = "sizeInCharacters"  # the engine's own `size` counts the bytes of texts
_ENGINE = "all bytes contains double duration dyn endsWith exists exists_one filter getDate getDayOfMonth "
_ENGINE += "getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds has hasValue "
_ENGINE += "int map matches of none optional or orValue string startsWith timestamp type uint value"
_TEXTS = "charAt indexOf lastIndexOf join lowerAscii replace split substring trim upperAscii reverse bool min max sum"
_SETS = "sets.contains sets.equivalent sets.intersects"


@cache
def functions() -> dict[str, Function]:
    engine.load()
    from cel import stdlib

    ready = {name: stdlib.STDLIB_FUNCTIONS[name] for name in f"{_TEXTS} {_SETS}".split()}
    own: dict[str, Function] = {
        SIZE: len,
        "find": _find,
        "findAll": _find_all,
        "indexOf": _either(ready["indexOf"], _list_index),
        "lastIndexOf": _either(ready["lastIndexOf"], _last_list_index),
        "isSorted": _is_sorted,
    }
    return ready | own


def function_names() -> frozenset[str]:
    """Return the functions that a rule may call, by the names that the engine reports."""
    # The engine reports `sets.contains` as `contains`.
    return frozenset(_ENGINE.split()) | {name.rpartition(".")[2] for name in functions()}


def _either(of_text: Function, of_list: Function) -> Function:
    def call(first: Any, *rest: Any) -> Any:
        return of_list(first, *rest) if isinstance(first, list) else of_text(first, *rest)

    return call


def _list_index(items: list[Any], item: Any) -> int:
    return items.index(item) if item in items else -1


def _last_list_index(items: list[Any], item: Any) -> int:
    return len(items) - 1 - items[::-1].index(item) if item in items else -1


def _is_sorted(items: list[Any]) -> bool:
    return all(first <= second for first, second in pairwise(items))


def _pattern(text: str, pattern: str) -> "re.Pattern[str]":
    """Python's expressions may take for ever where a real server's take the time of one pass: those are refused."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"text too long to search in: {len(text)} characters, {MAX_TEXT} are taken here")
    if refusal := explain_slowness(pattern):
        raise ValueError(refusal)
    return re.compile(pattern)


def explain_slowness(pattern: str) -> str:
    """Return why a regular expression may not be searched for; empty where it may."""
    if len(pattern) > MAX_PATTERN:
        return f"regular expression too long: at most {MAX_PATTERN} characters are taken here"
    if _repeats(pattern) > MAX_REPEATS:
        return f"regular expression with more than {MAX_REPEATS} repetitions, or that repeats a repetition"
    # Go's expressions (RE2) have none of these either: a rule that needs them works on no real server.
    if re.search(r"\(\?(?:[=!]|<[=!]|P=|\()|\\[1-9]", pattern):
        return "regular expression that looks around or back"
    return ""


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()*+{]", re.DOTALL)


def _repeats(pattern: str) -> int:
    """Count the parts that are repeated without a bound; too many where such a part holds another."""
    inside, count = [0], 0
    for token in _TOKEN.finditer(pattern):
        match token[0]:
            case "(":
                inside.append(0)
            case ")" if len(inside) > 1:
                held = inside.pop()
                inside[-1] += held
                # A repetition of a repetition, such as (a+)+, can take Python exponential time.
                if held and pattern[token.end() : token.end() + 1] in ("*", "+", "{"):
                    return MAX_REPEATS + 1
            case "*" | "+" | "{":
                inside[-1] += 1
                count += 1
    return count


def _find(text: str, pattern: str) -> str:
    match = _pattern(text, pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    matches = [match[0] for match in _pattern(text, pattern).finditer(text)]
    return matches if limit < 0 else matches[:limit]
