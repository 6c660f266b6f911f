"""Faults of a command are reported before a call is paid for, and leave the folder as it was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import UsageError
from steelyard.runs.context import RunContext, RunFailed
from steelyard.runs.doubles import endpoint, make_request, write_prompts
from steelyard.runs.request import RubricSpec
from steelyard.runs.run import run

WRONG: dict[str, Callable[[Any], Any]] = {
    "--rubric verdict: .* --judge-model": lambda request: replace(request, rubrics=(RubricSpec("verdict"),)),
    "reads the column 'nope'": lambda request: replace(
        request, rubrics=(RubricSpec("exact-match?target=nope"),)
    ),
    "reducer 'nope'": lambda request: replace(
        request, rubrics=(RubricSpec("exact-match"),), reducers=("nope",)
    ),
    "source.limit: should be a number": lambda request: replace(
        request, source=replace(request.source, limit=2**63)
    ),
    "limits.timeout: should be a number": lambda request: replace(
        request, limits=replace(request.limits, timeout=2.0**31)
    ),
    "--param: .*64-bit": lambda request: replace(
        request, prompt=replace(request.prompt, sampling={"max_tokens": 2**64})
    ),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_a_finished_run_keeps_its_request_when_a_rubric_cannot_score_it(
    tmp_path: Path, fault: str
) -> None:
    folder = tmp_path / "run"
    async with endpoint() as server:
        request = make_request(write_prompts(tmp_path / "p.parquet"), server.url)
        await run(request, folder)
        before = (folder / "run.yaml").read_text()
        with pytest.raises(UsageError, match=fault):
            await run(WRONG[fault](request), folder)
    assert (folder / "run.yaml").read_text() == before


async def test_a_rubric_of_verdicts_without_a_judge_costs_nothing(tmp_path: Path) -> None:
    async with endpoint() as server:
        request = make_request(write_prompts(tmp_path / "p.parquet"), server.url)
        with pytest.raises(UsageError, match="--judge-model"):
            await run(replace(request, rubrics=(RubricSpec("verdict"),)), tmp_path / "run")
    assert not server.bodies


async def test_a_host_that_there_is_not_is_reported_and_not_waited_for(tmp_path: Path) -> None:
    request = make_request(write_prompts(tmp_path / "p.parquet"), "http://nobody.invalid/v1")
    with pytest.raises(RunFailed, match=r"nobody.invalid/v1: no such host is known"):
        await run(request, tmp_path / "run")


async def test_a_key_that_was_named_has_to_be_set_while_there_are_calls_to_make(tmp_path: Path) -> None:
    async with endpoint() as server:
        request = make_request(write_prompts(tmp_path / "p.parquet"), server.url, api_key_env="MY_KEY")
        with pytest.raises(UsageError, match="--api-key-env MY_KEY: is not set"):
            await run(request, tmp_path / "run", RunContext(environment={}))
        await run(request, tmp_path / "run", RunContext(environment={"MY_KEY": "k"}))
        assert (await run(request, tmp_path / "run", RunContext(environment={}))).resumed == 20


async def test_a_file_is_no_folder_for_a_run(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    with pytest.raises(UsageError, match=r"--output .*p\.parquet: is a file"):
        await run(make_request(prompts, "http://127.0.0.1:1/v1"), prompts)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("p.jsonl", b"", "has no rows to ask"),
        ("p.csv", b"prompt\n", "has no rows to ask"),
        ("p.csv", "prompt\ncafé\n".encode("latin-1"), "should be UTF-8"),
    ],
)
async def test_a_file_without_rows_or_without_text_says_so(
    tmp_path: Path, name: str, content: bytes, fault: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=fault):
        await run(make_request(tmp_path / name, "http://127.0.0.1:1/v1"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
