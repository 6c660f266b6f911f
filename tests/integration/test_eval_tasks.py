"""The task files of examples/, each run from the command line against an endpoint that follows a script."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.doubles import endpoint
from steelyard_evaluation.runs.folder import RunFolder

TASKS = Path(__file__).parents[2] / "examples" / "tasks"


def rows_of(name: str) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in (TASKS / f"{name}.jsonl").read_text().splitlines()]


def by_key(name: str, key: str, answer: Callable[[dict[str, JsonValue]], str]) -> Callable[[str], str]:
    """Answers by the row whose text stands in the prompt, the last one where there are several."""
    rows = rows_of(name)

    def respond(prompt: str) -> str:
        row = next(row for row in rows if row[key] in prompt)
        return answer(row)

    return respond


def extracted(row: dict[str, JsonValue]) -> str:
    if "Lucia" in row["text"]:
        return "I cannot do that."
    return '```json\n{"buyer": "B", "date": "2024-03-03", "quantity": 2, "euros": 4.5}\n```'


def explained(prompt: str) -> str:
    """A model that answers, and the judge that reads its answers."""
    if "[Criteria]" not in prompt:
        return "Magic." if "ice" in prompt else "The usual reason."
    said = re.search(r"\[Answer to grade\]\n(.+)", prompt)
    assert said
    return "No.\nVERDICT: incorrect" if said[1] == "Magic." else "Nearly.\nVERDICT: partial"


SCRIPTS: dict[str, tuple[Callable[[str], str], int, str, float]] = {
    # answers, calls, the first metric and its value
    "arithmetic": (
        by_key("arithmetic", "question", lambda row: f"It is {row['answer']}."),
        24,
        "numeric_close",
        1.0,
    ),
    "multiple-choice": (
        by_key("multiple-choice", "question", lambda row: "B"),
        12,
        "multiple_choice",
        3 / 12,
    ),
    "extraction": (by_key("extraction", "text", extracted), 8, "valid_json", 7 / 8),
    "sentiment": (by_key("sentiment", "text", lambda row: "Positive"), 48, "exact_match", 0.5),
    "open-question": (explained, 16, "verdict", 0.5 * 7 / 8),
}


def steelyard(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from steelyard.cli.main import main; main()", "eval", *arguments]
    environment = os.environ | {"OPENAI_API_KEY": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
async def test_an_example_runs_scores_and_goes_on(tmp_path: Path, name: str) -> None:
    answer, calls, metric, value = SCRIPTS[name]
    async with endpoint(answer) as server:

        async def go(*arguments: str) -> subprocess.CompletedProcess[str]:
            return await asyncio.to_thread(steelyard, tmp_path, "run", *arguments, "--display", "none")

        done = await go(str(TASKS / f"{name}.yaml"), "--url", server.url, "--model", "m", "--output", "run")
        assert done.returncode == 0, done.stderr
        assert len(server.bodies) == calls
        again = await go("run")
        assert again.returncode == 0, again.stderr
        assert len(server.bodies) == calls
    run = RunFolder(tmp_path / "run")
    by_name = {metric["name"]: metric for metric in metrics(orjson.loads(run.numbers.read_bytes()))}
    assert by_name[metric]["value"] == pytest.approx(value)
    assert pq.read_table(run.scores).num_rows == calls - (8 if name == "open-question" else 0)
    assert run.page.exists()


def metrics(report: JsonValue) -> list[dict[str, JsonValue]]:
    """The report's metrics, wherever they stand."""
    if isinstance(report, dict):
        own = report.get("metrics")
        inner = [metric for value in report.values() for metric in metrics(value)]
        return [*(own if isinstance(own, list) else []), *inner]
    return []


def test_the_names_of_all_examples_are_in_the_script() -> None:
    assert sorted(path.stem for path in TASKS.glob("*.yaml")) == sorted(SCRIPTS)


def test_faults_of_a_task_are_reported_by_line_and_nothing_is_called(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("data: {path: none.csv}\nrubric: [exact-match]\n")
    done = steelyard(tmp_path, "run", "task.yaml", "--url", "http://127.0.0.1:9/v1", "--model", "m")
    assert done.returncode == 2
    assert "task.yaml:1:14: data.path: 'none.csv': there is no such file in ." in done.stderr
    assert "task.yaml:2:1: rubric: there is no such field; did you mean rubrics?" in done.stderr
