"""`steelyard eval compare` as it is typed."""

import json
from pathlib import Path

from typer.testing import CliRunner

from steelyard.cli.eval.group import eval_app
from steelyard.errors import UsageError
from steelyard.runs.doubles import endpoint, make_request, write_prompts
from steelyard.runs.request import PromptSpec, RubricSpec
from steelyard.runs.run import run


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
