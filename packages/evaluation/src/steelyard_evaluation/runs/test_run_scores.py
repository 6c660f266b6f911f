"""The scores of runs: rubrics, what they read, and scoring once more without a call."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.errors import SteelyardError, UsageError
from steelyard_evaluation.runs.doubles import echo, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.dry_run import count_calls
from steelyard_evaluation.runs.export import export_batches
from steelyard_evaluation.runs.folder import Run, open_run
from steelyard_evaluation.runs.queries import find_wrong_rows
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.resolve import resolve
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.scores import score_again


async def test_a_column_to_group_by_that_there_is_not_is_reported_before_the_first_call(
    tmp_path: Path,
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    async with endpoint() as server:
        for change, flag in (
            ({"group_by": ("topic",)}, "--group-by"),
            ({"cluster_by": "topic"}, "--cluster-by"),
        ):
            with pytest.raises(UsageError, match=f"{flag} topic: .* has prompt, target"):
                await run(make_request(prompts, server.url, **change), tmp_path / "run")
    assert server.bodies == []


async def test_a_run_is_scored_and_scored_again_without_a_call(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 10)
    async with endpoint(lambda prompt: "8" if prompt == "say 7" else f"{echo(prompt)}") as server:
        request = make_request(
            prompts, server.url, rubrics=(RubricSpec("exact-match"), RubricSpec("contains"))
        )
        result = await run(request, tmp_path / "run")
    assert result.exit_code == 0
    assert "90.0 %" in (result.headline or "")
    done = open_run(tmp_path / "run")
    assert (done.numbers or {})["headline"] == result.headline
    assert [row.index for row in find_wrong_rows(done, 5).first if "exact-match" in row.wrong] == [7]
    assert [row["scores"]["correct"] for row in rows_of(done)] == [index != 7 for index in range(10)]
    again = replace(request, rubrics=(RubricSpec("contains?target=prompt"),))
    made = await score_again(done.folder, again)
    assert [rubric for rubric, _ in made.headlines] == ["contains?target=prompt"]
    assert "0 % were right" in made.headlines[0][1]
    assert done.folder.request() == again
    assert "0 % were right" in ((await run(replace(request, rubrics=()), tmp_path / "run")).headline or "")
    assert len(server.bodies) == 10


def rows_of(done: Run) -> list[dict[str, Any]]:
    """The exported rows, in the order of the dataset."""
    rows = [row for batch in export_batches(done) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: int(row["index"]))


async def test_a_rubric_may_read_no_column(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", [{"prompt": "[1]"}, {"prompt": "x"}])
    async with endpoint() as server:
        schema = RubricSpec('structure.JsonSchema?schema={"type": "array"}')
        result = await run(make_request(prompts, server.url, rubrics=(schema,)), tmp_path / "run")
    assert "50" in (result.headline or "")


def install_rubric(folder: Path, name: str, code: str) -> None:
    """Write a distribution whose module `name` has a rubric of the same name, such as `slow.Slow`."""
    information = folder / f"{name}-1.dist-info"
    information.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    entry_point = f"{name}.{name.title()} = {name}:{name.title()}"
    (information / "entry_points.txt").write_text(f"[steelyard.rubrics]\n{entry_point}\n")


async def test_a_rubric_that_fits_no_row_is_reported_before_the_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 500)
    install_rubric(
        tmp_path / "site", "own", "from steelyard_evaluation.report.rubrics.text import ExactMatch as Own\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    async with endpoint() as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("own.Own?target=answr"),))
        with pytest.raises(UsageError, match=r"--rubric .* reads the column 'answr', .* has prompt, target"):
            await run(request, tmp_path / "run")
    assert server.bodies == []


RAISING_RUBRIC = """
from steelyard_evaluation.report.rubrics.text import ExactMatch

class Raising(ExactMatch):
    def score(self, answer):
        return 1 // answer.index
"""


async def test_a_rubric_that_raises_anything_ends_the_run_with_its_answers_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    install_rubric(tmp_path / "site", "raising", RAISING_RUBRIC)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    async with endpoint() as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("raising.Raising"),))
        with pytest.raises(SteelyardError) as failure:
            await run(request, tmp_path / "run")
    assert str(failure.value) == (
        "rubric raising.Raising fails in score (row 0): ZeroDivisionError: integer division or modulo by zero "
        "(raising.py, line 6). Correct its code there"
    )
    assert failure.value.exit_code == 1
    assert (await asyncio.to_thread(count_calls, resolve(request, tmp_path / "run"))).done == 3


@pytest.mark.parametrize("code", ["class Plain:\n    columns = ()\n", "def Plain() -> None: ...\n"])
async def test_a_class_or_a_function_that_is_no_rubric_is_refused(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    install_rubric(tmp_path / "site", "plain", code)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "plain", raising=False)
    async with endpoint() as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("plain.Plain"),))
        with pytest.raises(
            UsageError, match=r"^rubric plain\.Plain: should be a dataclass with the methods of a"
        ):
            await run(request, tmp_path / "run")


async def test_an_unknown_rubric_is_reported_before_the_first_call(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet", 3)
    async with endpoint() as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("exact-mach"),))
        with pytest.raises(UsageError, match="there is no rubric 'exact-mach'"):
            await run(request, tmp_path / "run")
    assert server.bodies == []
