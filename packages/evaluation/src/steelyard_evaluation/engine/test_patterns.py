"""Patterns, paths and templates of users: equal to Python's own, and bounded in time and size."""

import re
import tracemalloc
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_evaluation.engine import patterns
from steelyard_evaluation.engine.adapters import create_pipeline
from steelyard_evaluation.engine.json_path import BadJsonPath, parse_json_path
from steelyard_evaluation.engine.patterns import Pattern, PatternTooMuch
from steelyard_schema.data import SchemaAdapter

TEXTS = [
    "",
    "a",
    "ab, c;d",
    "The answer is: B.\nAnswer: C",
    "ÄÖ ß ſ K é",
    "x" * 50,
    "1.5 and -2e3",
    "a\r\nb\x0bc",
]
PATTERNS = [
    r"(?P<verdict>[A-D])\b",
    r"(?i)answer:\s*(\w)",
    r"(\w)(\w)?",
    r"[,;]\s*",
    r"",
    r"^|$",
    r"(?m)^.",
    r"(?<=a)b",
    r"-?\d+(?:\.\d+)?(?:e\d+)?",
    r"(.)\1",
    r"[^\W\d_]+",
    r"x*",
    r"(a)|(b)",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("flags", [0, re.IGNORECASE, re.ASCII, re.DOTALL | re.MULTILINE])
def test_it_finds_what_python_finds(pattern: str, flags: int) -> None:
    ours, pythons = Pattern(pattern, flags), re.compile(pattern, flags)
    assert ours.groups == pythons.groupindex.keys()
    for text in TEXTS:
        first, expected = ours.search(text), pythons.search(text)
        assert (first and first.span()) == (expected and expected.span())
        assert [match[0] for match in ours.find(text)] == [match[0] for match in pythons.finditer(text)]
        assert ours.findall(text) == pythons.findall(text)
        for most in (-1, 0, 1, 2):
            assert ours.split(text, most) == pythons.split(text, maxsplit=most)
            assert ours.sub(r"<\g<0>>\\", text, most) == pythons.sub(r"<\g<0>>\\", text, count=most)


SLOW = [
    (r"(a|aa)+$", "a" * 100 + "b"),
    (r"(?:a|a|a)+$", "a" * 60 + "b"),
    (r"(?P<verdict>(x|xx|xxx)+)y", "x" * 200),
    (r"(.*?,){25}P", "1,2,3,4,5,6,7,8,9,10,11,12,13," * 9),
    (r"(\w+\w+)+\1z", "ab" * 400),
    (r"^(?:(?:a|b)|(?:a|c)|(?:a|d))*$", "a" * 80 + "e"),
    (r"(?=((a|aa)+))\1b", "a" * 90),
    (r"(?i)(?:ab|AB|aB)*c", "ab" * 30_000),
    (r"(?:(?:a?){30}){30}b", "a" * 300),
    (r"([a-z]+\s?)+[0-9]!", "word " * 60),
    (r"(a*)*(b*)*(a*)*c", "ab" * 300),
]


@pytest.mark.parametrize(("pattern", "text"), SLOW, ids=[pattern for pattern, _ in SLOW])
@pytest.mark.parametrize("function", ["search", "findall", "split", "sub"])
def test_no_pattern_takes_long(
    pattern: str, text: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matching ends, whatever it finds; the limit of the test itself would end it else."""
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    compiled = Pattern(pattern)
    try:
        match function:
            case "sub":
                compiled.sub("", text)
            case "findall":
                compiled.findall(text)
            case "split":
                compiled.split(text)
            case _:
                compiled.search(text)
    except PatternTooMuch:
        pass  # that it ends is what counts


def test_a_slow_pattern_is_named_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    with pytest.raises(
        PatternTooMuch, match=r"the pattern '\(a\|aa\)\+\$' needs more than 0.05 s for one text"
    ):
        Pattern(r"(a|aa)+$").search("a" * 100 + "b")


def _compute(*steps: Json) -> Json:
    return {"kind": "TransformJSON", "configuration": {"x": {"$compute": [{"$scalar": "$.x"}, *steps]}}}


def _chain(*adapters: Json) -> Json:
    return {"kind": "Pipeline", "configuration": {"adapters": list(adapters)}}


DOUBLE = {"kind": "TransformJSON", "configuration": {"x": ["$.x", "$.x"]}}
MULTIPLYING: dict[str, Json] = {
    "a replacement": _compute({"$func": "sub", "pattern": "", "repl": "y" * 4000}),
    "a group that is repeated": _compute({"$func": "sub", "pattern": "(?s)(.+)", "repl": "\\1" * 1000}),
    "replacements in a row": _compute(*[{"$func": "sub", "pattern": "(?s)(.+)", "repl": "\\1\\1"}] * 40),
    "groups within groups": _compute({"$func": "findall", "pattern": "(" * 99 + "(?s).+" + ")" * 99}),
    "a separator": _compute({"$func": "join", "separator": "y" * 10_000}),
    "separators in a row": _compute(*[{"$func": "join", "separator": "yyyy"}] * 30),
    "a template that doubles": _chain(*[DOUBLE] * 40),
    "objects that double": _chain(
        *[{"kind": "TransformJSON", "configuration": {"x": {"a": "$.x", "b": "$.x"}}}] * 40
    ),
}


@pytest.mark.parametrize("adapter", MULTIPLYING)
def test_no_adapter_multiplies_an_answer(adapter: str) -> None:
    spec = SchemaAdapter.model_validate(MULTIPLYING[adapter])
    made: Any = create_pipeline([spec])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"more than \d+ char"):
            list(made([{"x": "z" * 200_000}]))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:The `|` .union. operator is deprecated")
@pytest.mark.parametrize(
    "path",
    [
        "$..*..*",
        "$..a..b..c",
        "$.*.`parent`",
        "$.a where $..b",
        "$.a wherenot $.b",
        "$" + ".a" * 1000,
        "|".join(["$..a"] * 20),
        "|".join(["$.a"] * 30),
        "$.`sub(/a/, b)`",
    ],
)
def test_a_path_that_may_need_any_time_is_refused(path: str) -> None:
    with pytest.raises(BadJsonPath):
        parse_json_path(path)


@pytest.mark.parametrize("path", ["$", "$.a.b[0]", "$..a", "$.a[*].b", "$['a b']", "$.a[1:3]", "$.*"])
def test_usual_paths_are_taken(path: str) -> None:
    parse_json_path(path)
