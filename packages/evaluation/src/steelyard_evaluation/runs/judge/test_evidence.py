"""A report of verdicts names every file that they came from; an edited judge's run is found, also digested again."""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.report.layout import NUMBERS
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.judge.evidence import verdicts_again
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run


@pytest.fixture
async def judged(tmp_path: Path) -> RunFolder:
    """A run of six answers with the verdicts of one judge."""
    prompts = write_prompts(tmp_path / "p.parquet", 6)
    async with endpoint(lambda prompt: "VERDICT: correct" if "grading" in prompt else "7") as server:
        request = make_request(
            prompts,
            server.url,
            judges=(JudgeSpec("grader", name="one"),),
            rubrics=(RubricSpec("judge.Verdict"),),
        )
        await run(request, tmp_path / "run")
    return RunFolder(tmp_path / "run")


async def faults(folder: RunFolder) -> list[str]:
    return [check.what async for check in verdicts_again(folder, folder.request()) if check.state == "fault"]


async def test_all_files_of_the_judge_are_evidence(judged: RunFolder) -> None:
    evidence = json.loads((judged.path / NUMBERS).read_bytes())["evidence"]
    of_judge = {entry["path"] for entry in evidence if entry["what"] == "Answers of the judge one"}
    assert of_judge == {
        "judges/one/run.yaml",
        "judges/one/questions.jsonl",
        "judges/one/inputs/part-00000.parquet",
        "judges/one/outputs/part-00000.parquet",
        "judges/one/outputs/.steelyard/manifest.json",
        "judges/one/outputs/.steelyard/run.json",
    }
    before = {entry["path"] for entry in evidence if entry["what"] == "Answers before judging"}
    assert "outputs/part-00000.parquet" in before
    assert not await faults(judged)


def other_grades(folder: RunFolder) -> None:
    """Every verdict turned round in the judge's answers, which are digested again."""
    path = folder.path / "judges/one/outputs/part-00000.parquet"
    rows = pq.read_table(path)
    given: list[Any] = rows["responses"].to_pylist()
    answers = [[{**answer, "text": "VERDICT: incorrect"} for answer in row] for row in given]
    column = rows.schema.get_field_index("responses")
    sink = io.BytesIO()
    pq.write_table(rows.set_column(column, "responses", pa.array(answers, rows["responses"].type)), sink)
    path.write_bytes(sink.getvalue())
    manifest = path.parent / ".steelyard/manifest.json"
    content: dict[str, Any] = json.loads(manifest.read_bytes())
    content["files"][0]["sha256"] = hashlib.sha256(sink.getvalue()).hexdigest()
    manifest.write_text(json.dumps(content))


def other_questions(folder: RunFolder) -> None:
    path = folder.path / "judges/one/questions.jsonl"
    path.write_text(path.read_text().replace("say 1", "say 2"))


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (other_grades, "judged/"),
        (other_questions, "judges/one/questions.jsonl: is not what the judge is to be asked"),
    ],
)
async def test_an_edited_judges_run_is_found(
    judged: RunFolder, edit: Callable[[RunFolder], None], named: str
) -> None:
    edit(judged)
    assert any(fault.startswith(named) for fault in await faults(judged))


async def test_pairs_asked_several_times_give_the_same_verdicts_again(tmp_path: Path) -> None:
    rows = [{"prompt": f"say {number}", "target": str(number), "other": "8"} for number in range(4)]
    prompts = write_prompts(tmp_path / "p.parquet", rows)
    async with endpoint(lambda prompt: "VERDICT: A" if "VERDICT" in prompt else "7") as server:
        request = make_request(
            prompts,
            server.url,
            judges=(JudgeSpec("grader", name="one", against="other", times=2),),
            rubrics=(RubricSpec("judge.Verdict"),),
        )
        await run(request, tmp_path / "run")
    checks = [check async for check in verdicts_again(RunFolder(tmp_path / "run"), request)]
    assert [check.state for check in checks] == ["fine", "fine"], checks
    assert checks[0].what == "judges/one: was asked 8 questions, each 2 times, as its template says"
