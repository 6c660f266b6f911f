"""Judges that are asked which of two answers is better, in both orders, and judges that are asked several times."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import echo, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder, open_run
from steelyard_evaluation.runs.judge.pairs import ParsedVerdict, merge_verdicts, pair_score
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run

WORTH = {"A": 1.0, "B": 0.0, "tie": 0.5}


def said(order: int, verdict: str | None, time: int = 0) -> ParsedVerdict:
    read = (
        {"verdict": verdict, "score": WORTH[verdict], "reason": f"because {verdict}"}
        if verdict
        else {"error": "?"}
    )
    return ParsedVerdict(order, time, read)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("A", "B", ("win", 1.0, 0)),
        ("B", "A", ("loss", 0.0, 0)),
        ("tie", "tie", ("tie", 0.5, 0)),
        ("A", "A", ("tie", 0.5, 1)),
        ("B", "B", ("tie", 0.5, 1)),
        ("A", "tie", ("tie", 0.5, 1)),
        ("tie", "A", ("tie", 0.5, 1)),
    ],
    ids=str,
)
def test_an_answer_wins_only_where_it_is_preferred_in_both_orders(
    first: str, second: str, verdict: tuple[str, float, int]
) -> None:
    pair = merge_verdicts([said(0, first), said(1, second)], pairwise=True)
    assert (pair["verdict"], pair["score"], pair["flips"]) == verdict
    assert pair["reason"] == f"[shown first] because {first}\n\n[shown second] because {second}"


def test_a_grade_between_is_worth_what_both_orders_say() -> None:
    assert pair_score(0.75, 0.0) == 0.875
    assert pair_score(0.25, 1.0) == 0.125


def test_a_pair_counts_where_both_orders_could_be_read() -> None:
    verdict = merge_verdicts([said(0, "A"), said(1, None), said(0, "B", 1), said(1, "A", 1)], pairwise=True)
    assert (verdict["verdict"], verdict["pairs"]) == ("loss", 1)
    unread = merge_verdicts([said(0, "A"), said(1, None)], pairwise=True)
    assert unread.get("score") is None
    assert unread["error"] == "?"


def test_a_judge_that_is_asked_several_times_gives_the_mean_of_what_could_be_read() -> None:
    verdict = merge_verdicts(
        [said(0, "A"), said(0, "B", 1), said(0, "A", 2), said(0, None, 3)], pairwise=False
    )
    assert (verdict["verdict"], verdict["score"]) == ("A", pytest.approx(2 / 3))
    assert verdict["reason"].startswith("(2 of 4 times A)")


def better(prompt: str) -> str:
    """A model that repeats the last word; a judge that prefers the larger number, and else what it is shown first."""
    if "[Answer A]" not in prompt:
        return echo(prompt)
    first, second = (int(prompt.partition(f"[Answer {name}]\n")[2].split()[0]) for name in "AB")
    if first == 3:
        return "Hm."
    return f"So.\nVERDICT: {'B' if second > first else 'A'}"


async def test_answers_are_held_against_a_column_in_both_orders(tmp_path: Path) -> None:
    others = [0, 9, 2, 4, 5]  # against the answers 1, 1, 2, 3, 4
    answers = [1, 1, 2, 3, 4]
    rows = [
        {"prompt": f"say {said}", "other": str(other)} for said, other in zip(answers, others, strict=True)
    ]
    prompts = write_prompts(tmp_path / "p.parquet", rows)
    async with endpoint(better) as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("judge.Verdict"),))
        request = replace(request, judges=(JudgeSpec("j", against="other", times=2),))
        result = await run(request, tmp_path / "run", RunContext(environment={}))
        assert len(server.prompts) == 5 + 5 * 2 * 2
    scores = sorted(
        pq.read_table(RunFolder(tmp_path / "run").scores).to_pylist(), key=lambda row: row["_index_"]
    )
    assert [row["verdict"] for row in scores] == ["win", "loss", "tie", None, "loss"]
    assert [row["status"] for row in scores] == ["scored", "scored", "scored", "left out", "scored"]
    assert [row["flips"] for row in scores] == [0, 0, 2, None, 0]
    assert result.judge_errors == 1
    assert (result.headline or "").startswith("Win rate of 4 answers: 37.5 % on average")
    assert (open_run(tmp_path / "run").numbers or {})["counts"] == {"scored": 4, "failed": 0, "leftOut": 1}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"against": "othr"}, "--judge-against othr: .* has no such column; it has prompt, other"),
        ({"against": "other"}, "row 0 has no answer in the column 'other'"),
        ({"times": 0}, "times: is 0; should be 1 or more"),
    ],
    ids=["no such column", "no answer", "no times"],
)
async def test_what_cannot_be_compared_is_reported(
    tmp_path: Path, changes: dict[str, JsonValue], fault: str
) -> None:
    rows: list[dict[str, JsonValue]] = [{"prompt": "say 1", "other": None}, {"prompt": "say 2", "other": "x"}]
    prompts = write_prompts(tmp_path / "p.parquet", rows)
    async with endpoint(better) as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("judge.Verdict"),))
        request = replace(request, judges=(JudgeSpec("j", **changes),))
        with pytest.raises(UsageError, match=fault):
            await run(request, tmp_path / "run", RunContext(environment={}))
