"""`steelyard eval compare` as it is typed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli.eval.group import eval_app
from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.request import PromptSpec, RubricSpec
from steelyard_evaluation.runs.run import run


async def make_run(folder: Path, wrong: tuple[int, ...], prompt: PromptSpec) -> str:
    prompts = folder.parent / "p.parquet"
    write_prompts(prompts, [{"prompt": f"say {number} <b>", "target": str(number)} for number in range(20)])

    def answer(prompt: str) -> str:
        number = int(prompt.split()[1])
        return "<i>" if number in wrong else str(number)

    async with endpoint(answer) as server:
        request = make_request(prompts, server.url, prompt=prompt, rubrics=(RubricSpec("exact-match"),))
        await run(request, folder)
    return str(folder)


@pytest.fixture
async def runs(tmp_path: Path) -> list[str]:
    return [
        await make_run(tmp_path / name, wrong, PromptSpec()) for name, wrong in (("a", (1, 2)), ("b", ()))
    ]


def test_a_saved_page_is_verified(runs: list[str], tmp_path: Path) -> None:
    at, invoke = tmp_path / "c.html", CliRunner().invoke
    assert invoke(app, ["eval", "compare", *runs, "--output", str(at)]).exit_code == 0
    verified = invoke(app, ["report", "verify", str(at), "--results", str(tmp_path)])
    assert verified.exit_code == 0, verified.output
    assert "c.html: drawn again, is the same byte for byte" in verified.output
    (tmp_path / "b/scores.parquet").write_bytes(b"")
    changed = invoke(app, ["report", "verify", str(at)])
    assert changed.exit_code == 1
    assert "FAULT     B: Scores: scores.parquet has the SHA-256 e3b0c44298fc" in changed.output
    refused = invoke(app, ["report", "verify", str(at), "--module", str(tmp_path)])
    assert isinstance(refused.exception, UsageError)
    assert "is the page of a comparison" in str(refused.exception)
    at.write_text('<script type="application/json" id="audit">{}</script>')
    refused = invoke(app, ["report", "verify", str(at)])
    assert isinstance(refused.exception, UsageError)
    assert f"is the page of an audit: steelyard audit verify {at}" in str(refused.exception)


async def test_it_prints_a_table_json_and_a_page(tmp_path: Path) -> None:
    first = await make_run(tmp_path / "a", (1, 2, 3, 4, 5, 6), PromptSpec())
    second = await make_run(tmp_path / "b", (8,), PromptSpec(sampling={"temperature": 1}))
    at, again, invoke = tmp_path / "c.html", tmp_path / "again.html", CliRunner().invoke
    result = invoke(eval_app, ["compare", first, second, "--output", str(at)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("rubric: exact-match\n")
    assert "+25.0 (" in result.output
    assert "better (6): rows 1, 2, 3, 4, 5, 6" in result.output
    assert "different request: sampling" in result.output
    assert "20 questions, 7 of which differ, cannot detect any difference with 80 % power" in result.output
    html = at.read_text()
    assert "say 8 &lt;b&gt;" in html
    assert "<i>" not in html
    assert "src=" not in html
    assert "<link" not in html
    numbers = json.loads(invoke(eval_app, ["compare", first, second, "-o", "json"]).stdout)
    assert numbers["comparisons"][0]["changes"]["better"]["indexes"] == [1, 2, 3, 4, 5, 6]
    assert numbers["comparisons"][0]["pHolm"] == numbers["comparisons"][0]["p"]
    invoke(eval_app, ["compare", first, second, "--output", str(again)])
    assert again.read_bytes() == at.read_bytes()


def test_a_form_that_there_is_not_is_refused() -> None:
    result = CliRunner().invoke(eval_app, ["compare", "a", "b", "-o", "yaml"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "-o yaml: should be table or json"
