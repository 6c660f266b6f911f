"""Tests of the wrong answers in `steelyard eval show`: by which rubric, how often, and no more than can be
read.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from steelyard.cli.eval import run_text
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import echo, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import Run, RunFolder, open_run
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.spending.spending_log import sum_logs

LONG = " ".join(f"word{number}" for number in range(300))


async def scored(folder: Path, *rubrics: str) -> Run:
    """Row 0 is right, row 1 wrong once of three times, rows 2 and 3 are right for `contains` alone, row 3 long."""
    calls = Counter[str]()

    def answer(prompt: str) -> str:
        calls[prompt] += 1
        sentences = {"say 1": "0" if calls[prompt] == 2 else "1", "say 2": "It is 2.", "say 3": LONG}
        return sentences.get(prompt, echo(prompt))

    async with endpoint(answer) as server:
        prompts = write_prompts(folder / "p.parquet", 4)
        request = make_request(prompts, server.url, replications=3, rubrics=tuple(map(RubricSpec, rubrics)))
        await run(request, folder / "run", RunContext(environment={}))
    return open_run(folder / "run")


def block(text: str, row: int) -> str:
    """The part of a list of failures that is about one row."""
    return next(part for part in text.split("\n\n") if part.startswith(f"row {row}:"))


async def test_failures_name_the_rubric_and_how_often_it_calls_a_row_wrong(tmp_path: Path) -> None:
    text = run_text.failures(await scored(tmp_path, "exact-match", "contains?every=true"), 9)
    assert text.splitlines()[0].endswith(
        "rows with a wrong answer: 3 by exact-match, 1 by contains?every=true"
    )
    assert block(text, 1).startswith(
        "row 1: wrong 1 of 3 times by exact-match, wrong 1 of 3 times by contains?every=true\n"
    )
    assert block(text, 2).startswith("row 2: wrong 3 of 3 times by exact-match\n")
    assert block(text, 1).count("answer, replication") == 1  # the right answers are left out
    assert "  exact-match: wrong, should be 2\n  contains?every=true: right" in block(text, 2)
    assert "row 0" not in text


async def test_long_values_are_shortened_unless_all_is_asked_for(tmp_path: Path) -> None:
    done = await scored(tmp_path, "exact-match")
    short, full = run_text.failures(done, 9), run_text.failures(done, 9, full=True)
    assert "word0" in short
    assert "word299" in short
    assert "word150" not in short
    assert f"({len(LONG):,} characters)" in short
    assert short.endswith("--full shows them whole)")
    assert LONG in full
    assert "--full" not in full
    assert LONG in run_text.row(done, 3)


@pytest.mark.parametrize(
    ("rubrics", "by"), [(["exact-match"], ""), (["exact-match", "contains"], "by exact-match: ")]
)
async def test_the_summary_says_how_often_a_row_is_wrong(tmp_path: Path, rubrics: list[str], by: str) -> None:
    summary = run_text.summary(await scored(tmp_path, *rubrics))
    assert f"  row 1: {by}0, not 1 (1 of 3 times)" in summary


async def test_a_row_names_its_rubrics(tmp_path: Path) -> None:
    text = run_text.row(await scored(tmp_path, "exact-match", "contains"), 1)
    assert text.count("  exact-match: right\n    label: 1") == 2
    assert text.count("  contains: wrong") == 1


async def test_show_tells_calls_that_were_paid_twice(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    async with endpoint() as server:
        request = make_request(prompts, server.url)
        await run(request, tmp_path / "run")
        assert "paid" not in run_text.summary(open_run(tmp_path / "run"))
        shutil.rmtree(tmp_path / "run" / "outputs")  # as if a kill had lost them all
        assert (await run(request, tmp_path / "run")).exit_code == 0
    said = run_text.summary(open_run(tmp_path / "run"))
    assert "20 calls paid twice: their first answers were lost, with their process or in a file" in said
    log = next((tmp_path / "run" / ".spent").iterdir())
    log.write_bytes(log.read_bytes()[:32])  # an earlier version's
    assert sum_logs(RunFolder(tmp_path / "run")).kept == 20
    assert "paid" not in run_text.summary(open_run(tmp_path / "run"))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "100 %"), (0.9999, ">99.9 %"), (0.0, "0 %"), (0.0001, "<0.1 %"), (0.5, "50.0 %")],
)
def test_a_share_is_rounded_as_in_the_headline_above_it(value: float, text: str) -> None:
    line = run_text._metric("Match", {"unit": "share"}, {"value": value, "low": value, "high": value})
    assert line == f"Match: {text} ({text} to {text})"


@pytest.mark.parametrize(("scale", "text"), [([0, 100], "65.3"), ([0, 1], "65.264"), (None, "65.264")])
def test_a_number_is_rounded_as_in_the_headline_above_it(scale: list[int] | None, text: str) -> None:
    line = run_text._metric("BLEU", {"unit": "number", "scale": scale}, {"value": 65.264, "low": None})
    assert line == f"BLEU: {text}"
