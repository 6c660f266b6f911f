"""Endpoints that refuse every row, because of the caller or of the rows' content, and the record of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.errors import Fenced
from steelyard_evaluation.runs.context import Interrupted, RunContext, RunFailed
from steelyard_evaluation.runs.doubles import endpoint, make_request, stopping, write_prompts
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.refusals import Refusals, find_parameter
from steelyard_evaluation.runs.request import Limits, PromptSpec, RubricSpec
from steelyard_evaluation.runs.run import run

TRANSIENT = {408, 425, 429}


@pytest.mark.parametrize("status", sorted({*range(300, 309), *range(400, 427), 428, 431, 451} - TRANSIENT))
async def test_an_endpoint_that_refuses_every_row_leaves_nothing_in_the_way(
    tmp_path: Path, status: int
) -> None:
    """Each status ends the run, in the words of the server."""
    prompts = write_prompts(tmp_path / "p.parquet")
    reply = r"no such (key|\ufffdkey)" if status not in {304} else ""  # 304 has no body
    async with endpoint(lambda _: web.Response(status=status, text="no such key")) as server:
        with pytest.raises(RunFailed, match=rf"(every row|every call) is refused.*status {status}.*{reply}"):
            await run(make_request(prompts, server.url), tmp_path / "run")
    assert len(server.bodies) <= 20  # each row at most once
    assert not (tmp_path / "run" / "outputs").exists()
    assert f"status {status}" in RunFolder(tmp_path / "run").failure.read_text()
    async with endpoint() as server:
        other = make_request(prompts, server.url, model="another")
        assert (await run(other, tmp_path / "run")).exit_code == 0
    assert not RunFolder(tmp_path / "run").failure.exists()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 401])
async def test_a_redirect_ends_a_run_as_early_as_a_wrong_key(tmp_path: Path, status: int) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 2000)
    headers = {"Location": "https://elsewhere.test/v1"}
    async with endpoint(lambda _: web.Response(status=status, headers=headers), seconds=0.01) as server:
        with pytest.raises(RunFailed, match=f"every row is refused .status {status}") as failed:
            await run(make_request(prompts, server.url), tmp_path / "run")
    assert len(server.bodies) < 2000
    assert status == 401 or "https://elsewhere.test/v1" in str(failed.value)


UNKNOWN = {
    "vLLM": {"object": "error", "message": "The model `m` does not exist.", "code": 400},
    "OpenAI": {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}},
    "FastAPI": {"detail": "Unknown model: m"},
    "no reason": {},
    "a reason of its own": {"error": "nope"},
}


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN)
async def test_a_refusal_of_every_row_alike_ends_a_long_run_before_all_are_asked(
    tmp_path: Path, body: JsonValue
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 2000)
    async with endpoint(lambda _: web.json_response(body, status=400), seconds=0.01) as server:
        with pytest.raises(RunFailed, match=r"every row is refused .status 400"):
            await run(make_request(prompts, server.url), tmp_path / "run")
    assert len(server.bodies) < 2000


@pytest.mark.parametrize("status", [401, 403, 404, 407])
async def test_the_token_of_a_refused_caller_is_no_length_of_a_row(tmp_path: Path, status: int) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint(lambda _: web.Response(status=status, text="Invalid token")) as server:
        with pytest.raises(RunFailed, match=f"every row is refused .status {status}: Invalid token"):
            await run(make_request(prompts, server.url), tmp_path / "run")
    assert not (tmp_path / "run" / "outputs").exists()


ABOUT_ROWS = {
    "a policy": (400, "The response was filtered due to the prompt triggering content management policy"),
    "moderation": (403, "Your input was flagged by moderation"),
    "a length": (400, "This model's maximum context length is 10 tokens"),
    "a length that has a status": (413, "Prompt is too long"),
}


@pytest.mark.parametrize(("status", "text"), ABOUT_ROWS.values(), ids=ABOUT_ROWS)
async def test_refusals_for_what_is_in_the_rows_are_their_errors(
    tmp_path: Path, status: int, text: str
) -> None:
    """The first rows of a file may all be refused; those behind them are asked all the same."""
    prompts = write_prompts(tmp_path / "p.parquet", 200)

    def answer(prompt: str) -> JsonValue:
        refused = int(prompt.rsplit(maxsplit=1)[-1]) < 150
        return web.json_response({"error": {"message": text}}, status=status) if refused else "1"

    async with endpoint(answer, seconds=0.01) as server:
        result = await run(make_request(prompts, server.url), tmp_path / "run")
    assert (result.exit_code, result.manifest and result.manifest.rows.errors) == (3, 150)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}),
        (402, {"message": "Insufficient Balance"}),
        (503, {"message": "No channel for the model", "code": "model_not_found"}),
        (500, {"message": "Unsupported model: m"}),
    ],
)
async def test_what_waiting_does_not_cure_is_not_tried_again(
    tmp_path: Path, status: int, error: JsonValue
) -> None:
    prompts, asked = write_prompts(tmp_path / "p.parquet", 40), 0

    def answer(_: str) -> JsonValue:
        nonlocal asked
        asked += 1
        return "1" if asked <= 10 else web.json_response({"error": error}, status=status)

    async with endpoint(answer) as server:
        request = make_request(prompts, server.url)
        with pytest.raises(RunFailed, match=rf"waiting would not help: status {status}: {error['message']}"):
            await run(request, tmp_path / "run")
        assert len(server.bodies) <= 10 + 4  # those in flight
        asked = -100
        result = await run(request, tmp_path / "run")  # there is credit again
    assert (result.exit_code, result.resumed) == (0, 10)


async def test_another_replica_takes_the_rows_of_one_without_credit(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 40)
    error = {"error": {"code": "insufficient_quota"}}
    async with endpoint(lambda _: web.json_response(error, status=429)) as empty, endpoint() as server:
        request = make_request(prompts, server.url, urls=(empty.url, server.url))
        result = await run(request, tmp_path / "run")
    assert (result.exit_code, len(server.bodies)) == (0, 40)
    assert len(empty.bodies) <= 4


async def test_the_reason_of_a_server_that_is_overloaded_stands_in_the_message(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    error = {"error": {"message": "the key sk-secret is used too much"}}
    async with endpoint(lambda _: web.json_response(error, status=429)) as server:
        request = make_request(prompts, server.url, limits=Limits(concurrency=2, retries=0))
        context = RunContext(environment={"OPENAI_API_KEY": "sk-secret"})
        with pytest.raises(RunFailed, match=r"status 429: the key \[the key\] is used too much"):
            await run(request, tmp_path / "run", context)


async def test_going_on_without_the_key_records_nothing(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 100)
    context = RunContext()
    async with endpoint(stopping(context, 20)) as server:
        with pytest.raises(Interrupted):
            await run(make_request(prompts, server.url), tmp_path / "run", context)
        before, request = len(server.bodies), make_request(prompts, server.url)
    async with endpoint(lambda _: web.Response(status=401)) as server:
        with pytest.raises(RunFailed, match="every row is refused"):
            await run(replace(request, same_model_at=(server.url,)), tmp_path / "run")
    async with endpoint() as server:
        result = await run(replace(request, same_model_at=(server.url,)), tmp_path / "run")
    assert (result.exit_code, result.resumed, len(server.bodies)) == (0, before, 100 - before)


async def test_rows_that_are_all_refused_for_what_is_in_them_are_recorded(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    async with endpoint(lambda _: web.Response(status=400, text="too long")) as server:
        result = await run(make_request(prompts, server.url), tmp_path / "run")
    assert result.exit_code == 3


REFUSALS = {
    "vLLM": {"error": {"message": "at most 4", "param": "body.stop", "code": 400}},
    "OpenAI": {"error": {"message": "Unsupported parameter", "param": "stop"}},
    "a flat one": {"object": "error", "message": "no", "param": "stop"},
    "FastAPI": {"detail": [{"loc": ["body", "stop", 0], "msg": "no", "type": "value_error"}]},
}


@pytest.mark.parametrize("body", REFUSALS.values(), ids=REFUSALS)
async def test_a_parameter_that_every_row_is_refused_for_ends_the_run(
    tmp_path: Path, body: JsonValue
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    sampling = PromptSpec(sampling={"stop": ["a", "b", "c", "d", "e"]})
    async with endpoint(lambda _: web.json_response(body, status=400)) as server:
        request = make_request(prompts, server.url, prompt=sampling, rubrics=(RubricSpec("exact-match"),))
        with pytest.raises(RunFailed, match=r"every row is refused for the parameter 'stop' \(status 400"):
            await run(request, tmp_path / "run")
    assert not (tmp_path / "run" / "report.html").exists()
    assert not (tmp_path / "run" / "outputs").exists()  # nothing is in the way of the next attempt


async def test_a_parameter_of_some_rows_is_about_these_rows(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    long = {"error": {"message": "too long", "param": "input_tokens"}}

    def answer(prompt: str) -> JsonValue:
        return "1" if prompt == "say 1" else web.json_response(long, status=400)

    async with endpoint(answer) as server:
        result = await run(make_request(prompts, server.url), tmp_path / "run")
    assert (result.exit_code, result.manifest and result.manifest.rows.errors) == (3, 19)


async def test_what_another_command_counts_on_by_now_is_not_taken_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    refusals = Refusals(folder, epoch="0000000001-a-0001")
    await folder.outputs.create(f"{layout.PARTS}part-0-{refusals.epoch}-1.parquet", b"")
    await folder.outputs.create(f"{layout.EPOCHS}0000000002-b-0001", b"")
    with pytest.raises(Fenced):
        await refusals.take_back()
    assert list(folder.outputs.root.rglob("*.parquet"))


def test_a_refusal_that_is_nested_without_end_names_no_parameter() -> None:
    assert find_parameter("[" * 4096) is None
    assert find_parameter('{"error":{"param":' + "[" * 2000) is None
