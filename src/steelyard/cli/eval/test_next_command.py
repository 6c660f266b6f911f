"""Commands that a user is asked to type next; the test types them."""

import asyncio
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from steelyard.cli.eval.next_command import find_judged_run
from steelyard.cli.eval.request import Flags, request_from_flags
from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.context import RunContext, RunFailed
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import Limits, RubricSpec
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.spending.prices import PriceSpec

A_CALL = 12  # tokens


def model_and_judge(prompt: str) -> str:
    return "VERDICT: correct" if "[Answer to grade]" in prompt else prompt.rsplit(maxsplit=1)[-1]


async def invoke(*arguments: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, app, ["eval", *arguments])


def next_command(output: str) -> list[str]:
    """The arguments of the command that the last line of `output` with one names."""
    return shlex.split(output[output.rindex("steelyard eval ") :].splitlines()[0])[2:]


async def typed(command: list[str]) -> int:
    """The exit status of `eval run FOLDER [--option value]`, run in this event loop."""
    name, folder, *option = command
    assert name == "run"
    given: dict[str, Any] = {"prompts": folder}
    if option:
        flag, value = option
        given[flag.removeprefix("--").replace("-", "_")] = float(value)
    request, path = request_from_flags(Flags(given))
    return (await run(request, path, RunContext(environment={}))).exit_code


@pytest.mark.parametrize(
    "limits", [Limits(4, max_tokens_total=240), Limits(4, max_cost=0.5, prices=PriceSpec(2500, 1))]
)
async def test_after_a_cap_the_command_that_is_shown_goes_on_to_the_end(
    tmp_path: Path, limits: Limits
) -> None:
    async with endpoint() as server:
        request = make_request(write_prompts(tmp_path / "p.parquet", 60), server.url, limits=limits)
        await run(request, tmp_path / "run", RunContext(environment={}))
        shown = (await invoke("show", str(tmp_path / "run"))).output
        assert "stopped: the cap of" in shown
        assert next_command(shown)[2] == ("--max-cost" if limits.max_cost else "--max-tokens-total")
        assert await typed(next_command(shown)) == 0
    assert len(server.bodies) == 60


async def test_the_cap_of_a_service_is_raised_by_no_option(tmp_path: Path) -> None:
    error = {"type": "service_stopped", "code": "SpendCapReached", "message": "the cap of 5 USD is reached"}
    async with endpoint(lambda _: web.json_response({"error": error}, status=402)) as server:
        await run(make_request(write_prompts(tmp_path / "p.parquet"), server.url), tmp_path / "run")
        shown = (await invoke("show", str(tmp_path / "run"))).output
    assert "stopped: the cap of 5 USD is reached" in shown
    assert next_command(shown) == ["run", str(tmp_path / "run")]


async def test_a_capped_run_says_how_to_go_on_at_its_end(tmp_path: Path) -> None:
    async with endpoint() as server:
        prompts = write_prompts(tmp_path / "p.parquet", 20)
        where = ["--url", server.url, "--output", str(tmp_path / "run")]
        options = [*where, "--model", "m", "--max-tokens-total", "120", "--display", "plain"]
        program = [sys.executable, "-m", "steelyard.cli.main", "eval", "run", str(prompts), *options]
        capped = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
        output = (await capped.communicate())[0].decode()
        assert capped.returncode == 4
        assert "about 240 tokens are needed" in output
        assert next_command(output) == ["run", str(tmp_path / "run"), "--max-tokens-total", "270"]


async def test_a_run_that_ended_at_a_cap_of_time_needs_no_higher_one(tmp_path: Path) -> None:
    async with endpoint(seconds=0.05) as server:
        limits = Limits(1, max_time=0.3)
        request = make_request(write_prompts(tmp_path / "p.parquet", 60), server.url, limits=limits)
        await run(request, tmp_path / "run", RunContext(environment={}))
    shown = (await invoke("show", str(tmp_path / "run"))).output
    assert next_command(shown) == ["run", str(tmp_path / "run")]


async def test_a_run_that_was_refused_says_why(tmp_path: Path) -> None:
    async with endpoint(lambda _: web.Response(status=401, text="no such key")) as server:
        with pytest.raises(RunFailed):
            await run(make_request(write_prompts(tmp_path / "p.parquet", 4), server.url), tmp_path / "run")
    shown = (await invoke("show", str(tmp_path / "run"))).output
    assert f"failed: {server.url}: every row is refused (status 401: no such key). Look at the key" in shown
    assert next_command(shown) == ["run", str(tmp_path / "run")]


async def test_a_judge_that_was_stopped_is_shown_with_the_command_that_goes_on(tmp_path: Path) -> None:
    async with endpoint(model_and_judge) as server:
        request = make_request(
            write_prompts(tmp_path / "p.parquet", 20),
            server.url,
            rubrics=(RubricSpec("judge.Verdict"),),
            judges=(JudgeSpec("j"),),
            limits=Limits(4, max_tokens_total=30 * A_CALL),
        )
        await run(request, tmp_path / "run", RunContext(environment={}))
        shown = (await invoke("show", str(tmp_path / "run"))).output
        assert "judge:   judge, 10 of 20 answered; stopped: the cap of 360 tokens" in shown
        assert "exact-match" not in shown
        of_judge = (await invoke("show", str(tmp_path / "run" / "judges" / "judge"))).output
        assert next_command(of_judge) == next_command(shown)
        assert await typed(next_command(shown)) == 0
    assert len(server.bodies) == 40


@pytest.mark.parametrize("option", [["--row", "3"], ["--failures", "2"], ["--errors"]], ids="-".join)
async def test_rows_of_a_run_that_is_not_done_are_refused(tmp_path: Path, option: list[str]) -> None:
    async with endpoint(model_and_judge) as server:
        limits = Limits(4, max_tokens_total=5 * A_CALL)
        request = make_request(write_prompts(tmp_path / "p.parquet", 20), server.url, limits=limits)
        await run(request, tmp_path / "run", RunContext(environment={}))
    shown = await invoke("show", str(tmp_path / "run"), *option)
    assert isinstance(shown.exception, UsageError), shown.output
    assert "run: is not done; go on with: steelyard eval run" in str(shown.exception)


async def test_judging_by_score_that_was_stopped_names_the_option_to_raise(tmp_path: Path) -> None:
    async with endpoint(model_and_judge) as server:
        request = make_request(write_prompts(tmp_path / "p.parquet", 20), server.url)
        await run(request, tmp_path / "run", RunContext(environment={}))
        command = ["score", str(tmp_path / "run"), "--judge-model", "j", "--max-tokens-total"]
        capped = (await invoke(*command, str(30 * A_CALL))).output
    assert "about 480 tokens are needed): the same command with --max-tokens-total 530" in capped


async def test_the_run_of_a_judge_is_not_to_be_scored(tmp_path: Path) -> None:
    async with endpoint(model_and_judge) as server:
        request = make_request(write_prompts(tmp_path / "p.parquet", 3), server.url)
        request = replace(request, rubrics=(RubricSpec("judge.Verdict"),), judges=(JudgeSpec("j"),))
        await run(request, tmp_path / "run", RunContext(environment={}))
    judge = str(tmp_path / "run" / "judges" / "judge")
    for options in ([], ["--failures", "1"]):
        shown = (await invoke("show", judge, *options)).output
        assert next_command(shown) == ["show", str(tmp_path / "run")]


@pytest.mark.parametrize(
    ("column", "rubric"), [("target", "exact-match"), ("gold", "exact-match?target=COLUMN")]
)
async def test_an_unscored_run_gets_a_rubric_that_fits_its_columns(
    tmp_path: Path, column: str, rubric: str
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", [{"prompt": "say 1", column: "1"}])
    async with endpoint() as server:
        await run(make_request(prompts, server.url), tmp_path / "run", RunContext(environment={}))
    shown = (await invoke("show", str(tmp_path / "run"))).output
    assert next_command(shown) == ["score", str(tmp_path / "run"), "--rubric", rubric]


def test_the_judged_run_is_named_as_the_judges_folder_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run" / "judges" / "judge").mkdir(parents=True)
    (tmp_path / "run" / "run.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert find_judged_run(RunFolder(Path("run/judges/judge"))) == RunFolder(Path("run"))
    assert find_judged_run(RunFolder(tmp_path / "run/judges/judge")) == RunFolder(tmp_path / "run")
    assert find_judged_run(RunFolder(Path("run"))) is None
