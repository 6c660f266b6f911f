"""Judges named by flags."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli.eval.request import Flags, request_from_flags
from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import echo, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.run import run


def model_and_judge(prompt: str) -> str:
    """A judge that likes even numbers."""
    if "[Answer to grade]" not in prompt:
        return echo(prompt)
    number = int(prompt.partition("[Answer to grade]\n")[2].partition("\n")[0])
    return f"VERDICT: {'correct' if number % 2 == 0 else 'incorrect'}"


async def test_a_finished_run_can_be_judged_afterwards_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text(
        "Grade:\n[Answer to grade]\n{{ response }}\n[Criteria] {{ criteria }}"
    )
    async with endpoint(model_and_judge) as server:
        request = make_request(write_prompts(tmp_path / "p.parquet", 4), server.url)
        await run(request, tmp_path / "run", RunContext(environment={}))
        options = ["--judge-model", "j", "--judge-prompt", str(tmp_path / "prompt.txt")]
        command = ["eval", "score", str(tmp_path / "run"), *options]
        wrong = await asyncio.to_thread(CliRunner().invoke, app, [*command, "--rubric", "exact-mach"])
        assert "there is no rubric 'exact-mach'" in str(wrong.exception)
        assert len(server.prompts) == 4  # no judge was asked
        done = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert done.exit_code == 0, done.output
        assert server.prompts[4].startswith("Grade:\n")
    assert "Judge's grade of 4 answers: 50.0 %" in done.output
    assert RunFolder(tmp_path / "run").request().judges[0].model == "j"


def test_a_judge_named_by_a_flag_sees_the_target_of_the_task(tmp_path: Path) -> None:
    write_prompts(tmp_path / "p.parquet", [{"prompt": "q", "gold": "g"}])
    task = tmp_path / "task.yaml"
    task.write_text("{data: {path: p.parquet}, target: gold, model: m, urls: ['http://h/v1']}")
    request, _ = request_from_flags(Flags({"prompts": str(task), "judge_model": ["j"]}))
    assert [judge.target for judge in request.judges] == ["gold"]
    assert [rubric.reference for rubric in request.rubrics] == ["judge.Verdict"]


@pytest.mark.parametrize("flag", ["--judge-url", "--judge-api-key-env"])
def test_what_is_said_of_a_judge_needs_one(tmp_path: Path, flag: str) -> None:
    done = CliRunner().invoke(app, ["eval", "run", "p.jsonl", "--model", "m", flag, "http://h/v1"])
    assert f"{flag}: needs --judge-model" in str(done.exception)


def test_a_wrong_url_of_a_judge_is_named_by_its_flag() -> None:
    with pytest.raises(UsageError, match="--judge-url h:8000"):
        request_from_flags(Flags({"prompts": "p.jsonl", "judge_model": ["j"], "judge_url": ["h:8000"]}))


async def test_judges_of_a_finished_run_spend_from_its_budget(tmp_path: Path) -> None:
    async with endpoint(model_and_judge) as server:
        request = make_request(write_prompts(tmp_path / "p.parquet", 20), server.url)
        await run(request, tmp_path / "run", RunContext(environment={}))
        command = ["eval", "score", str(tmp_path / "run"), "--judge-model", "j", "--max-tokens-total"]
        capped = await asyncio.to_thread(CliRunner().invoke, app, [*command, "360"])
        assert (capped.exit_code, len(server.prompts) <= 30) == (4, True)
        assert "stopped: the cap of 360 tokens is reached" in capped.output
        done = await asyncio.to_thread(CliRunner().invoke, app, [*command, "100000"])
        assert done.exit_code == 0, done.output
    assert len(server.prompts) == 40
    assert "Used in total" in (tmp_path / "run" / "report.html").read_text()


def test_a_dry_run_names_the_calls_of_model_and_judge_apart(tmp_path: Path) -> None:
    rows = [{"prompt": f"say {n}", "target": "1", "other": "no"} for n in range(10)]
    prompts = write_prompts(tmp_path / "p.parquet", rows)
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {prompt: 1, completion: 1}\nj: {prompt: 100, completion: 100}")
    where = ["--url", "http://127.0.0.1:1/v1", "--output", str(tmp_path / "run"), "--prices", str(prices)]
    model = ["--model", "m", "--max-tokens", "5"]
    judge = [
        "--judge-model",
        "j",
        "--judge-against",
        "other",
        "--judge-times",
        "2",
        "--judge-max-tokens",
        "9",
    ]
    command = ["eval", "run", str(prompts), *where, *model, *judge, "--dry-run"]
    lines = CliRunner().invoke(app, command).output.splitlines()
    assert lines[0].endswith("/run: 50 calls to make, none was made")
    assert lines[1] == "model m: 10 calls"
    assert "  at most 50 tokens of answers (--max-tokens)" in lines[2:5]
    assert lines[5] == "judge j: 40 calls (each pair in both orders, 2 times each)"
    assert "  at most 360 tokens of answers (--judge-max-tokens)" in lines[6:9]
    assert lines[-1].startswith("together about ")
    document = json.loads(CliRunner().invoke(app, [*command, "--display", "json"]).output)["dryRun"]
    assert (document["calls"], document["judges"][0]["calls"]) == (10, 40)
