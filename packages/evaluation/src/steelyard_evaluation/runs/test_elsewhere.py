"""Going on with a run at another address: only when the user says that the same model answers there."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.doubles import free_host
from steelyard_evaluation.runs.context import Interrupted, RunContext, RunFailed
from steelyard_evaluation.runs.doubles import endpoint, make_request, stopping, write_prompts
from steelyard_evaluation.runs.folder import RunFolder, open_run
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import Limits, RubricSpec, SourceSpec
from steelyard_evaluation.runs.resolve import resolve
from steelyard_evaluation.runs.run import run


async def test_answers_of_another_endpoint_are_not_reused(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 4)
    async with endpoint() as server:
        nowhere = f"http://{free_host()}:80/v1"
        await run(make_request(prompts, server.url), tmp_path / "run")
    elsewhere = replace(make_request(prompts, nowhere), limits=Limits(wait_for_server=0.1))
    with pytest.raises(UsageError, match=rf"endpoint .*--same-model-at {nowhere}; .*--fresh"):
        await run(elsewhere, tmp_path / "run")
    assert resolve(elsewhere).folder != resolve(make_request(prompts, server.url)).folder
    with pytest.raises(
        RunFailed, match=r"no connection for 0\.1 s"
    ):  # without a listener, nothing is answered
        await run(elsewhere, tmp_path / "other")


async def test_a_run_goes_on_where_the_same_model_is_said_to_be(tmp_path: Path) -> None:
    prompts, context = write_prompts(tmp_path / "p.parquet", 60), RunContext()
    # Both at once: a port that is closed may be the next free one.
    async with endpoint(stopping(context, 20)) as first, endpoint() as second:
        request = make_request(prompts, first.url, rubrics=(RubricSpec("exact-match"),))
        with pytest.raises(Interrupted):
            await run(request, tmp_path / "run", context)
        before = len(first.bodies)
        moved = replace(RunFolder(tmp_path / "run").request(), same_model_at=(second.url,))
        assert (await run(moved, tmp_path / "run")).resumed == before
        assert (await run(RunFolder(tmp_path / "run").request(), tmp_path / "run")).exit_code == 0
    assert len(second.bodies) == 60 - before
    calls = {first.url: before, second.url: 60 - before}
    assert open_run(tmp_path / "run").manifest.asked == calls
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"Asked at {first.url}" in page
    assert f"Asked at {second.url}" in page
    assert orjson.loads((tmp_path / "run" / "report.json").read_bytes())["calls"]["asked"] == calls


async def test_a_fresh_run_sets_the_one_that_is_there_aside(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 4)
    async with endpoint() as server:
        await run(make_request(prompts, server.url), tmp_path / "run")
    async with endpoint() as server:
        result = await run(make_request(prompts, server.url), tmp_path / "run", fresh=True)
    assert (result.exit_code, len(server.bodies)) == (0, 4)
    assert open_run(tmp_path / "run.before-1").manifest.rows.present == 4  # nothing is deleted
    assert list(open_run(tmp_path / "run").manifest.asked) == [server.url]


async def test_rows_that_are_only_in_the_folder_are_not_set_aside(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 4)
    async with endpoint() as server:
        await run(make_request(prompts, server.url), tmp_path / "run")
        prompts.unlink()
        with pytest.raises(UsageError, match="no longer exists, so its rows cannot be asked again"):
            await run(RunFolder(tmp_path / "run").request(), tmp_path / "run", fresh=True)
    assert (tmp_path / "run").is_dir()


async def test_a_judge_on_the_models_server_moves_with_it(tmp_path: Path) -> None:
    prompts, context = write_prompts(tmp_path / "p.parquet", 8), RunContext()

    async with endpoint(lambda _: "VERDICT: correct") as first:
        request = make_request(prompts, first.url)
        await run(request, tmp_path / "run", context)
    async with endpoint(lambda _: "VERDICT: correct") as second:
        judged = replace(request, judges=(JudgeSpec("j"),), rubrics=(RubricSpec("judge.Verdict"),))
        result = await run(replace(judged, same_model_at=(second.url,)), tmp_path / "run")
    assert (result.exit_code, len(second.bodies)) == (0, 8)


async def test_a_folder_of_a_version_that_did_not_count_the_endpoint_goes_on(tmp_path: Path) -> None:
    """Names of such answers are made of an identity without the endpoint, which is stored outside it."""
    prompts = write_prompts(tmp_path / "p.parquet", 4)
    folder = RunFolder(tmp_path / "run")
    async with endpoint() as server:
        request = make_request(prompts, server.url)
        await run(request, folder.path)
        record = orjson.loads(folder.run_json.read_bytes())
        del record["identity"]["endpoint"], record["sha256"]
        record["schemaVersion"] = "0.1"
        folder.run_json.write_bytes(orjson.dumps(record))
        assert (await run(request, folder.path)).exit_code == 0
        with pytest.raises(UsageError, match="endpoint"):
            await run(replace(request, urls=("http://127.0.0.1:1/v1",)), folder.path)
    assert "endpoint" not in resolve(request, folder.path).identity
    assert request.source == SourceSpec(str(prompts))
