"""Endpoints that refuse every row, because of the caller or of what is in the rows: what of it is recorded."""

from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from steelyard.evaluation import layout
from steelyard.evaluation.errors import Fenced
from steelyard.runs.context import Interrupted, RunContext, RunFailed
from steelyard.runs.doubles import endpoint, make_request, stopping, write_prompts
from steelyard.runs.folder import RunFolder
from steelyard.runs.refusals import Refusals, refused_parameter
from steelyard.runs.request import PromptSpec, RubricSpec
from steelyard.runs.run import run
from steelyard.types import JsonValue


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_an_endpoint_that_refuses_every_row_leaves_nothing_in_the_way(
    tmp_path: Path, status: int
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint(lambda _: web.Response(status=status, text="no such key")) as server:
        with pytest.raises(RunFailed, match=f"every row is refused .status {status}: no such key"):
            await run(make_request(prompts, server.url), tmp_path / "run")
    async with endpoint() as server:
        assert (await run(make_request(prompts, server.url), tmp_path / "run")).exit_code == 0


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
    assert refused_parameter("[" * 4096) is None
    assert refused_parameter('{"error":{"param":' + "[" * 2000) is None
