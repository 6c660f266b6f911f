"""YAML that stands for more than it weighs is refused before anything is made of it."""

import tracemalloc

import pytest
import yaml

from steelyard_common.bounded_yaml import BadYaml, Limits, load

LINES = 31


def doubled(line: str) -> str:
    """Return lines, each naming the one before it, by the pattern `line`."""
    lines = [f"a{n}: &a{n} " + line.replace("*a", f"*a{n - 1}") for n in range(1, LINES)]
    return "\n".join(["a0: &a0 {k: v}", *lines])


BOMBS = {
    "aliases in lists": doubled("[*a, *a]"),
    "aliases of empty lists": doubled("[*a, *a]").replace("{k: v}", "[]"),
    "aliases in objects": doubled("{x: *a, y: *a}"),
    "aliases as keys": doubled("{? *a : 1, ? [*a, 1] : 2}"),
    "merge keys": doubled("{<<: [*a, *a]}"),
    "merge keys with a key each": "a0: &a0 {k: v}\n"
    + "\n".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: v}}" for n in range(1, LINES)),
    "merge keys of block style": "\n".join(
        ["a0: &a0", "  k: v", *(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]" for n in range(1, LINES))]
    ),
    "a long text named often": f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 50_000}]",
    "a long key named often": f"? &a {'x' * 100_000}\n: 1\nb: [{'{*a : 1}, ' * 50_000}]",
    "an anchor that is set again": "a: &a [x]\n" + "\n".join(f"b{n}: &a [*a, *a]" for n in range(LINES)),
    "long prefixes of tags": f"%TAG !e! tag:{'x' * 50_000},2000:\n---\n[{'!e!a b, ' * 50_000}]",
    "an alias inside its list": "a: &a [*a]",
    "an alias inside its object": "a: &a {<<: *a}",
    "an alias far inside": "a: &a {b: {c: [1, {d: *a}]}}",
    "many nodes": "[" + "a," * 101_000 + "]",
    "many objects": "[" + "{}," * 101_000 + "]",
    "many pairs": "\n".join(f"k{n}: v" for n in range(51_000)),
    "nested lists": "[" * 100_000,
    "nested lists of lines": "- " * 100_000,
    "nested objects": "{a: " * 100_000,
    "nested keys": "? " * 100_000,
    "a long number": "a: " + "1" * 100_000,
    "a long number to the base of 60": "a: 1" + ":1" * 20_000,
    "a long fraction to the base of 60": "a: 1" + ":1" * 20_000 + ".5",
    "a long number with a type": "a: !!int '1" + ":1" * 20_000 + "'",
    "a long fraction with a type": "a: !!float '1" + ":1" * 20_000 + ".5'",
    "a long binary number": "a: 0b" + "1" * 100_000,
    "a long hexadecimal number": "a: 0x" + "f" * 100_000,
    "a long number with lines below": "a: 1" + "_1" * 20_000,
    "a long fraction": "a: ." + "1" * 100_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_what_stands_for_more_than_it_weighs_is_refused_before_it_is_made(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((BadYaml, yaml.YAMLError)):
            load(text)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "a: &a {k: 1}\nb: {<<: *a, l: 2}\nc: [*a, *a]",
            {"a": {"k": 1}, "b": {"k": 1, "l": 2}, "c": [{"k": 1}] * 2},
        ),
        ("", None),
        ("a", "a"),
        ("{a}", {"a": None}),
        ("? ", {None: None}),
        ("a: 1:30", {"a": 90}),
        ("a: '" + "1" * 1000 + "'", {"a": "1" * 1000}),
        ("a: !!str " + "1" * 1000, {"a": "1" * 1000}),
        ("a: " + "1a" * 1000, {"a": "1a" * 1000}),
        ("--- \na: &a [1]\n...", {"a": [1]}),
    ],
)
def test_what_people_write_is_read(text: str, value: object) -> None:
    assert load(text) == value


def test_limits_are_the_readers() -> None:
    assert load("[a, b]", limits=Limits(nodes=3, size=2, depth=1)) == ["a", "b"]
    for limits, said in [
        (Limits(nodes=2), "at most 2"),
        (Limits(size=1), "1 bytes"),
        (Limits(depth=0), "depth"),
    ]:
        with pytest.raises(BadYaml, match=said):
            load("[a, b]", limits=limits)
