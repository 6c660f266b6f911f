"""`pods/proxy` and `services/proxy`: requests that reach a program of a Pod, and what cannot."""

import asyncio
import io
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api, pod
from tests.kubernetes_api.conftest import Server

ADDRESS = "127.9.8.6"


async def _program(request: web.BaseRequest) -> web.StreamResponse:
    """Return the request; `/moved` leads to another path, `/slow` says one word and waits, `/count` counts bytes."""
    if request.path == "/count":
        count = 0
        async for chunk in request.content.iter_any():
            count += len(chunk)
        return web.json_response(count)
    if request.path == "/moved":
        return web.Response(status=302, headers={"Location": "/there?a=b"})
    if request.path == "/slow":
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first")
        await asyncio.Event().wait()
    headers = {name.lower(): value for name, value in request.headers.items()}
    seen: Json = {"method": request.method, "path": request.rel_url.raw_path_qs, "headers": headers}
    seen["body"] = (await request.read()).decode()
    return web.json_response(seen, status=418, headers={"X-Own": "yes"})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    site = web.Server(_program, access_log=None, handler_cancellation=True)
    listener = await asyncio.get_running_loop().create_server(site, ADDRESS, 0)
    yield listener.sockets[0].getsockname()[1]
    listener.close()
    await site.shutdown(timeout=2)


@pytest.fixture
async def running(embedded: Server, api: Api, core: str, namespace: str, port: int) -> str:
    """A Pod `p` with the program, and a Service `s` with a named and an unnamed port that lead to it."""
    container = {"name": "main", "image": "x", "ports": [{"containerPort": port}]}
    (await api.post(f"{core}/pods", pod("p", nodeName="localhost", containers=[container]))).ok(201)
    status: Json = {"phase": "Running", "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    (await api.merge(f"{core}/pods/p/status", {"status": status})).ok(200)
    for name, named in (("s", ""), ("named", "web")):
        row = {"port": 80, "targetPort": port} | ({"name": named} if named else {})
        (await api.post(f"{core}/services", {"metadata": {"name": name}, "spec": {"ports": [row]}})).ok(201)
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        endpoints = {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS]}],
            "ports": [{"name": named, "port": port}],
        }
        (await api.post(slices, endpoints)).ok(201)
    return core


@pytest.mark.parametrize(
    "what", ["pods/p", "services/s", "services/s:80", "services/http:s:80", "services/named:web"]
)
async def test_a_request_reaches_the_program(api: Api, running: str, what: str) -> None:
    answer = await api.request("PUT", f"{running}/{what}/proxy/a%20b/c?d=e&d=f", {"g": 1})
    assert (answer.status, answer.headers["X-Own"]) == (418, "yes")
    seen = answer.json
    assert (seen["method"], seen["path"], seen["body"]) == ("PUT", "/a%20b/c?d=e&d=f", '{"g":1}')
    assert seen["headers"]["x-forwarded-proto"] == "https"
    assert seen["headers"]["content-type"] == "application/json"


async def test_the_program_does_not_get_the_callers_token(api: Api, running: str) -> None:
    headers = api.headers | {"Impersonate-User": "tester", "Impersonate-Group": "system:masters"}
    async with api.session().get(f"{api.url}{running}/pods/p/proxy/", headers=headers) as answer:
        seen = (await answer.json())["headers"]
    assert "authorization" not in seen
    assert not [name for name in seen if name.startswith("impersonate-")]


async def test_the_root_has_a_slash(api: Api, running: str) -> None:
    url = f"{running}/services/s/proxy"
    async with api.session().get(f"{api.url}{url}?a=b", headers=api.headers, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, f"{url}/?a=b")


async def test_a_redirection_of_the_program_stays_below_its_path(api: Api, running: str) -> None:
    url = f"{running}/services/s/proxy"
    async with api.session().get(
        f"{api.url}{url}/moved", headers=api.headers, allow_redirects=False
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, f"{url}/there?a=b")


async def test_an_answer_comes_as_the_program_says_it(api: Api, running: str) -> None:
    async with (
        asyncio.timeout(60),
        api.session().get(f"{api.url}{running}/pods/p/proxy/slow", headers=api.headers) as answer,
    ):
        assert await answer.content.read(5) == b"first"


async def test_a_body_may_be_larger_than_an_object(api: Api, running: str) -> None:
    large = b"x" * (4 << 20)
    url = f"{api.url}{running}/pods/p/proxy/count"
    async with api.session().post(url, data=io.BytesIO(large), headers=api.headers) as answer:
        assert await answer.json() == len(large)


REFUSED = [
    ("pods/absent/proxy/", 404, 'pods "absent" not found'),
    ("services/absent/proxy/", 404, 'services "absent" not found'),
    ("services/s:81/proxy/", 503, 'no service port 81 found for service "s"'),
    ("services/named/proxy/", 503, 'no endpoints available for service "named"'),
    ("services/s:web/proxy/", 503, 'no endpoints available for service "s:web"'),
    ("services/ftp:s:80/proxy/", 400, 'invalid service request "ftp:s:80"'),
    ("pods/a:b:c:d/proxy/", 400, 'invalid pod request "a:b:c:d"'),
    (
        "pods/p:9/proxy/",
        503,
        f"error trying to reach service: dial tcp {ADDRESS}:9: connect: connection refused",
    ),
]


@pytest.mark.parametrize(("path", "status", "message"), REFUSED, ids=[row[0] for row in REFUSED])
async def test_what_cannot_be_reached(api: Api, running: str, path: str, status: int, message: str) -> None:
    answer = await api.get(f"{running}/{path}")
    assert (answer.status, answer.message) == (status, message)


async def test_who_may_not_is_refused(api: Api, running: str, namespace: str) -> None:
    (await api.post(f"{running}/serviceaccounts", {"metadata": {"name": "a"}})).ok(201)
    token = (
        (await api.post(f"{running}/serviceaccounts/a/token", {"spec": {}})).ok(201).json["status"]["token"]
    )
    path = f"{running}/services/s/proxy/x"
    refused = await api.request("GET", path, token=token)
    assert refused.status == 403
    assert 'cannot get resource "services/proxy"' in refused.message
    access = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["services/proxy"]}
    (await api.post(f"{access}/roles", {"metadata": {"name": "r"}, "rules": [rule]})).ok(201)
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": namespace}],
    }
    (await api.post(f"{access}/rolebindings", binding)).ok(201)
    assert (await api.request("GET", path, token=token)).status == 418


async def test_an_upgraded_connection_is_refused_with_what_to_use(api: Api, running: str) -> None:
    headers = api.headers | {"Upgrade": "websocket", "Connection": "Upgrade"}
    async with api.session().get(f"{api.url}{running}/pods/p/proxy/", headers=headers) as answer:
        assert answer.status == 501
        assert "kubectl port-forward" in (await answer.json())["message"]


async def test_a_node_is_not_passed_on_to(embedded: Server, api: Api) -> None:
    node = {"metadata": {"name": "n"}}
    (await api.post("/api/v1/nodes", node)).ok(201)
    for path in ("proxy", "proxy/metrics"):
        answer = await api.get(f"/api/v1/nodes/n/{path}")
        assert (answer.status, "does not serve nodes/proxy" in answer.message) == (501, True)
    await api.delete("/api/v1/nodes/n")
