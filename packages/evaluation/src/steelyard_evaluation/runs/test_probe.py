"""Endpoints that cannot be asked are reported before a row is paid for; rows bring their own kinds and parameters."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.model_servers import BOS, ModelServer, generate
from steelyard_evaluation.runs import probe
from steelyard_evaluation.runs.context import RunContext, Silence
from steelyard_evaluation.runs.doubles import endpoint, make_request
from steelyard_evaluation.runs.folder import open_run
from steelyard_evaluation.runs.request import PromptSpec
from steelyard_evaluation.runs.run import run

TEXT = "The river and the stone"
LIKELIHOOD = {"prompt": TEXT, "kind": "loglikelihood", "context": len("The river and the"), "settings": "{}"}
ROLLING = {"prompt": TEXT, "kind": "loglikelihood_rolling", "context": 0, "settings": "{}"}
BARE = {"prompt": TEXT, "kind": "loglikelihood", "context": 0, "settings": "{}"}


def generation(**settings: JsonValue) -> dict[str, JsonValue]:
    parameters = orjson.dumps({"max_tokens": 40, **settings}).decode()
    return {"prompt": "Q: 7 + 8\nA:", "kind": "generate_until", "context": 0, "settings": parameters}


@asynccontextmanager
async def serving(server: ModelServer) -> AsyncIterator[str]:
    """Yield the base URL."""

    async def handle(request: web.Request) -> web.Response:
        status, answer = server.reply(request.path, await request.json() if request.can_read_body else None)
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@dataclass
class WarningList(Silence):
    """Keeps what it is warned of."""

    said: list[str] = field(default_factory=list)

    def warning(self, text: str) -> None:
        self.said.append(text)


async def answers(
    server: ModelServer,
    rows: Sequence[Mapping[str, JsonValue]],
    folder: Path,
    context: RunContext | None = None,
    **prompt: JsonValue,
) -> list[dict[str, JsonValue]]:
    """The first response to each of these rows."""
    path = folder / "rows.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    async with serving(server) as url:
        request = make_request(
            path, url, prompt=PromptSpec(api="loglikelihood", settings="settings", **prompt)
        )
        result = await run(request, folder / "run", context)
    answered = await asyncio.to_thread(lambda: list(open_run(result.folder.path).rows()))
    return [row.responses[0] for row in sorted(answered, key=lambda row: row.index) if row.responses]


@pytest.mark.parametrize(
    ("server", "row", "message"),
    [
        (ModelServer(kind="tgi", tokenize=False), LIKELIHOOD, "lists no tokens"),
        (ModelServer(kind="sglang", tokenize=False), ROLLING, "needs an endpoint with /tokenize"),
        (ModelServer(kind="llama.cpp", tokenize=False), BARE, "needs an endpoint with /tokenize"),
        (ModelServer(), ROLLING, "prefix_token_id=N"),
        (ModelServer(kind="llama.cpp", tokenize=False, late=True), LIKELIHOOD, "stand one place too late"),
    ],
)
async def test_what_an_endpoint_cannot_be_asked_is_reported_after_one_request(
    server: ModelServer, row: JsonValue, message: str, tmp_path: Path
) -> None:
    server = replace(server, bodies=[])
    with pytest.raises(UsageError, match=message):
        await answers(server, [row, generation()], tmp_path)
    assert len(server.bodies) <= 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (web.Response(text="<html><h1>Please log in</h1></html>", content_type="text/html"), "Please log in"),
        (web.json_response({"error": {"message": "no such key"}}), "no such key"),
        (web.json_response({"choices": []}), "choices"),
    ],
    ids=["a page to log in", "an error", "no choices"],
)
async def test_what_is_no_answer_to_the_probe_is_shown(
    tmp_path: Path, answer: web.Response, said: str
) -> None:
    path, (body, kind) = tmp_path / "rows.jsonl", (answer.body, answer.content_type)
    path.write_bytes(orjson.dumps(LIKELIHOOD))
    async with endpoint(lambda _: web.Response(body=body, content_type=kind)) as server:
        request = make_request(path, server.url, prompt=PromptSpec(api="loglikelihood", settings="settings"))
        with pytest.raises(UsageError, match=f"cannot be asked for likelihoods: .*{said}"):
            await run(request, tmp_path / "run")


@pytest.mark.parametrize(
    "server",
    [
        ModelServer(bos=True),
        ModelServer(bos=True, tokenize=False),
        ModelServer(kind="sglang", bos=True, tokenize=False),
        ModelServer(kind="llama.cpp", bos=True, tokenize=False),
    ],
    ids=lambda server: (
        f"{server.kind}{' BOS' if server.bos else ''}{' /tokenize' if server.tokenize else ''}"
    ),
)
async def test_a_continuation_is_the_same_whatever_a_server_calls_its_places(
    server: ModelServer, tmp_path: Path
) -> None:
    warned = WarningList()
    (response,) = await answers(
        replace(server, bodies=[]), [LIKELIHOOD], tmp_path, RunContext(listener=warned)
    )
    assert "".join(orjson.loads(response["text"])["tokens"]) == " stone"
    assert any("reports no positions of tokens" in said for said in warned.said) is (server.kind == "sglang")
    assert any("has no /tokenize" in said for said in warned.said) is not server.tokenize


async def test_a_server_that_is_busy_is_asked_again_and_not_taken_for_one_without_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "PAUSE_SECONDS", 0.01)
    warned = WarningList()
    (response,) = await answers(
        ModelServer(busy=3, bodies=[]), [LIKELIHOOD], tmp_path, RunContext(listener=warned)
    )
    assert orjson.loads(response["text"])["context_tokens"] == 5
    assert not warned.said


async def test_stops_beyond_the_endpoint_s_end_an_answer_of_any_run(tmp_path: Path) -> None:
    server = ModelServer(most_stops=4, bodies=[])
    path = tmp_path / "rows.jsonl"
    path.write_bytes(orjson.dumps({"prompt": "Q: 7 + 8\nA:"}))
    stops = ["one", "two", "three", "four", "five", "\n"]
    async with serving(server) as url:
        prompt = PromptSpec(sampling={"stop": stops, "max_tokens": 40})
        result = await run(make_request(path, url, prompt=prompt), tmp_path / "run")
    (row,) = await asyncio.to_thread(lambda: list(open_run(result.folder.path).rows()))
    assert row.responses is not None
    (response,) = row.responses
    assert response["uncut"] == generate("Q: 7 + 8\nA:")
    assert response["text"] == response["uncut"].partition("\n")[0]
    assert [len(body["stop"]) for body in server.bodies] == [4]


@pytest.mark.parametrize(
    ("server", "prompt", "prefix"),
    [
        (ModelServer(bos=True), {}, BOS),
        (ModelServer(tokenizer_info=True), {}, "</s>"),
        (ModelServer(), {"prefix_token_id": 0}, "</s>"),
    ],
)
async def test_a_text_after_nothing_stands_behind_the_model_s_own_token(
    server: ModelServer, prompt: JsonValue, prefix: str, tmp_path: Path
) -> None:
    server = replace(server, bodies=[])
    (response,) = await answers(server, [BARE], tmp_path, **prompt)
    assert server.vocabulary.texts(server.bodies[-1]["prompt"])[0] == prefix
    assert "".join(orjson.loads(response["text"])["tokens"]) == TEXT


async def test_rows_of_all_kinds_run_together_with_their_own_parameters(tmp_path: Path) -> None:
    server = ModelServer(bos=True, most_stops=4, bodies=[])
    rows = [
        generation(stop=["one", "two", "three", "four", "\n"]),
        LIKELIHOOD,
        generation(stop=["zzz"], temperature=0.5),
        ROLLING,
    ]
    first, likely, third, whole = await answers(server, rows, tmp_path)
    assert first["text"] == generate("7 + 8").partition("\n")[0] or first["text"] in first["uncut"]
    assert first["uncut"].startswith(first["text"] + "\n")
    assert third["text"] == first["uncut"]
    assert "".join(orjson.loads(likely["text"])["tokens"]) == " stone"
    assert "".join(orjson.loads(whole["text"])["tokens"]) == BOS + TEXT
    assert sorted(body.get("temperature", 1) for body in server.bodies if "echo" not in body) == [0.5, 1]
