"""Definitions and objects that would keep the server busy for ever, or end it, are refused."""

from pathlib import Path

import orjson
import pytest

from steelyard.local.apiserver.access.users import administrator
from steelyard.local.apiserver.clock import Clock
from steelyard.local.apiserver.content import MAX_DEPTH, is_too_deep
from steelyard.local.apiserver.expressions.functions import why_slow
from steelyard.local.apiserver.expressions.program import MAX_LENGTH, OVER_BUDGET, nesting_of
from steelyard.local.apiserver.messages import Request
from steelyard.local.apiserver.server import ApiServerConfig, Parts, make_parts
from steelyard.types import Json

TESTER = administrator("tester")

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
NUMBERS: Json = {"type": "array", "items": {"type": "integer"}}


async def ask(parts: Parts, method: str, path: str, body: object) -> tuple[int, Json]:
    request = Request(method, path, {}, {"content-type": "application/json"}, orjson.dumps(body), TESTER)
    response = await parts.core.handle(request)
    assert isinstance(response.body, bytes)
    return response.status, orjson.loads(response.body)


async def define(tmp_path: Path, field: Json) -> tuple[Parts, int, Json]:
    """A server, and what it says to a kind whose `spec` is this."""
    parts = await make_parts(ApiServerConfig(None, tmp_path / "pki", {}), Clock())
    schema = {"type": "object", "properties": {"spec": field}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return parts, *await ask(
        parts, "POST", DEFINITIONS, {"metadata": {"name": "things.example.com"}, "spec": spec}
    )


def ruled(rule: str, **schema: object) -> Json:
    return {**schema, "x-kubernetes-validations": [{"rule": rule}]}


def thing(spec: object) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        # Its parse tree is as deep as it is long: the engine overflows its stack, and the process is gone.
        (ruled("1" + "+1" * 50_000 + " > 0", type="integer"), "too long"),
        (ruled("self.b" + ".b" * MAX_LENGTH + " > 0", type="object"), "too long"),
        ({"type": "string", "pattern": "(?=a)b"}, "must be a valid regular expression"),
        ({"type": "string", "pattern": r"(a)\1"}, "must be a valid regular expression"),
        ({"type": "string", "pattern": "(" * 10_000}, "must be a valid regular expression"),
    ],
    ids=["a long sum", "a long way", "looking ahead", "looking back", "open parentheses"],
)
async def test_such_definitions_are_refused(tmp_path: Path, field: Json, message: str) -> None:
    parts, status, answer = await define(tmp_path, field)
    assert status == 422
    assert message in answer["message"]
    parts.store.close()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (ruled("self.all(a, self.all(b, self.all(c, a + b + c > 0)))", **NUMBERS), [1] * 5000, OVER_BUDGET),
        (ruled("self.find('(a+)+$') == ''", type="string"), "a" * 40 + "b", "repeats a repetition"),
        (ruled("self.find(self) == ''", type="string"), "(a|a)*" * 9, "repetitions"),
        (ruled("self.findAll('a*b') == []", type="string"), "a" * 100_000, "text too long"),
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 100_000 + "b", "should match"),
    ],
    ids=["loops in loops", "a slow search", "a search for itself", "a long text", "a pattern"],
)
async def test_such_objects_are_refused(tmp_path: Path, field: Json, value: object, message: str) -> None:
    parts, status, answer = await define(tmp_path, field)
    assert status == 201, answer
    await parts.store.settled()
    status, answer = await ask(parts, "POST", THINGS, thing(value))
    assert status == 422
    assert message in answer["message"]
    parts.store.close()


async def test_a_loop_over_a_usual_list_is_not(tmp_path: Path) -> None:
    parts, _, _ = await define(tmp_path, ruled("self.all(a, self.exists_one(b, a == b))", **NUMBERS))
    await parts.store.settled()
    assert (await ask(parts, "POST", THINGS, thing(list(range(50)))))[0] == 201
    parts.store.close()


def test_loops_are_counted_by_how_they_lie() -> None:
    assert nesting_of("self.a > 1") == 0
    assert nesting_of("self.all(a, a > (1 + 2)) && self.map(b, b).size() > 0") == 1
    assert nesting_of("self.all(a, self.exists(b, self.filter (c, c).size() > 0))") == 3
    assert nesting_of("self.all) (") == 0


@pytest.mark.parametrize("pattern", ["^[a-z]+-[0-9]{1,3}$", "(ab|cd)?x", r"\d+\.\d+", "a*b*", "(?i)x+"])
def test_usual_patterns_are_searched_for(pattern: str) -> None:
    assert not why_slow(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a*)*", "((a+)b)+", "((a+))+", "(a|b+){2,}", "a*a*a*a*b", "(?!a)b", "x" * 300]
)
def test_slow_patterns_are_not(pattern: str) -> None:
    assert why_slow(pattern)


def test_depth_is_of_lists_and_objects_in_each_other() -> None:
    deep: Json = {}
    for _ in range(MAX_DEPTH - 1):
        deep = {"a": [1, 2], "b": deep}
    assert not is_too_deep(deep)
    assert is_too_deep({"a": deep})
    assert not is_too_deep([{"a": 1}] * 1000)
