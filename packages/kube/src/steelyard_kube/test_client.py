"""The REST client: the contract over HTTP, and what only HTTP has: pages, tokens, broken answers, TLS."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from aiohttp import web

from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.conftest import Serve, Server
from steelyard_kube.errors import ApiError, Forbidden, Gone, NotFound, TooManyRequests, Unreachable
from steelyard_kube.kubeconfig import FileToken, KubeconfigError, load, pod_namespace
from steelyard_kube.resource import CONFIG_MAPS, NODES, PODS
from steelyard_kube.simulation import contract
from steelyard_kube.simulation.contract import config_map


@pytest.mark.parametrize("case", contract.CASES, ids=lambda case: case.__name__)
async def test_the_contract_holds_over_http(case: contract.Case, rest: RestCluster) -> None:
    await case(rest, "default")


async def test_a_list_reads_all_pages(server: Server, rest: RestCluster) -> None:
    server.page = 3
    for index in range(7):
        await rest.create(CONFIG_MAPS, config_map("default", f"a{index}"))
    objects = await rest.list(CONFIG_MAPS, "default")
    assert [obj["metadata"]["name"] for obj in objects.items] == [f"a{index}" for index in range(7)]
    assert all((obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1") for obj in objects.items)
    assert len(server.requests) == 7 + 3


async def test_every_request_carries_the_token(server: Server, rest: RestCluster) -> None:
    await rest.list(NODES)
    assert server.requests[0][2]["Authorization"] == "Bearer secret"


async def test_a_watch_of_forgotten_history_is_gone(server: Server, rest: RestCluster) -> None:
    made = await rest.create(CONFIG_MAPS, config_map("default", "a"))
    await rest.create(CONFIG_MAPS, config_map("default", "b"))
    server.cluster.store.compact()
    with pytest.raises(Gone):
        await anext(rest.watch(CONFIG_MAPS, resource_version=made["metadata"]["resourceVersion"]))


async def test_a_watch_delivers_bookmarks_and_long_lines(server: Server, rest: RestCluster) -> None:
    start = str(server.cluster.store.version)
    long = {"text": "x" * 900_000}
    await rest.create(CONFIG_MAPS, config_map("default", "a", long))
    server.cluster.store.bookmark()
    events = rest.watch(CONFIG_MAPS, resource_version=start)
    first, second = await anext(events), await anext(events)
    assert first.object["data"] == long
    assert second.type == "BOOKMARK"
    assert second.object["metadata"]["resourceVersion"] == str(server.cluster.store.version)
    await cast("Any", events).aclose()


async def test_a_watch_that_is_cut_off_is_unreachable(serve: Serve) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b'{"type":"ADDED","object":{"metadata":{}}}\n{"type":"MOD')
        assert request.transport is not None
        request.transport.abort()
        return answer

    cluster = RestCluster(await serve(cut))
    events = cluster.watch(PODS, resource_version="1")
    assert (await anext(events)).type == "ADDED"
    with pytest.raises(Unreachable):
        await anext(events)
    await cluster.close()


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (web.json_response({"reason": "Forbidden", "message": "no"}, status=403), Forbidden, "no"),
        (web.Response(text="404 page not found", status=404), NotFound, "404 page not found"),
        (web.Response(text="", status=502), ApiError, "502"),
        (web.json_response(["odd"], status=500), ApiError, "500"),
        (web.json_response({}, status=429, headers={"Retry-After": "7"}), TooManyRequests, "429"),
        (web.json_response({}, status=503, headers={"Retry-After": "²"}), ApiError, "503"),
        (web.json_response({}, status=503, headers={"Retry-After": "9" * 5000}), ApiError, "503"),
        (web.json_response({"details": ["odd"], "reason": ["odd"]}, status=503), ApiError, "503"),
    ],
    ids=["a Status", "plain text", "nothing", "no object", "too many", "no digit", "no end", "odd details"],
)
async def test_refusals_become_errors(
    serve: Serve, answer: web.Response, error: type[ApiError], text: str
) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return answer

    cluster = RestCluster(await serve(refuse))
    with pytest.raises(error, match=text) as caught:
        await cluster.get(PODS, "p", "default")
    assert caught.value.retry_after == (7 if error is TooManyRequests else None)
    await cluster.close()


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    cluster = RestCluster("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="GET /api/v1/nodes"):
        await cluster.list(NODES)
    await cluster.close()


async def test_a_server_that_cannot_be_reached_is_named_without_the_objects_of_this_program() -> None:
    cluster = RestCluster("https://127.0.0.1:9")
    with pytest.raises(Unreachable, match=r"Cannot connect to host 127\.0\.0\.1:9 \[") as raised:
        await cluster.list(NODES)
    assert "SSLContext" not in str(raised.value)
    await cluster.close()


async def test_names_are_quoted(server: Server, rest: RestCluster) -> None:
    with pytest.raises(NotFound):
        await rest.get(PODS, "a?b/../c", "default")
    assert server.requests[-1][1] == "/api/v1/namespaces/default/pods/a?b/../c"


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    token = FileToken(path)
    assert token() == "one"
    path.write_text("three\n")
    assert token() == "three"


async def test_a_token_file_that_was_never_there_is_said(tmp_path: Path) -> None:
    cluster = RestCluster("http://127.0.0.1:9", token=FileToken(tmp_path / "token"))
    with pytest.raises(Unreachable, match="cannot read the token"):
        await cluster.list(NODES)
    await cluster.close()


# ---- the account of a Pod

HOST = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.mark.parametrize(
    ("environment", "files", "namespace"),
    [
        ({}, {"token": "t", "namespace": "n"}, None),
        (HOST, {}, None),
        (HOST, {"namespace": "n"}, None),
        (HOST, {"token": "t", "namespace": "n\n"}, "n"),
        (HOST, {"token": "t"}, "default"),
    ],
    ids=["no Pod", "no account", "no token", "an account", "no namespace"],
)
def test_a_process_knows_whether_its_pod_has_an_account(
    tmp_path: Path, environment: dict[str, str], files: dict[str, str], namespace: str | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert pod_namespace(environment, tmp_path) == namespace


def test_a_pod_without_a_token_cannot_log_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        load(in_cluster=True, account=tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(KubeconfigError, match="automountServiceAccountToken"):
        load(in_cluster=True, account=tmp_path)


# ---- kubeconfig


def kubeconfig(url: str, user: Json, **cluster: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


def write(path: Path, config: Json) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


async def test_a_kubeconfig_says_where_and_who(server: Server, tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig(server.url, {"token": "from-file"}))
    for context, header in ((None, "Bearer from-file"), ("nobody", None)):
        cluster = await connect(path, context=context)
        await cluster.list(NODES)
        assert server.requests[-1][2].get("Authorization") == header
        await cluster.close()


def test_the_environment_names_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1", {"token": "t"}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{path}")
    assert load().url == "http://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(KubeconfigError, match="absent"):
        load()


@pytest.mark.parametrize(
    ("user", "context", "text"),
    [
        ({"auth-provider": {"name": "gcp"}}, None, "install gke-gcloud-auth-plugin"),
        (
            {"auth-provider": {"name": "mine"}},
            None,
            "no longer supports login by auth-provider 'mine'; use an exec",
        ),
        ({"username": "u", "password": "p"}, None, "no longer supports login by 'username'"),
        ({"token": ["t"]}, None, "cannot use the kubeconfig"),
        ({}, "elsewhere", "elsewhere"),
    ],
    ids=[
        "a login of old",
        "an unknown login of old",
        "a password",
        "a token that is none",
        "an unknown context",
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, user: Json, context: str | None, text: str) -> None:
    path = write(tmp_path / "config", kubeconfig("http://127.0.0.1:1", user))
    with pytest.raises(KubeconfigError, match=text):
        load(path, context=context)


def _data(content: str) -> bytes:
    return yaml.safe_dump(
        kubeconfig("https://127.0.0.1:1", {}, **{"certificate-authority-data": content})
    ).encode()


@pytest.mark.parametrize(
    "content",
    ["é".encode("latin-1"), b"[1]", b"", b"[" * 1_000, b"a: 2030-13-01", _data("abc"), _data("é")],
    ids=["no UTF-8", "a list", "nothing", "nested without end", "no date", "no base64", "no ASCII"],
)
def test_a_file_that_is_no_kubeconfig_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(KubeconfigError, match="cannot use the kubeconfig"):
        load(path)


async def test_logs_are_lines_with_their_times(serve: Serve) -> None:
    queries: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        queries.append(request.path_qs)
        return web.Response(
            text="2026-01-01T00:00:00.5Z first  line\n2026-01-01T00:00:01Z \n2026-01-01T00:00:02Z cut"
        )

    cluster = RestCluster(await serve(answer))
    lines = [(line.time[17:], line.text) async for line in cluster.logs("p", "ns", container="c", tail=3)]
    assert lines == [("00.5Z", "first  line"), ("01Z", ""), ("02Z", "cut")]
    assert queries == ["/api/v1/namespaces/ns/pods/p/log?container=c&tailLines=3&timestamps=true"]
    await cluster.close()


class _QuietServer:
    """Carrier whose watch sends one object, and no further ones."""

    status, headers = 200, dict[str, str]()

    def __init__(self) -> None:
        self.chunk = b'{"type":"ADDED","object":{"metadata":{}}}\n' * 3
        self.content = self

    async def ask(self, *request: object) -> Any:
        raise AssertionError("a watch comes in pieces")

    @asynccontextmanager
    async def send(self, *request: object) -> AsyncIterator[Any]:
        yield self

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self.chunk
        await asyncio.Event().wait()


async def test_a_quiet_watch_keeps_nothing_of_what_was_read() -> None:
    server = _QuietServer()
    references = sys.getrefcount(server.chunk)
    events = RestCluster("", carrier=server).watch(PODS, resource_version="1")
    for _ in range(3):
        await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    left = sys.getrefcount(server.chunk)
    assert left == references
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
