"""Room of a namespace: what many owners or a made-up name multiply ends before it fills the memory."""

import re
from pathlib import Path

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import objects
from steelyard_local_kubernetes.apiserver.access.users import User, administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts

ROOT = "/api/v1/namespaces/default"
TESTER = administrator("tester")
USER = User("user")
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LARGE = "x" * 10_000


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "POD_BYTES", 30_000)
    monkeypatch.setattr(objects, "NAMESPACE_BYTES", 100_000)


async def ask(parts: Parts, method: str, path: str, body: Json, user: User = TESTER) -> tuple[int, str]:
    where = path if path.startswith("/") else f"{ROOT}/{path}"
    headers = {"content-type": f"application/{'merge-patch+' if method == 'PATCH' else ''}json"}
    response = await parts.core.handle(Request(method, where, {}, headers, orjson.dumps(body), user))
    assert isinstance(response.body, bytes)
    return response.status, str(orjson.loads(response.body).get("message"))


def pod(**metadata: object) -> Json:
    container = {"name": "main", "image": "x", "args": [LARGE]}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def config_map(**metadata: object) -> Json:
    return {"metadata": metadata, "data": {"a": LARGE}}


@pytest.mark.parametrize(
    ("plural", "obj", "taken", "message"),
    [
        ("pods", pod(generateName="a-"), 2, "has Pods of 2.... bytes, and room for at most 30000"),
        (
            "configmaps",
            config_map(generateName="a-"),
            9,
            "has objects of 9.... bytes, and room for at most 100000",
        ),
    ],
)
async def test_a_create_that_is_repeated_ends_at_the_room_of_its_namespace(
    tmp_path: Path, plural: str, obj: Json, taken: int, message: str
) -> None:
    parts = await make_parts(ApiServerConfig(None, tmp_path / "pki", {}), Clock())
    answers = [await ask(parts, "POST", plural, obj) for _ in range(12)]
    assert [status for status, _ in answers] == [201] * taken + [403] * (12 - taken)
    assert re.search(f"the namespace default {message}", answers[-1][1])
    parts.store.close()


async def test_what_goes_makes_room_and_the_platform_can_write_what_is_there(tmp_path: Path) -> None:
    parts = await make_parts(ApiServerConfig(None, tmp_path / "pki", {}), Clock())
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER.name}
    binding = {"metadata": {"name": "b"}, "roleRef": role, "subjects": [subject]}
    assert (await ask(parts, "POST", BINDINGS, binding))[0] == 201
    for name in "ab":
        assert (await ask(parts, "POST", "pods", pod(name=name), USER))[0] == 201
    assert (await ask(parts, "POST", "pods", pod(name="c")))[0] == 403
    more = {"metadata": {"annotations": {"a": LARGE}}}
    status, message = await ask(parts, "PATCH", "pods/a", more, USER)
    assert (status, "room for at most 30000" in message) == (403, True)
    assert (await ask(parts, "PATCH", "pods/a", more))[0] == 200
    less = {"metadata": {"annotations": None}}
    assert (await ask(parts, "PATCH", "pods/a", less, USER))[0] == 200
    assert (await ask(parts, "DELETE", "pods/a", {"gracePeriodSeconds": 0}))[0] == 200
    assert (await ask(parts, "POST", "pods", pod(name="c"), USER))[0] == 201
    parts.store.close()
