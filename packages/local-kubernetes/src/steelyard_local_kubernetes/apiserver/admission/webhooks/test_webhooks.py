"""Webhooks change, refuse, hang and fail; whatever one does, no other request waits for it."""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from aiohttp import web

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import pki
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.admission.webhooks.dispatch import VALIDATING
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts
from steelyard_local_kubernetes.apiserver.streams.upstream import Upstream

TESTER = administrator("tester")
CORE = "/api/v1/namespaces/default"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
Answer = Callable[[Json], Json]


class Hooks:
    """A webhook server whose answers a test sets by path."""

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[Json] = []
        self.hanging = asyncio.Event()  # set once a caller waits
        self.released = asyncio.Event()
        self._context: ssl.SSLContext = pki.server_context(folder, "127.0.0.1", Clock().now())
        self.bundle = base64.b64encode((folder / "ca.crt").read_bytes()).decode()

    async def start(self) -> None:
        self._site = web.Server(self._answer, access_log=None)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._site, "127.0.0.1", 0, ssl=self._context)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self.released.set()
        self._listener.close()
        await self._site.shutdown()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        review = orjson.loads(await request.read())
        self.requests.append(review["request"])
        if request.path == "/hang":
            self.hanging.set()
            await self.released.wait()
        given = self.answers.get(request.path)
        answer: Json = given(review["request"]) if given else {"allowed": True}
        if "raw" in answer:
            return web.Response(text=answer["raw"], status=answer.get("code", 200))
        response = {"uid": review["request"]["uid"], **answer}
        content = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.json_response(content)

    def hook(self, path: str = "/allow", **more: Any) -> Json:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"]}
        return {
            "name": f"{path.strip('/')}.example.dev",
            "rules": [rule],
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }


def patch(*operations: Json) -> Json:
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(orjson.dumps(operations)).decode(),
    }


def labelled(key: str, value: str) -> Answer:
    """An answer that sets a label."""

    def answer(request: Json) -> Json:
        labels = request["object"]["metadata"].get("labels") or {}
        return patch({"op": "add", "path": "/metadata/labels", "value": {**labels, key: value}})

    return answer


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    server = Hooks(tmp_path / "hooks")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    made = await make_parts(ApiServerConfig(tmp_path / "db", tmp_path / "pki", {}), Clock())
    yield made
    made.store.close()


async def handled(parts: Parts, method: str, path: str, body: object = None, **query: str) -> Response:
    data = orjson.dumps(body) if body is not None else b""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    return await parts.core.handle(Request(method, path, query, {"content-type": kind}, data, TESTER))


async def ask(parts: Parts, method: str, path: str, body: object = None, **query: str) -> tuple[int, Json]:
    response = await handled(parts, method, path, body, **query)
    assert isinstance(response.body, bytes)
    return response.status, orjson.loads(response.body)


async def configure(parts: Parts, kind: str, *webhooks: Json) -> None:
    path = f"{HOOKS}/{kind.lower()}webhookconfigurations"
    status, answer = await ask(parts, "POST", path, {"metadata": {"name": "c"}, "webhooks": list(webhooks)})
    assert status == 201, answer


def config_map(name: str = "a", **more: Any) -> Json:
    return {"metadata": {"name": name, **more}, "data": {"a": "1"}}


async def test_a_webhook_changes_what_is_stored(parts: Parts, hooks: Hooks) -> None:
    hooks.answers["/label"] = labelled("seen", "yes")
    await configure(parts, "Mutating", hooks.hook("/label"))
    status, made = await ask(parts, "POST", f"{CORE}/configmaps", config_map())
    assert (status, made["metadata"]["labels"]) == (201, {"seen": "yes"})
    (request,) = hooks.requests
    assert request["operation"] == "CREATE"
    assert request["userInfo"]["username"] == "tester"
    assert request["object"]["data"] == {"a": "1"}
    assert (await ask(parts, "PATCH", f"{CORE}/configmaps/a", {"metadata": {"labels": None}}))[1]["metadata"][
        "labels"
    ] == {"seen": "yes"}


async def test_a_webhook_refuses_with_its_own_words(parts: Parts, hooks: Hooks) -> None:
    status: Json = {"message": "not today", "code": 403, "reason": "Forbidden"}
    hooks.answers["/deny"] = lambda request: {"allowed": False, "status": status, "warnings": ["careful"]}
    await configure(parts, "Validating", hooks.hook("/deny"))
    code, answer = await ask(parts, "POST", f"{CORE}/configmaps", config_map())
    assert (code, answer["message"]) == (
        403,
        'admission webhook "deny.example.dev" denied the request: not today',
    )
    assert (await ask(parts, "GET", f"{CORE}/configmaps/a"))[0] == 404


async def test_a_validating_webhook_sees_what_the_changing_ones_made(parts: Parts, hooks: Hooks) -> None:
    hooks.answers["/label"] = labelled("seen", "yes")
    hooks.answers["/check"] = lambda request: {
        "allowed": request["object"]["metadata"]["labels"] == {"seen": "yes"},
        "warnings": ["careful"],
    }
    await configure(parts, "Mutating", hooks.hook("/label"))
    await configure(parts, "Validating", hooks.hook("/check"))
    response = await handled(parts, "POST", f"{CORE}/configmaps", config_map())
    assert (response.status, response.warnings) == (201, ["careful"])
    assert isinstance(response.body, bytes)
    made = orjson.loads(response.body)
    # Its uid, too, is the one that is stored.
    assert hooks.requests[-1]["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert len(hooks.requests) == 2


async def test_a_deletion_is_asked_about_with_the_old_object(parts: Parts, hooks: Hooks) -> None:
    for name in ("a", "b"):
        await ask(parts, "POST", f"{CORE}/configmaps", config_map(name))
    hooks.answers["/keep"] = lambda request: {"allowed": request["oldObject"]["metadata"]["name"] != "b"}
    await configure(parts, "Validating", hooks.hook("/keep"))
    assert (await ask(parts, "DELETE", f"{CORE}/configmaps"))[0] == 400
    assert hooks.requests[0]["oldObject"]["data"] == {"a": "1"}
    assert hooks.requests[0]["object"] is None
    # As on a real server those before the first that is refused are gone.
    assert (await ask(parts, "GET", f"{CORE}/configmaps/a"))[0] == 404
    assert (await ask(parts, "GET", f"{CORE}/configmaps/b"))[0] == 200


async def test_no_request_waits_for_a_webhook_that_hangs(parts: Parts, hooks: Hooks) -> None:
    chosen = {"matchLabels": {"slow": "yes"}}
    await configure(parts, "Validating", hooks.hook("/hang", timeoutSeconds=30, objectSelector=chosen))
    slow = asyncio.create_task(
        ask(parts, "POST", f"{CORE}/configmaps", config_map("slow", labels={"slow": "yes"}))
    )
    await hooks.hanging.wait()
    assert (await ask(parts, "POST", f"{CORE}/configmaps", config_map("quick")))[0] == 201
    assert (await ask(parts, "GET", f"{CORE}/configmaps/slow"))[0] == 404
    assert parts.store.committed == parts.store.version
    hooks.released.set()
    assert (await slow)[0] == 201


async def test_a_webhook_that_is_late_counts_as_its_policy_says(parts: Parts, hooks: Hooks) -> None:
    await configure(parts, "Validating", hooks.hook("/hang", timeoutSeconds=1))
    code, answer = await ask(parts, "POST", f"{CORE}/configmaps", config_map())
    assert code == 500
    assert answer["message"] == (
        'Internal error occurred: failed calling webhook "hang.example.dev": failed to call webhook: Post '
        f'"https://127.0.0.1:{hooks.port}/hang?timeout=1s": context deadline exceeded'
    )
    path = f"{HOOKS}/validatingwebhookconfigurations/c"
    ignoring = {"webhooks": [hooks.hook("/hang", timeoutSeconds=1, failurePolicy="Ignore")]}
    assert (await ask(parts, "PATCH", path, ignoring))[0] == 200
    assert (await ask(parts, "POST", f"{CORE}/configmaps", config_map()))[0] == 201


async def test_an_object_that_changes_meanwhile_is_shown_again(parts: Parts, hooks: Hooks) -> None:
    """The server writes what was allowed, also where another request came in between."""
    await ask(parts, "POST", f"{CORE}/configmaps", config_map())
    await configure(parts, "Validating", hooks.hook("/hang", timeoutSeconds=30))
    late = asyncio.create_task(ask(parts, "PATCH", f"{CORE}/configmaps/a", {"data": {"late": "1"}}))
    await hooks.hanging.wait()
    stored = parts.store.get("configmaps", ("default", "a"))
    assert stored is not None
    changed = stored.parse()
    changed["data"]["between"] = "1"
    parts.store.put("configmaps", changed)
    hooks.released.set()
    status, answer = await late
    assert (status, answer["data"]) == (200, {"a": "1", "late": "1", "between": "1"})
    assert [request["object"]["data"] for request in hooks.requests] == [
        {"a": "1", "late": "1"},
        {"a": "1", "late": "1", "between": "1"},
    ]


async def test_a_webhook_sees_an_object_again_where_a_later_one_changes_it(
    parts: Parts, hooks: Hooks
) -> None:
    hooks.answers["/first"] = lambda request: patch(
        {"op": "add", "path": "/data/first", "value": str(sorted(request["object"]["data"]))}
    )
    hooks.answers["/second"] = lambda request: patch({"op": "add", "path": "/data/second", "value": "1"})
    again = hooks.hook("/first", reinvocationPolicy="IfNeeded")
    await configure(parts, "Mutating", again, hooks.hook("/second"))
    status, made = await ask(parts, "POST", f"{CORE}/configmaps", config_map())
    assert status == 201
    assert made["data"] == {"a": "1", "first": "['a', 'first', 'second']", "second": "1"}


async def test_a_dry_run_asks_no_webhook_with_side_effects(parts: Parts, hooks: Hooks) -> None:
    # Only an older API took such a webhook; the newer one still has it.
    await configure(parts, "Validating", hooks.hook("/do"))
    stored = parts.store.bucket(VALIDATING).items()[0].parse()
    stored["webhooks"][0]["sideEffects"] = "Some"
    parts.store.put(VALIDATING, stored)
    code, answer = await ask(parts, "POST", f"{CORE}/configmaps", config_map(), dryRun="All")
    assert (code, answer["message"]) == (400, 'admission webhook "do.example.dev" does not support dry run')
    assert hooks.requests == []


async def test_conditions_and_selectors_choose(parts: Parts, hooks: Hooks) -> None:
    condition = {"name": "large", "expression": "request.operation == 'CREATE' && size(object.data) > 1"}
    namespaces = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    await configure(
        parts,
        "Validating",
        hooks.hook("/a", matchConditions=[condition]),
        hooks.hook("/b", namespaceSelector={"matchLabels": {"not": "there"}}),
        hooks.hook("/c", namespaceSelector=namespaces, objectSelector={"matchLabels": {"x": "y"}}),
    )
    assert (await ask(parts, "POST", f"{CORE}/configmaps", config_map("small")))[0] == 201
    assert hooks.requests == []
    large = config_map("large", labels={"x": "y"}) | {"data": {"a": "1", "b": "2"}}
    assert (await ask(parts, "POST", f"{CORE}/configmaps", large))[0] == 201
    assert [request["name"] for request in hooks.requests] == ["large", "large"]


async def test_a_service_is_called_by_a_ready_endpoint(parts: Parts, hooks: Hooks, tmp_path: Path) -> None:
    service = {"metadata": {"name": "hooks"}, "spec": {"ports": [{"name": "web", "port": 443}]}}
    config = {"service": {"namespace": "default", "name": "hooks", "path": "/x"}, "caBundle": hooks.bundle}
    await configure(parts, "Validating", hooks.hook("/x", clientConfig=config))
    refused = (await ask(parts, "POST", f"{CORE}/configmaps", config_map()))[1]["message"]
    shown = 'Post "https://hooks.default.svc:443/x?timeout=10s": '
    assert refused.endswith(f'{shown}service "hooks" not found')
    assert (await ask(parts, "POST", f"{CORE}/services", service))[0] == 201
    refused = (await ask(parts, "POST", f"{CORE}/configmaps", config_map()))[1]["message"]
    assert refused.endswith(f'{shown}no endpoints available for service "hooks"')
    labels = {"kubernetes.io/service-name": "hooks"}
    endpoint: Json = {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
    slice_: Json = {"metadata": {"name": "s", "labels": labels}, "addressType": "IPv4"}
    slice_ |= {"endpoints": [endpoint], "ports": [{"name": "web", "port": hooks.port}]}
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert (await ask(parts, "POST", path, slice_))[0] == 201
    # It is reached; the certificate of this test is one for another name.
    refused = (await ask(parts, "POST", f"{CORE}/configmaps", config_map()))[1]["message"]
    assert f"{shown}tls: failed to verify certificate" in refused


async def test_a_webhook_that_is_not_there_is_named(parts: Parts, hooks: Hooks) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        config = {"url": f"https://127.0.0.1:{port}/gone", "caBundle": hooks.bundle}
        await configure(parts, "Validating", hooks.hook("/gone", clientConfig=config))
        code, answer = await ask(parts, "POST", f"{CORE}/configmaps", config_map())
    assert code == 500
    where = f'Post "https://127.0.0.1:{port}/gone?timeout=10s": dial tcp 127.0.0.1:{port}'
    assert answer["message"].endswith(f"{where}: connect: connection refused")


@pytest.mark.parametrize(
    ("kind", "answer", "text"),
    [
        ("Validating", {"raw": "{}"}, "webhook response was absent"),
        ("Validating", {"raw": "<html>"}, "couldn't get version/kind; json parse error"),
        ("Validating", {"raw": '{"apiVersion": "v1", "kind": "Pod"}'}, 'no kind "Pod" is registered'),
        ("Validating", {"raw": "no", "code": 500}, 'an error on the server ("no") has prevented the request'),
        ("Validating", {"raw": "", "code": 404}, "the server could not find the requested resource"),
        ("Validating", {"uid": "x", "allowed": True}, 'got "x"'),
        (
            "Validating",
            {"allowed": True, "patch": "W10="},
            "validating webhook may not return response.patch",
        ),
        (
            "Mutating",
            {"allowed": True, "patch": "W10="},
            "returned response.patch but not response.patchType",
        ),
    ],
)
async def test_an_answer_that_is_none_refuses_the_write(
    parts: Parts, hooks: Hooks, kind: str, answer: Json, text: str
) -> None:
    hooks.answers["/odd"] = lambda request: answer
    await configure(parts, kind, hooks.hook("/odd"))
    code, refused = await ask(parts, "POST", f"{CORE}/configmaps", config_map())
    assert code == 500
    assert text in refused["message"]


async def test_a_webhook_may_not_write_what_a_client_may_not(parts: Parts, hooks: Hooks) -> None:
    pod: Json = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    await ask(parts, "POST", f"{CORE}/pods", pod)
    hooks.answers["/all"] = lambda request: patch(
        {"op": "add", "path": "/metadata/uid", "value": "mine"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "add", "path": "/status/phase", "value": "Running"},
    )
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods", "pods/status"],
        "operations": ["*"],
    }
    await configure(parts, "Mutating", hooks.hook("/all", rules=[rule]))
    before = (await ask(parts, "GET", f"{CORE}/pods/p"))[1]
    after = (await ask(parts, "PATCH", f"{CORE}/pods/p", {"metadata": {"annotations": {"x": "y"}}}))[1]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert (after["status"]["phase"], after["metadata"]["labels"]) == ("Pending", {"a": "b"})
    status = (await ask(parts, "PATCH", f"{CORE}/pods/p/status", {"status": {"message": "m"}}))[1]
    assert (status["status"]["phase"], status["metadata"]["labels"]) == ("Running", {"a": "b"})


@pytest.mark.parametrize(
    ("subresource", "query", "options"),
    [
        (
            "exec",
            {"command": "ls", "stdout": "true", "container": "main"},
            {"kind": "PodExecOptions", "stdout": True, "container": "main", "command": ["ls"]},
        ),
        ("attach", {"stdin": "true"}, {"kind": "PodAttachOptions", "stdin": True}),
        ("portforward", {"ports": "80"}, {"kind": "PodPortForwardOptions", "ports": [80]}),
    ],
)
async def test_a_connection_is_shown_and_may_be_refused(
    parts: Parts, hooks: Hooks, subresource: str, query: dict[str, str], options: Json
) -> None:
    spec = {"containers": [{"name": "main", "image": "x"}]}
    await ask(parts, "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
    assert (await ask(parts, "POST", f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": spec}))[0] == 201
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*"], "operations": ["CONNECT"]}
    made = {"metadata": {"name": "h"}, "webhooks": [hooks.hook("/no", rules=[rule])]}
    await ask(parts, "POST", f"{HOOKS}/validatingwebhookconfigurations", made)
    hooks.answers["/no"] = lambda request: {"allowed": False, "status": {"message": "no visitors"}}
    headers = {"upgrade": "websocket"}
    request = Request("GET", f"{CORE}/pods/p/{subresource}", query, headers, b"", TESTER)
    refused = await parts.core.session(request)
    assert isinstance(refused, Response)
    assert isinstance(refused.body, bytes)
    text = 'admission webhook "no.example.dev" denied the request: no visitors'
    assert orjson.loads(refused.body)["message"] == text
    (shown,) = hooks.requests
    assert shown["object"] == {"apiVersion": "v1", **options}
    named = ("operation", "subResource", "name", "namespace", "options")
    assert [shown[key] for key in named] == ["CONNECT", subresource, "p", "default", None]


async def test_a_request_that_is_passed_on_to_a_service_is_shown(parts: Parts, hooks: Hooks) -> None:
    port = {"name": "web", "port": 80}
    service = {"metadata": {"name": "s"}, "spec": {"ports": [port]}}
    assert (await ask(parts, "POST", f"{CORE}/services", service))[0] == 201
    endpoints = {
        "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.9.8.5"]}],
        "ports": [port],
    }
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert (await ask(parts, "POST", slices, endpoints))[0] == 201
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services/*"], "operations": ["CONNECT"]}
    made = {"metadata": {"name": "h"}, "webhooks": [hooks.hook("/no", rules=[rule])]}
    await ask(parts, "POST", f"{HOOKS}/validatingwebhookconfigurations", made)
    hooks.answers["/no"] = lambda request: {"allowed": False, "status": {"message": "no visitors"}}
    path = f"{CORE}/services/s:web/proxy/a/b"
    refused = await parts.core.upstream(Request("GET", path, {}, {}, b"", TESTER))
    assert isinstance(refused, Response)
    assert b"no visitors" in cast("bytes", refused.body)
    (shown,) = hooks.requests
    assert shown["object"] == {"apiVersion": "v1", "kind": "ServiceProxyOptions", "path": "/a/b"}
    hooks.answers["/no"] = lambda request: {"allowed": True}
    allowed = await parts.core.upstream(Request("GET", path, {}, {}, b"", TESTER))
    assert allowed == Upstream("http", "127.9.8.5", 80)
