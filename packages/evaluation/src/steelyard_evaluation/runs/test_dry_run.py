"""Dry runs of runs with judges: their count is the number of calls afterwards."""

import asyncio
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import Endpoint, echo, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.dry_run import BYTES_PER_TOKEN, ExpectedCalls, count_judging
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import PromptSpec, RubricSpec, RunRequest
from steelyard_evaluation.runs.resolve import resolve
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.spending.prices import PriceSpec

PAIRS = JudgeSpec("j", against="other", times=3, sampling={"max_tokens": 7}, prices=PriceSpec(2, 10))
ALONE = JudgeSpec("k", name="second")


def model_and_judges(prompt: str) -> str:
    return "VERDICT: tie" if "[Answer B]" in prompt else "VERDICT: correct" if "VERDICT:" in prompt else "12"


def judged_request(folder: Path, server: Endpoint, **changes: JsonValue) -> RunRequest:
    """A request of four rows, asked twice each, with two judges; one row has no prompt."""
    rows = [{"prompt": None if n == 2 else f"say {n}", "target": "1", "other": "no"} for n in range(4)]
    request = make_request(
        write_prompts(folder / "p.parquet", rows),
        server.url,
        replications=2,
        rubrics=(RubricSpec("judge.Verdict"),),
        judges=(PAIRS, ALONE),
        prompt=PromptSpec(sampling={"max_tokens": 1}),
    )
    return replace(request, **changes)


def tokens_of(server: Endpoint, model: str) -> int:
    size = sum(len(orjson.dumps(body)) for body in server.bodies if body["model"] == model)
    return size // BYTES_PER_TOKEN


async def judging(request: RunRequest, folder: Path) -> tuple[ExpectedCalls, ...]:
    return await asyncio.to_thread(lambda: count_judging(resolve(request, folder)))


async def test_calls_to_judges_are_counted_before_anything_is_answered(tmp_path: Path) -> None:
    async with endpoint(model_and_judges) as server:
        request = judged_request(tmp_path, server)
        pairs, alone = await judging(request, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        await run(request, tmp_path / "run", RunContext(environment={}))
    called = [body["model"] for body in server.bodies]
    assert (pairs.calls, alone.calls) == (called.count("j"), called.count("k")) == (36, 6)
    assert (pairs.name, alone.name) == ("judge", "second")
    # Each prompt quotes one answer of at most one token (4 bytes); the placeholder and "12" are 1 and 2 bytes.
    assert abs(pairs.prompt_tokens - tokens_of(server, "j") - 36) <= 36 // 4 + 1
    assert pairs.completion_tokens == 36 * 7
    assert pairs.cost == pytest.approx((2 * pairs.prompt_tokens + 10 * 36 * 7) / 1e6)
    assert (alone.completion_tokens, alone.cost) == (None, None)


async def test_prompts_about_answers_that_are_there_are_measured_as_they_are(tmp_path: Path) -> None:
    async with endpoint(model_and_judges) as server:
        request = judged_request(tmp_path, server)
        await run(replace(request, judges=(), rubrics=()), tmp_path / "run", RunContext(environment={}))
        pairs, _ = await judging(request, tmp_path / "run")
        await run(request, tmp_path / "run", RunContext(environment={}))
        assert (pairs.calls, pairs.prompt_tokens) == (36, tokens_of(server, "j"))
        again = await judging(request, tmp_path / "run")
        assert [(judge.calls, judge.done) for judge in again] == [(0, 36), (0, 6)]
        other = replace(request, judges=(replace(PAIRS, criteria="The shorter one."), ALONE))
        with pytest.raises(UsageError, match=r"judge judge: .* was begun with another prompt file"):
            await judging(other, tmp_path / "run")


async def test_without_a_limit_of_answers_the_judges_prompts_have_no_bound(tmp_path: Path) -> None:
    async with endpoint(echo) as server:
        request = judged_request(tmp_path, server, prompt=PromptSpec())
        pairs, _ = await judging(request, tmp_path / "run")
    assert (pairs.unbounded_answers, pairs.cost) == (True, None)
