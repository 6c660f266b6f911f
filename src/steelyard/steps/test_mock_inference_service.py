"""The mock inference service: its endpoints, and calls that it refuses."""

import asyncio
import base64
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from steelyard.steps.mock_inference_service import Faults, Mock, make_app
from steelyard_evaluation.engine.doubles import free_host, free_port

Client: TypeAlias = TestClient[web.Request, web.Application]
Start: TypeAlias = Callable[..., Awaitable[Client]]


@pytest.fixture
async def start() -> Any:
    clients: list[Client] = []

    async def make(mock: Mock | None = None, **faults: Any) -> Client:
        client = TestClient(TestServer(make_app(mock or Mock(Faults(**faults)))))
        clients.append(client)
        await client.start_server()
        return client

    yield make
    for client in clients:
        await client.close()


async def _post(client: Client, path: str, body: Any) -> tuple[int, Any]:
    async with client.post(path, json=body) as answer:
        return answer.status, await answer.json()


async def test_the_same_prompt_gets_the_same_answer(start: Start) -> None:
    one, other = await start(), await start(seed=5)
    body = {"model": "m", "prompt": "How heavy?", "max_tokens": 5}
    once, again = [await _post(client, "/v1/completions", body) for client in (one, other)]
    assert once == again
    assert once[0] == 200
    assert 1 <= len(once[1]["choices"][0]["text"].split()) <= 5
    assert (await _post(one, "/v1/completions", body | {"prompt": "How light?"}))[1]["choices"] != once[1][
        "choices"
    ]


async def test_completions_have_openais_shape(start: Start) -> None:
    client = await start()
    _, answer = await _post(client, "/v1/completions", {"model": "m", "prompt": ["a", "b c"], "n": 2})
    assert (answer["object"], answer["model"]) == ("text_completion", "m")
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 3


async def test_chat_has_openais_shape(start: Start) -> None:
    client = await start()
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
    _, answer = await _post(client, "/v1/chat/completions", body)
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["role"] == "assistant"
    async with client.get("/v1/models") as models:
        assert (await models.json())["data"][0]["id"] == "mock"


async def test_generate_returns_the_prompt_first(start: Start) -> None:
    _, answer = await _post(await start(), "/generate", {"prompt": "Once", "max_tokens": 3})
    assert answer["text"][0].startswith("Once ")


async def test_classify_echoes_or_draws_a_label(start: Start) -> None:
    client = await start(Mock(Faults(), labels=("x", "y")))
    assert await _post(client, "/classify", {"label": 7}) == (200, {"label": 7})
    drawn = {(await _post(client, "/classify", {"text": str(k)}))[1]["label"] for k in range(20)}
    assert drawn == {"x", "y"}


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("/v1/completions", {}, "prompt: "),
        ("/v1/completions", {"prompt": "a", "max_tokens": 0}, "max_tokens: "),
        (
            "/v1/chat/completions",
            {"messages": [{}], "max_completion_tokens": "few"},
            "max_completion_tokens: ",
        ),
        ("/v1/completions", {"prompt": "a", "model": 5}, "model: "),
        ("/v1/embeddings", {"input": "a", "model": ["m"]}, "model: "),
        ("/v1/completions", {"prompt": "a", "n": 1000}, "n: "),
        ("/v1/completions", {"prompt": "a", "stream": "yes"}, "stream: should be true or false"),
        ("/v1/completions", {"prompt": "a", "stream_options": 1}, "stream_options: "),
        ("/v1/embeddings", {"input": ["a", ""]}, "input: "),
        ("/v1/embeddings", {"input": []}, "input: "),
        ("/v1/embeddings", {"input": "a", "dimensions": 0}, "dimensions: "),
        ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, "encoding_format: "),
        ("/v1/chat/completions", {"messages": []}, "messages: "),
        ("/generate", {"prompt": 3}, "prompt: "),
        ("/generate", {"prompt": "a", "stream": True}, "stream: not implemented"),
        ("/generate", [], "the body should be"),
    ],
)
async def test_bad_calls_are_refused_by_field(start: Start, path: str, body: Any, fault: str) -> None:
    status, answer = await _post(await start(), path, body)
    assert status == 400
    assert fault in answer["error"]["message"]
    assert answer["error"]["param"] == (fault.rstrip().partition(":")[0] if ":" in fault else None)


async def _events(client: Client, path: str, body: Any) -> list[Any]:
    async with client.post(path, json=body) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        *events, end, nothing = (await answer.text()).split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    return [orjson.loads(event.removeprefix("data: ")) for event in events]


@pytest.mark.parametrize("usage", [None, False, True])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_a_stream_says_what_the_whole_answer_says(start: Start, path: str, usage: bool | None) -> None:
    client = await start()
    body: Any = {"prompt": "How heavy?", "messages": [{"role": "user", "content": "How heavy?"}], "n": 2}
    _, whole = await _post(client, path, body)
    options = {} if usage is None else {"stream_options": {"include_usage": usage}}
    events = await _events(client, path, {**body, "stream": True, **options})
    if usage:
        last = events.pop()
        assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert [event.get("usage", "absent") for event in events] == [None if usage else "absent"] * len(events)
    assert {event["object"] for event in events} == {
        "chat.completion.chunk" if "chat" in path else "text_completion"
    }
    for choice in whole["choices"]:
        parts = [event["choices"][0] for event in events if event["choices"][0]["index"] == choice["index"]]
        texts = [part["delta"].get("content", "") if "delta" in part else part["text"] for part in parts]
        assert len([text for text in texts if text]) > 1
        assert "".join(texts) == (choice["message"]["content"] if "message" in choice else choice["text"])
        assert [part["finish_reason"] for part in parts] == [None] * (len(parts) - 1) + ["stop"]


async def test_embeddings_have_the_form_and_the_length_that_are_asked_for(start: Start) -> None:
    client = await start()

    async def embedded(text: Any, **asked: Any) -> list[Any]:
        status, answer = await _post(client, "/v1/embeddings", {"input": text, "model": "m", **asked})
        assert (status, answer["object"], answer["model"]) == (200, "list", "m")
        assert [item["index"] for item in answer["data"]] == list(range(len(answer["data"])))
        return [item["embedding"] for item in answer["data"]]

    heavy, light, other = await embedded(["how heavy is it", "how light is it", "lead"])
    assert len(heavy) == 64
    assert sum(number * number for number in heavy) == pytest.approx(1)
    near, far = (sum(a * b for a, b in zip(heavy, vector, strict=True)) for vector in (light, other))
    assert near > far
    [coded] = await embedded("how heavy is it", encoding_format="base64")
    assert list(struct.unpack("<64f", base64.b64decode(coded))) == heavy
    assert [len(vector) for vector in await embedded([[1, 2], [3]], dimensions=3)] == [3, 3]
    assert len(await embedded([1, 2])) == 1


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_an_answer_that_meets_the_limit_says_so(start: Start, name: str) -> None:
    client = await start()
    _, answer = await _post(client, "/v1/completions", {"prompt": "How heavy?", name: 1})
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length"]
    assert answer["usage"]["completion_tokens"] == 1


async def test_null_stands_for_a_parameter_that_is_not_given(start: Start) -> None:
    client = await start()
    names = ("model", "n", "max_tokens", "max_completion_tokens", "stream", "stream_options")
    (_, nulls), (_, absent) = [
        await _post(client, "/v1/completions", {"prompt": "How heavy?", **body})
        for body in (dict.fromkeys(names), {})
    ]
    assert nulls | {"id": absent["id"]} == absent


async def test_bad_rows_are_always_refused(start: Start) -> None:
    client = await start(bad_index=frozenset({3}), bad_text="poison")
    statuses = [(await _post(client, "/classify", {"_index_": k}))[0] for k in (2, 3, 3)]
    assert statuses == [200, 400, 400]
    assert (await _post(client, "/generate", {"prompt": "some poison"}))[0] == 400


async def _statuses(client: Client, count: int) -> list[int]:
    return [(await _post(client, "/classify", {"text": str(k)}))[0] for k in range(count)]


async def test_errors_come_by_rate_and_seed(start: Start) -> None:
    one, other, third = [await start(error_rate=0.3, error_status=429, seed=seed) for seed in (1, 1, 2)]
    once = await _statuses(one, 100)
    assert set(once) == {200, 429}
    assert 15 <= once.count(429) <= 45
    assert once == await _statuses(other, 100)
    assert once != await _statuses(third, 100)


async def test_latency_holds_answers_back_but_not_each_other(start: Start) -> None:
    client = await start(latency_ms=80, latency_jitter_ms=20)
    clock = asyncio.get_running_loop().time
    began = clock()
    calls = 200
    await asyncio.gather(*(_post(client, "/classify", {}) for _ in range(calls)))
    assert 0.06 <= clock() - began < calls * 0.06


async def test_a_hanging_call_gets_no_answer(start: Start) -> None:
    client = await start(hang_rate=1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_post(client, "/classify", {}), 0.1)


async def test_dies_after_so_many_answers(start: Start) -> None:
    deaths: list[int] = []
    mock = Mock(Faults(die_after=2), die=lambda: deaths.append(1))
    client = await start(mock)
    await _statuses(client, 2)
    assert deaths == []
    await _statuses(client, 1)
    assert deaths == [1]


async def test_is_not_ready_before_its_time(start: Start) -> None:
    for delay, status in ((60_000, 503), (0, 200)):
        client = await start(ready_delay_ms=delay)
        for path in ("/ready", "/health"):
            async with client.get(path) as answer:
                assert answer.status == status


async def test_the_process_dies_as_it_should() -> None:
    host = free_host()
    port = free_port(host)
    command = [sys.executable, "-m", "steelyard.steps.mock_inference_service", "--host", host]
    command += ["--port", str(port), "--die-after", "1"]
    child = await asyncio.create_subprocess_exec(*command)
    async with aiohttp.ClientSession() as session:
        url = f"http://{host}:{port}/classify"
        async with asyncio.timeout(60):
            while True:
                try:
                    async with session.post(url, json={}) as answer:
                        assert answer.status == 200
                        break
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0.02)
        with pytest.raises(aiohttp.ClientError):
            await session.post(url, json={})
    assert await asyncio.wait_for(child.wait(), 60) == 1


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
async def test_openais_paths_are_there_below_openai_too(start: Start, path: str) -> None:
    client = await start()
    body = {"prompt": "How heavy?", "messages": [{"role": "user", "content": "How heavy?"}]}
    published = await _post(client, f"/openai/v1/{path}", body)
    assert published == await _post(client, f"/v1/{path}", body)
    assert published[0] == 200


async def test_some_calls_fail_below_transient_errors(start: Start) -> None:
    client = await start()
    path = "/openai/v1/completions/transient-errors"
    answers = [await _post(client, path, {"prompt": "How heavy?"}) for _ in range(100)]
    failed = [answer for status, answer in answers if status == 503]
    assert 1 <= len(failed) <= 30
    assert {status for status, _ in answers} == {200, 503}
    assert failed[0]["error"]["type"] == "server_error"


@pytest.mark.parametrize("status", [400, 429, 503])
async def test_a_path_that_always_fails(start: Start, status: int) -> None:
    client = await start()
    for _ in range(2):
        answered, content = await _post(client, f"/errors/{status}", {"prompt": "How heavy?"})
        assert answered == status
        assert "always fail" in content["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_an_answer_that_is_cut_short_has_status_200(start: Start, path: str) -> None:
    client, whole = await start(abort_rate=1.0), await start()
    body = {"prompt": "How heavy?", "messages": [{"role": "user", "content": "How heavy?"}]}
    status, answer = await _post(client, path, body)
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "abort")
    assert len(str(answer)) < len(str((await _post(whole, path, body))[1]))


async def test_at_its_end_it_cuts_the_answers_in_flight_short(start: Start) -> None:
    mock = Mock(Faults(latency_ms=60_000, abort_at_end=True))
    client = await start(mock)
    request = asyncio.create_task(_post(client, "/v1/completions", {"prompt": "How heavy?"}))
    await asyncio.sleep(0.05)
    assert not request.done()
    mock.ending.set()
    status, answer = await request
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "abort")
