"""Every server of OpenAI's API refuses in OpenAI's form, whoever refuses: it, the API before it, or its framework."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from steelyard.api.inference_sessions.errors import ending_with_error, in_openai_form
from steelyard_common.serving.openai import errors_in_openai_form
from tests.platform_api.openai_doors import DOORS, hosted_model, session_of_mock

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
INVALID = "invalid_request_error"


@dataclass(frozen=True)
class RefusedRequest:
    """A request, and the error that it gets; `param` and `code` are absent where OpenAI names none either."""

    method: str
    path: str
    status: int
    code: str | None = None
    param: str | None = None
    request: dict[str, Any] = field(default_factory=dict)
    headers: tuple[str, ...] = ()


REFUSED: dict[str, RefusedRequest] = {
    "a path that is not there": RefusedRequest("POST", "/nowhere", 404, request={"json": HELLO}),
    "a page of the server": RefusedRequest("GET", "/nowhere", 404),
    "a method that the server lacks": RefusedRequest(
        "GET", "/chat/completions", 405, "method_not_supported", headers=("Allow",)
    ),
    "a method that all lack": RefusedRequest(
        "DELETE", "/chat/completions", 405, "method_not_supported", headers=("Allow",)
    ),
    "a model that is not there": RefusedRequest("GET", "/models/none/at-all", 404, "model_not_found", "model"),
    "no JSON": RefusedRequest(
        "POST", "/completions", 400, request={"content": b"{", "headers": {"Content-Type": "application/json"}}
    ),
    "no object": RefusedRequest("POST", "/embeddings", 400, request={"json": []}),
    "a wrong field": RefusedRequest("POST", "/chat/completions", 400, param="n", request={"json": {**HELLO, "n": 0}}),
    "a form": RefusedRequest(
        "POST", "/chat/completions", 415, param="Content-Type", request={"files": {"file": b"x"}}
    ),
}  # fmt: skip


def check_form(answer: httpx.Response, row: RefusedRequest) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (row.status, "application/json"), (
        answer.text
    )
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert (error["type"], error["param"]) == (INVALID, row.param)
    if row.code is not None:
        assert error["code"] == row.code
    assert all(name in answer.headers for name in row.headers)


@pytest.mark.parametrize("door", DOORS)
async def test_a_refusal_has_openais_form(door: str) -> None:
    async with DOORS[door]() as client:
        for row in REFUSED.values():
            check_form(await client.request(row.method, row.path, **row.request), row)
        models = (await client.get("/models")).json()["data"]
        for model in models:
            assert (await client.get(f"/models/{model['id']}")).json() == model


async def test_another_model_than_the_hosted_one_is_not_answered_by_it() -> None:
    async with hosted_model() as client:
        for path, body in (("chat/completions", HELLO), ("embeddings", {"input": ["x"]})):
            refused = await client.post(f"/{path}", json={**body, "model": "other"})
            check_form(refused, RefusedRequest("POST", path, 404, "model_not_found", "model"))
            assert (await client.post(f"/{path}", json={**body, "model": "large"})).status_code == 200


async def test_a_session_refuses_strangers_as_openai_does() -> None:
    async with session_of_mock(error_rate=1, error_status=429) as client:
        busy = await client.post("/chat/completions", json=HELLO)
        assert (busy.status_code, busy.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        client.headers["Authorization"] = "Bearer sk-of-another"
        stranger = await client.post("/chat/completions", json=HELLO)
        check_form(stranger, RefusedRequest("POST", "", 401, "invalid_api_key"))
        # Clients that go by OpenAI's words.
        assert stranger.json()["error"]["message"].startswith("Incorrect API key provided: ")
        assert stranger.json()["reason"] == "Unauthenticated"  # what clients of the platform read


@pytest.mark.parametrize(
    ("endpoint", "status", "body", "expected"),
    [
        ("v1/x", 404, b'{"detail": "Not Found"}', {"detail": "Not Found", "error": ("Not Found", INVALID)}),
        ("openai/v1/x", 500, b"Internal Server Error", {"error": ("Internal Server Error", "server_error")}),
        ("v1/x", 502, b"", {"error": ("the model server answers with status 502", "server_error")}),
        ("v1/x", 422, b"[]", {"error": ("the model server answers with status 422", INVALID)}),
        ("v1/x", 400, b'{"error": {"message": "own"}}', None),
        ("v1/x", 400, b'{"error": "own"}', None),
        ("v1/x", 200, b"{}", None),
        ("generate", 404, b'{"detail": "Not Found"}', None),
    ],
    ids=["FastAPI's", "a text", "nothing", "no object", "OpenAI's", "another's", "no error", "another API"],
)
def test_an_error_of_a_model_server_gets_the_form(
    endpoint: str, status: int, body: bytes, expected: dict[str, Any] | None
) -> None:
    stated = in_openai_form(endpoint, status, body)
    if expected is None:
        assert stated is None
        return
    assert stated is not None
    answer = orjson.loads(stated)
    message, kind = expected["error"]
    assert answer == {**expected, "error": {"message": message, "type": kind, "param": None, "code": None}}


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ([b"data: 1\n\n"], True),
        ([b"data: 1\r\n\r", b"\n"], True),
        ([], True),
        ([b"data: 1\n\nda"], False),
    ],
    ids=["between events", "with CRLF", "before the first", "in an event"],
)
async def test_a_stream_of_a_replica_that_breaks_off_says_so_between_events(
    sent: list[bytes], said: bool
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in sent:
            yield piece
        raise ConnectionResetError("gone")

    received: list[bytes] = []

    async def receive() -> None:
        async for piece in ending_with_error(pieces()):
            received.append(piece)

    with pytest.raises(ConnectionResetError):
        await receive()
    assert received[: len(sent)] == sent
    events = [orjson.loads(piece.removeprefix(b"data: "))["error"]["code"] for piece in received[len(sent) :]]
    assert events == (["BadGateway"] if said else [])


async def test_what_fails_in_a_server_is_told_in_the_form(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: web.Request) -> web.Response:
        raise KeyError("secret")

    async def read(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application(client_max_size=10, middlewares=[errors_in_openai_form])
    app.router.add_get("/fail", fail)
    app.router.add_post("/read", read)
    async with TestClient(TestServer(app)) as client:
        async with client.get("/fail") as failed:
            error = (await failed.json())["error"]
        assert (failed.status, error["type"]) == (500, "server_error")
        assert "secret" not in error["message"]
        assert "secret" in caplog.text
        async with client.post("/read", data=b"x" * 11) as large:
            assert (large.status, (await large.json())["error"]["type"]) == (413, INVALID)
