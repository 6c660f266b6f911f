"""Definitions and objects that would keep the server busy for ever, or end it, are refused."""

from pathlib import Path

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_kube.strategic import strategic_merge
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.content import (
    MAX_DEPTH,
    MAX_PARTS,
    TOO_MANY,
    BadContent,
    is_too_deep,
)
from steelyard_local_kubernetes.apiserver.errors import MAX_CAUSES
from steelyard_local_kubernetes.apiserver.expressions.functions import explain_slowness
from steelyard_local_kubernetes.apiserver.expressions.program import MAX_LENGTH, OVER_BUDGET, loop_depth
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.protobuf.decoding import decode_message
from steelyard_local_kubernetes.apiserver.protobuf.descriptors import kind_message
from steelyard_local_kubernetes.apiserver.schema import Node
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts
from steelyard_local_kubernetes.apiserver.strict import strict_faults

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
    await parts.store.wait_durable()
    status, answer = await ask(parts, "POST", THINGS, thing(value))
    assert status == 422
    assert message in answer["message"]
    parts.store.close()


async def test_a_loop_over_a_usual_list_is_not(tmp_path: Path) -> None:
    parts, _, _ = await define(tmp_path, ruled("self.all(a, self.exists_one(b, a == b))", **NUMBERS))
    await parts.store.wait_durable()
    assert (await ask(parts, "POST", THINGS, thing(list(range(50)))))[0] == 201
    parts.store.close()


def test_loops_are_counted_by_how_they_lie() -> None:
    assert loop_depth("self.a > 1") == 0
    assert loop_depth("self.all(a, a > (1 + 2)) && self.map(b, b).size() > 0") == 1
    assert loop_depth("self.all(a, self.exists(b, self.filter (c, c).size() > 0))") == 3
    assert loop_depth("self.all) (") == 0


@pytest.mark.parametrize("pattern", ["^[a-z]+-[0-9]{1,3}$", "(ab|cd)?x", r"\d+\.\d+", "a*b*", "(?i)x+"])
def test_usual_patterns_are_searched_for(pattern: str) -> None:
    assert not explain_slowness(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a*)*", "((a+)b)+", "((a+))+", "(a|b+){2,}", "a*a*a*a*b", "(?!a)b", "x" * 300]
)
def test_slow_patterns_are_not(pattern: str) -> None:
    assert explain_slowness(pattern)


def test_depth_is_of_lists_and_objects_in_each_other() -> None:
    deep: Json = {}
    for _ in range(MAX_DEPTH - 1):
        deep = {"a": [1, 2], "b": deep}
    assert not is_too_deep(deep)
    assert is_too_deep({"a": deep})
    assert not is_too_deep([{"a": 1}] * 1000)


MILLION = 1_000_000
PODS, CONFIG_MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
CAUSES, PARTS = f"more than {MAX_CAUSES} faults", TOO_MANY


def listed(field: str, item: bytes, count: int) -> bytes:
    """An object whose metadata have a list of this."""
    return b'{"metadata":{"name":"a","%s":[%s]}}' % (field.encode(), b",".join([item] * count))


def most_memory(*, forgotten: bool = False) -> int:
    """Return the most kilobytes that this process has had in memory, since that was last forgotten."""
    if forgotten:
        Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize("path", [PODS, CONFIG_MAPS])
@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (listed("finalizers", b'""', MILLION), 422, "metadata.finalizers: Too many: 1000000"),
        (listed("ownerReferences", b"{}", MILLION), 400, PARTS),
        (listed("ownerReferences", b"{}", MAX_PARTS // 2), 422, CAUSES),
        (listed("ownerReferences", b'{"controller":true}', MAX_PARTS // 2), 422, CAUSES),
        (listed("managedFields", b'{"\\u0061":1}', MILLION // 5), 400, PARTS),
        (
            b'{"metadata":{"name":"a","labels":{%s}}}'
            % b",".join(b'"%d":" "' % n for n in range(MILLION // 5)),
            422,
            "metadata.labels: Too many: 200000",
        ),
        (b'["%s" x' % (b"a" * 3 * MILLION), 400, "after array element"),
        (b'["%s" x' % (b"\\n" * MILLION), 400, "after array element"),
        (b'{"%s":[{"a":1,"a":1}],"metadata":{"name":"a"}}' % (b"k" * MILLION), 0, ""),
    ],
    ids=[
        "finalizers",
        "owners",
        "fewer owners",
        "controllers",
        "escaped names",
        "labels",
        "a long text",
        "escapes",
        "a long key",
    ],
)
async def test_no_body_makes_very_many_faults(
    tmp_path: Path, path: str, body: bytes, status: int, message: str
) -> None:
    parts = await make_parts(ApiServerConfig(None, tmp_path / "pki", {}), Clock())
    request = Request("POST", path, {}, {"content-type": "application/json"}, body, TESTER)
    before = most_memory(forgotten=True)
    response = await parts.core.handle(request)
    assert isinstance(response.body, bytes)
    assert response.status == (status or response.status)
    assert message in orjson.loads(response.body).get("message", "")
    assert len(response.body) < 64 << 10
    assert most_memory() - before < 64 << 10
    parts.store.close()


def test_strict_decoding_names_few_faults_of_a_long_path() -> None:
    twice = b",".join(b'"%d":1,"%d":1' % (number, number) for number in range(1000))
    faults = strict_faults(Node(), b'{"%s":{%s}}' % (b"k" * MILLION, twice), free=True)
    assert 0 < sum(map(len, faults)) < MILLION


@pytest.mark.parametrize("fields", [b"\x0a\x00", b"\x12\x00"], ids=["metadata", "spec"])
def test_empty_messages_are_counted(fields: bytes) -> None:
    pods = kind_message("v1", "PodList")
    assert pods is not None
    if fields == b"\x12\x00":
        with pytest.raises(BadContent, match=TOO_MANY):
            decode_message(pods, fields * (MAX_PARTS + 1))
    else:
        assert decode_message(pods, fields * (MAX_PARTS + 1)) == {"metadata": {}}


class Name(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("directive", ["", "delete"])
def test_items_of_a_patch_are_found_without_comparing_each_with_each(directive: str) -> None:
    """A list of 16,000 variables, merged with another one, would else keep the server for a minute."""
    count = 1000
    items = [{"name": Name(f"v{n}")} for n in range(count)]
    patch: Json = {
        "env": [
            {"name": Name(f"v{n}"), **({"$patch": directive} if directive else {})} for n in range(count)
        ],
        "$setElementOrder/env": [{"name": Name(f"v{n}")} for n in reversed(range(count))],
        "finalizers": [Name(f"f{n}") for n in range(count)],
        "$deleteFromPrimitiveList/owners": [Name(f"o{n}") for n in range(count)],
    }
    node = Node(properties={"env": Node(merge_key="name"), "finalizers": Node(merge_key="")})
    lists: Json = {name: [Name(f"{name[0]}{n}") for n in range(count)] for name in ("finalizers", "owners")}
    Name.compared = 0
    merged = strategic_merge(node, {"env": items, **lists}, patch)
    assert (len(merged["env"]), merged["owners"]) == (0 if directive else count, [])
    assert Name.compared < 50 * count
