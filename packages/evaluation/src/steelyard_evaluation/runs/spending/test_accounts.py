"""One budget for the model and its judges: the count, its end, and what a dead process leaves."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.caps import OtherUsage, Usage
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.runs.doubles import (
    Endpoint,
    endpoint,
    make_ended_answer,
    make_request,
    write_prompts,
)
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import Limits, RubricSpec, RunRequest
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.spending.accounts import accounts, sum_others
from steelyard_evaluation.runs.spending.prices import PriceSpec
from steelyard_evaluation.runs.spending.spending_log import CallTotals, SpendingLog, sum_logs

A_CALL = 12
"""Tokens of one call of the double: 10 of the prompt, 2 of the answer."""
WORKERS = 4
JUDGES = (JudgeSpec("j1", name="one"), JudgeSpec("j2", name="two"))


def judging(prompt: str) -> str:
    return "VERDICT: correct" if "[Answer to grade]" in prompt else "an answer"


def asked_with(folder: Path, server: Endpoint, *judges: JudgeSpec, **limits: JsonValue) -> RunRequest:
    prompts = write_prompts(folder / "p.parquet", 30)
    request = make_request(prompts, server.url, limits=Limits(concurrency=WORKERS, **limits))
    return replace(request, judges=judges, rubrics=(RubricSpec("judge.Verdict"),) if judges else ())


async def test_the_model_and_its_judges_spend_from_one_budget(tmp_path: Path) -> None:
    cap = 50 * A_CALL  # 30 calls of the model, 20 of the first judge
    async with endpoint(judging) as server:
        request = asked_with(tmp_path, server, *JUDGES, max_tokens_total=cap)
        capped = await run(request, tmp_path / "run")
        spent = A_CALL * len(server.bodies)
        assert cap - WORKERS * A_CALL <= spent <= cap
        assert capped.exit_code == 4
        assert capped.spending is not None
        assert capped.spending["tokens"] == spent  # what is said is what the server counted
        assert [(account["name"], account["tokens"]) for account in capped.spending["accounts"]] == [
            ("model", 30 * A_CALL),
            ("one", spent - 30 * A_CALL),
        ]
        assert f"the cap of {cap} tokens is reached" in (capped.stopped or "")
        assert f"{30 * A_CALL} of it by model" in (capped.stopped or "")
        again = await run(request, tmp_path / "run")
        assert (again.exit_code, A_CALL * len(server.bodies)) == (4, spent)  # no further call
        more = replace(request, limits=replace(request.limits, max_tokens_total=10**6))
        done = await run(more, tmp_path / "run")
    assert done.exit_code == 0
    assert done.spending is not None
    assert done.spending["tokens"] == 90 * A_CALL == A_CALL * len(server.bodies)


async def test_prices_are_of_each_model_and_stand_in_the_report(tmp_path: Path) -> None:
    cheap, dear = PriceSpec(1.0, 1.0), PriceSpec(100.0, 1000.0)
    judges = (replace(JUDGES[0], prices=dear), replace(JUDGES[1], prices=cheap))
    async with endpoint(judging) as server:
        request = asked_with(tmp_path, server, *judges, prices=cheap, max_cost=1.0)
        result = await run(request, tmp_path / "run")
    costs = {"model": 30 * 12e-6, "one": 30 * (10 * 100e-6 + 2 * 1000e-6), "two": 30 * 12e-6}
    spending = orjson.loads((tmp_path / "run" / "report.json").read_bytes())["spending"]
    assert result.spending == spending
    assert {account["name"]: account["cost"] for account in spending["accounts"]} == pytest.approx(costs)
    assert spending["cost"] == pytest.approx(sum(costs.values()))
    page = (tmp_path / "run" / "report.html").read_text()
    for words in (
        "Used by the model, m",
        "Used by one, j1",
        "360 tokens, 0.09 spent in 30 calls",
        "Used in total",
    ):
        assert words in page


async def test_a_cap_of_cost_is_kept_by_the_price_of_each(tmp_path: Path) -> None:
    judges = (replace(JUDGES[0], prices=PriceSpec(1e6, 1e6)),)
    async with endpoint(judging) as server:
        request = asked_with(tmp_path, server, *judges, prices=PriceSpec(0.0, 0.0), max_cost=120.0)
        result = await run(request, tmp_path / "run")
    assert result.exit_code == 4
    assert 30 + 10 - WORKERS <= len(server.bodies) <= 30 + 10


async def test_a_judge_without_a_price_is_reported_before_anything_is_paid(tmp_path: Path) -> None:
    async with endpoint(judging) as server:
        request = asked_with(tmp_path, server, *JUDGES, prices=PriceSpec(1, 1), max_cost=1.0)
        with pytest.raises(UsageError, match=r"--max-cost: needs a price of judge one \(j1\)"):
            await run(request, tmp_path / "run")
    assert server.bodies == []


async def test_answers_that_do_not_count_are_paid_all_the_same(tmp_path: Path) -> None:
    tries = 0

    def answer(prompt: str) -> JsonValue:
        nonlocal tries
        tries += 1
        return make_ended_answer("abort", "") if tries <= 5 else prompt

    async with endpoint(answer) as server:
        result = await run(asked_with(tmp_path, server), tmp_path / "run")
    assert result.spending is not None
    assert result.spending["tokens"] == 35 * A_CALL == A_CALL * len(server.bodies)


async def test_a_cap_that_cannot_be_kept_is_reported(tmp_path: Path) -> None:
    silent = {"choices": [{"message": {"content": "1"}, "finish_reason": "stop"}]}

    def answer(_: str) -> JsonValue:
        return web.json_response(silent)

    async with endpoint(answer) as server:
        with pytest.raises(EvaluationFailed, match="does not report its tokens"):
            await run(asked_with(tmp_path, server, max_tokens_total=100), tmp_path / "run")
    assert len(server.bodies) <= 2  # calls go one by one until one says what it used


def test_a_spending_log_is_of_one_attempt(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    first, second = SpendingLog(folder, "1"), SpendingLog(folder, "2")
    for log, tokens in ((first, 10), (second, 20)):
        log.note_sent()
        log.note_answered(Usage(tokens, 1))
    first.note_sent()
    second.note_sent()
    second.note_unsent()
    assert sum_logs(folder) == CallTotals(3, 1, Usage(30, 2))
    assert sum_logs(folder).token_loss == 16
    assert (SpendingLog(folder, "3").before, SpendingLog(folder, "3").losses) == (Usage(30, 2), 1)
    (tmp_path / ".spent" / "4").write_bytes(b"")
    assert sum_logs(folder).calls == 3


async def test_others_are_those_who_spent(tmp_path: Path) -> None:
    async with endpoint(judging) as server:
        request = asked_with(tmp_path, server, *JUDGES)
        await run(request, tmp_path / "run")
    all_accounts = accounts(RunFolder(tmp_path / "run"), request)
    assert sum_others(all_accounts, "two") == OtherUsage(60 * A_CALL, 0.0, ("model", "one"))


async def test_answers_that_no_spending_log_counted_are_counted_from_the_outputs(tmp_path: Path) -> None:
    """Runs of older versions have no spending log, and a power loss may take one."""
    async with endpoint(judging) as server:
        request = asked_with(tmp_path, server)
        await run(request, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    for path in (folder.path / ".spent").iterdir():
        path.unlink()
    (account,) = accounts(folder, request)
    assert (account.tokens, account.spent.calls) == (30 * A_CALL, 30)
