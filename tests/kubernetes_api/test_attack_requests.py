"""Requests that ask for more work than they weigh: tokens, queries and patches.

The server answers others while it works on them, takes no memory for them, and says of each what its fault is. Tokens
are sent by callers without an account, the rest by one who may do everything in its namespace.
"""

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.victim import ADMIN, MOST, Victim, message_of, victim_at

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
FORMS = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
VARIABLES = 6000
"""Variables of the Deployment that is patched: with a list looked through for each, a patch takes minutes."""


def encoded(part: object) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def token(header: object, claims: object, signature: bytes = b"signature") -> str:
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature)}"


ES256 = {"alg": "ES256", "kid": "a"}
TOKENS = {
    "no algorithm": token({"alg": "none"}, {"sub": "system:admin"}, b""),
    "a secret as algorithm": token({"alg": "HS256"}, {"sub": "system:admin"}),
    "a deep header": token(b"[" * 4000, {}),
    "deep claims": token(ES256, b'{"a":' * 900),
    "a long number": token(ES256, b"1" * 5000),
    "many groups": token(ES256, {"groups": ["g"] * 900}),
    "many dots": "." * 8000,
    "a long text": "a" * 8000,
}
QUERIES: dict[str, tuple[str, int, str]] = {
    "labels": ("labelSelector=" + "a," * 3500, 400, "found '', expected: identifier after ','"),
    "values of a label": ("labelSelector=a+in+(" + "b," * 3400 + "c)", 200, ""),
    "brackets": ("labelSelector=" + "(" * 7000, 400, "expected: !, identifier"),
    "fields": ("fieldSelector=" + "metadata.name=a," * 480 + "metadata.name=b", 200, ""),
    "parameters": ("a=b&" * 1900, 200, ""),
    "a forged place": ("continue=" + encoded({"v": "meta.k8s.io/v1", "rv": 2**62, "start": "a"}), 200, ""),
    "a deep place": ("continue=" + encoded(b"[" * 5000), 400, "continue key is not valid"),
    "a place of many digits": (
        "continue=" + encoded(b'{"rv":' + b"9" * 5000 + b"}"),
        400,
        "continue key is not",
    ),
    "a limit of many digits": ("limit=" + "9" * 5000, 400, "value out of range"),
    "a version of many digits": ("resourceVersion=" + "9" * 5000, 400, "resourceVersion: Invalid value"),
    "a time of many digits": ("watch=1&timeoutSeconds=" + "9" * 5000, 400, "value out of range"),
    "a long line": ("a=" + "b" * 1_000_000, 400, ""),
}
"""Query, status and message."""


def operations(number: int, **operation: object) -> Callable[[], object]:
    return lambda: [operation] * number


def named(number: int, prefix: str = "a.b/n") -> list[str]:
    return [f"{prefix}{n}" for n in range(number)]


def finalizers(**fields: object) -> Callable[[], object]:
    return lambda: {"metadata": fields}


MANY = named(80_000)
MAP_PATCHES: dict[str, tuple[str, Callable[[], object], int, str]] = {
    "tests": (
        "json",
        operations(45_000, op="test", path="/data", value=""),
        413,
        "operations in a JSON patch is 10000",
    ),
    "additions": ("json", operations(9000, op="add", path="/data/a", value="b"), 200, ""),
    "copies of all": (
        "json",
        lambda: [{"op": "copy", "from": "", "path": f"/data/{n}"} for n in range(40)],
        413,
        "limit",
    ),
    "deep paths": ("json", operations(10, op="add", path="/a" * 100_000, value=1), 422, ""),
    "a list that moves": (
        "json",
        lambda: [
            {"op": "add", "path": "/data/l", "value": ["a"] * 300_000},
            *[{"op": "move", "from": "/data/l/0", "path": "/data/l/-"}] * 9000,
            {"op": "remove", "path": "/data/l"},
        ],
        200,
        "",
    ),
    "labels": (
        "merge",
        finalizers(labels=dict.fromkeys(MANY, "v")),
        422,
        "labels: Too many: 80000.*at most 1000",
    ),
    "annotations": (
        "merge",
        finalizers(annotations=dict.fromkeys(MANY, "v")),
        422,
        "annotations: Too long: may not be more than 262144 bytes",
    ),
    "finalizers": ("merge", finalizers(finalizers=MANY), 422, "finalizers: Too many: 80000.*at most 1000"),
    "finalizers that are added": ("strategic", finalizers(finalizers=MANY), 422, "finalizers: Too many"),
    "an order of finalizers": ("strategic", finalizers(**{"$setElementOrder/finalizers": MANY}), 200, ""),
    "finalizers that are removed": (
        "strategic",
        finalizers(**{"$deleteFromPrimitiveList/finalizers": MANY}),
        200,
        "",
    ),
    "keys that stay": ("strategic", finalizers(**{"$retainKeys": ["name", *MANY]}), 200, ""),
    "keys that are applied": (
        "apply",
        lambda: {"apiVersion": "v1", "kind": "ConfigMap", "data": dict.fromkeys(named(9000, "k"), "v")},
        200,
        "",
    ),
}
"""Form of the patch, the patch, status and message."""


def with_containers(**fields: object) -> Json:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **fields}]}}}}


def variables(value: str, **more: object) -> list[Json]:
    return [{"name": f"V{n}", "value": value, **more} for n in range(VARIABLES)]


DEPLOYMENT_PATCHES: dict[str, tuple[str, Callable[[], object], int, str]] = {
    "variables": ("strategic", lambda: with_containers(env=variables("b")), 200, ""),
    "variables in another order": (
        "strategic",
        lambda: with_containers(
            **{
                "env": variables("c"),
                "$setElementOrder/env": [{"name": f"V{n}"} for n in reversed(range(VARIABLES))],
            }
        ),
        200,
        "",
    ),
    "variables that go": (
        "strategic",
        lambda: with_containers(env=[{"name": f"V{n}", "$patch": "delete"} for n in range(10, VARIABLES)]),
        200,
        "",
    ),
    "variables of one name": ("strategic", lambda: with_containers(env=[{"name": "V0"}] * 49_000), 200, ""),
    "variables that are applied": (
        "apply",
        lambda: {"apiVersion": "apps/v1", "kind": "Deployment", **with_containers(env=variables("d"))},
        200,
        "",
    ),
    "ports of one number": (
        "strategic",
        lambda: with_containers(ports=[{"containerPort": 1, "protocol": f"P{n}"} for n in range(9000)]),
        400,
        "at most 64 elements of one containerPort",
    ),
    "containers": (
        "strategic",
        lambda: {
            "spec": {
                "template": {"spec": {"containers": [{"name": f"c{n}", "image": "x"} for n in range(8000)]}}
            }
        },
        422,
        "containers: Too many: 8001: must have at most 100",
    ),
}


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder: Path = tmp_path_factory.mktemp("victim")
    with victim_at(folder, "built-in kinds") as made:
        asyncio.run(prepare(made))
        yield made


async def prepare(victim: Victim) -> None:
    await victim.make_account("weak")
    await victim.make_account("owner", "*")
    await victim.warm_up()
    labels = {"app": "attack"}
    spec = {"containers": [{"name": "main", "image": "x", "env": variables("a")}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {
        "metadata": {"name": "many"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    for path, obj in ((MAPS, {"metadata": {"name": "map"}, "data": {"a": "b"}}), (DEPLOYMENTS, deployment)):
        sent = json.dumps(obj).encode()
        assert (await victim.send("POST", path, victim.tokens["owner"], sent))[0] == 201


async def answer(victim: Victim, attack: Any) -> tuple[int, str]:
    """Return the status and the message of a request, while others ask whether the server is there."""
    before = victim.memory()
    (answer,) = await victim.answers_to(attack)
    assert not isinstance(answer, BaseException), answer
    assert victim.memory() - before < MOST
    return answer[0], message_of(answer)


@pytest.mark.parametrize("name", TOKENS)
async def test_no_token_of_a_stranger_is_taken(victim: Victim, name: str) -> None:
    assert await answer(victim, victim.ask("GET", MAPS, TOKENS[name])) == (401, "Unauthorized")


@pytest.mark.parametrize("name", QUERIES)
async def test_a_query_costs_others_nothing(victim: Victim, name: str) -> None:
    query, expected, text = QUERIES[name]
    status, message = await answer(victim, victim.ask("GET", f"{MAPS}?{query}", victim.tokens["owner"]))
    assert (status, text in message) == (expected, True), message[:1000]


@pytest.mark.parametrize("name", [*MAP_PATCHES, *DEPLOYMENT_PATCHES])
async def test_a_patch_costs_others_nothing(victim: Victim, name: str) -> None:
    form, make, expected, text = (MAP_PATCHES | DEPLOYMENT_PATCHES)[name]
    path = f"{MAPS}/map" if name in MAP_PATCHES else f"{DEPLOYMENTS}/many"
    where = f"{path}?fieldManager=attack&force=true" if form == "apply" else path
    kept = (await victim.ask("GET", path, ADMIN))[1]
    body = json.dumps(make()).encode()
    patch = victim.send("PATCH", where, victim.tokens["owner"], body, **{"content-type": FORMS[form]})
    status, message = await answer(victim, patch)
    assert (status, bool(re.search(text, message))) == (expected, True), message[:1000]
    changed = json.loads(kept)
    del changed["metadata"]["resourceVersion"]
    changed["metadata"]["managedFields"] = []
    assert (await victim.send("PUT", path, ADMIN, json.dumps(changed).encode()))[0] == 200
