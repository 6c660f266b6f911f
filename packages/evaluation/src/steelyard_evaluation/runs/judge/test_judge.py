"""Judge models: their calls are runs of their own, what they say is stored, and what cannot be read is a row error."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import Endpoint, endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder, open_run
from steelyard_evaluation.runs.judge.judge import judge
from steelyard_evaluation.runs.judge.output import JUDGED
from steelyard_evaluation.runs.judge.questions import QUESTIONS
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.judge.verdicts import Parser
from steelyard_evaluation.runs.request import RubricSpec, RunRequest
from steelyard_evaluation.runs.run import run


def no_key() -> RunContext:
    return RunContext(environment={})


def model_and_judges(prompt: str) -> str:
    """A model that repeats the last word; a judge that likes even numbers and once says nothing of use."""
    if "[Answer to grade]" not in prompt:
        return prompt.rsplit(maxsplit=1)[-1]
    number = int(prompt.partition("[Answer to grade]\n")[2].partition("\n")[0])
    if number == 7:
        return "I would rather not say."
    return f"Because.\nVERDICT: {'correct' if number % 2 == 0 else 'Incorrect'}"


def judged_request(folder: Path, server: Endpoint, *specs: JudgeSpec, rows: int = 10) -> RunRequest:
    prompts = write_prompts(folder / "prompts.parquet", rows)
    request = make_request(prompts, server.url, rubrics=(RubricSpec("judge.Verdict"),))
    return replace(request, judges=specs or (JudgeSpec("judge"),))


def verdicts(folder: Path) -> list[dict[str, JsonValue]]:
    rows = pq.read_table(folder / JUDGED / "part-00000.parquet").to_pylist()
    return [row["responses"][0] for row in sorted(rows, key=lambda row: row["_index_"])]


async def test_each_answer_is_judged_and_the_verdicts_are_stored_next_to_it(tmp_path: Path) -> None:
    async with endpoint(model_and_judges) as server:
        result = await run(judged_request(tmp_path, server), tmp_path / "run", no_key())
    assert (result.judge_errors, result.exit_code) == (1, 3)
    responses = verdicts(tmp_path / "run")
    assert [response["text"] for response in responses] == [str(number) for number in range(10)]
    given = [response["verdicts"][0] for response in responses]
    assert [verdict["score"] for verdict in given] == [1, 0, 1, 0, 1, 0, 1, None, 1, 0]
    assert given[1] == {
        "judge": "judge",
        "verdict": "incorrect",
        "score": 0.0,
        "reason": "Because.\nVERDICT: Incorrect",
        "error": None,
        "pairs": None,
        "flips": None,
    }
    assert given[7]["error"] == "there is no verdict in: I would rather not say."
    nested = RunFolder(tmp_path / "run").judge("judge")
    assert nested.verified
    assert (nested.path / QUESTIONS).read_text().count("\n") == 10
    scores = RunFolder(tmp_path / "run").scores
    assert pq.read_table(scores)["score"].to_pylist().count(None) == 1


async def test_run_again_a_judge_is_not_paid_twice(tmp_path: Path) -> None:
    async with endpoint(model_and_judges) as server:
        request = judged_request(tmp_path, server)
        await run(request, tmp_path / "run", no_key())
        first = (tmp_path / "run" / JUDGED / "part-00000.parquet").read_bytes()
        calls = len(server.bodies)
        result = await run(request, tmp_path / "run", no_key())
        assert len(server.bodies) == calls == 20
    assert result.judge_errors == 1
    assert (tmp_path / "run" / JUDGED / "part-00000.parquet").read_bytes() == first


async def test_a_judge_added_later_is_asked_and_the_answers_are_not(tmp_path: Path) -> None:
    async with endpoint(model_and_judges) as server:
        request = judged_request(tmp_path, server)
        await run(request, tmp_path / "run", no_key())
        both = replace(request, judges=(*request.judges, JudgeSpec("other", name="second")))
        await run(both, tmp_path / "run", no_key())
        assert len(server.bodies) == 30
        assert [body["model"] for body in server.bodies[20:]] == ["other"] * 10
    judges = [verdict["judge"] for verdict in verdicts(tmp_path / "run")[0]["verdicts"]]
    assert judges == ["judge", "second"]


@pytest.mark.parametrize(
    ("spec", "change"),
    [
        (JudgeSpec("judge", criteria="It rhymes."), "criteria .*It rhymes"),
        (JudgeSpec("other"), r"model 'judge' \(now 'other'\)"),
        (JudgeSpec("judge", times=2), "replications '1'"),
    ],
)
async def test_another_question_needs_another_name_and_leaves_the_report_as_it_was(
    tmp_path: Path, spec: JudgeSpec, change: str
) -> None:
    folder = tmp_path / "run"
    async with endpoint(model_and_judges) as server:
        request = judged_request(tmp_path, server, rows=4)
        await run(request, folder, no_key())
        before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        with pytest.raises(UsageError, match=rf"judge judge: .* begun with {change}.* another name$"):
            await run(replace(request, judges=(spec,)), folder, no_key())
        # As `eval score` asks it.
        with pytest.raises(UsageError, match=r"judge judge: .* begun with .*another name$"):
            await judge(open_run(folder), (spec,), no_key())
    assert before == {path: path.read_bytes() for path in before}


async def test_rows_without_an_answer_are_not_judged_and_count_as_wrong(tmp_path: Path) -> None:
    def refuses(prompt: str) -> JsonValue:
        from aiohttp import web

        return web.Response(status=400, text="no") if prompt == "say 3" else model_and_judges(prompt)

    async with endpoint(refuses) as server:
        result = await run(judged_request(tmp_path, server, rows=6), tmp_path / "run", no_key())
        assert sum("[Answer to grade]" in prompt for prompt in server.prompts) == 5
    assert (result.exit_code, result.judge_errors) == (3, 0)
    scores = pq.read_table(RunFolder(tmp_path / "run").scores).to_pylist()
    assert {row["_index_"]: row["score"] for row in scores}[3] == 0


async def test_the_judge_sees_question_answer_target_and_criteria(tmp_path: Path) -> None:
    spec = JudgeSpec(
        "judge",
        template="{{ question }}|{{ response }}|{{ target }}|{{ criteria }}|{{ grades }}|{{ row.prompt }}"
        "[Answer to grade]\n{{ response }}\n",
        criteria="Right?",
    )
    async with endpoint(model_and_judges) as server:
        await run(judged_request(tmp_path, server, spec, rows=1), tmp_path / "run", no_key())
        assert server.prompts[-1].startswith("say 0|0|0|Right?|correct or incorrect|say 0[")
        assert server.bodies[-1]["temperature"] == 0


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("VERDICT: correct", ("correct", 1.0)),
        ("VERDICT: correct\nbut then\nVerdict: **Incorrect**.", ("incorrect", 0.0)),
        ("**VERDICT:** correct", ("correct", 1.0)),
        ("VERDICT: maybe", "the verdict 'maybe' is not one of correct, incorrect"),
        ("The verdict is correct", "there is no verdict in: The verdict is correct"),
        ("", "there is no verdict in: nothing"),
    ],
)
def test_of_several_verdicts_the_last_counts_and_others_are_reported(said: str, expected: JsonValue) -> None:
    read = Parser(JudgeSpec("judge"))({"text": said})
    assert (
        (expected == read["error"])
        if isinstance(expected, str)
        else (expected == (read["verdict"], read["score"]))
    )


def test_a_judge_that_was_cut_off_is_reported() -> None:
    read = Parser(JudgeSpec("judge"))({"text": "Well, the ans", "finish_reason": "length"})
    assert "cut off" in read["error"]


async def test_a_judge_sees_answers_without_thoughts_and_its_own_are_not_its_verdict(tmp_path: Path) -> None:
    def thinking(prompt: str) -> str:
        if "[Answer to grade]" not in prompt:
            return f"<think>Is it 1?</think>{prompt.rsplit(maxsplit=1)[-1]}"
        return "<think>Perhaps VERDICT: INCORRECT</think>Because.\nVERDICT: CORRECT"

    async with endpoint(thinking) as server:
        await run(judged_request(tmp_path, server, rows=3), tmp_path / "run", no_key())
    questions = (RunFolder(tmp_path / "run").judge("judge").path / QUESTIONS).read_text()
    assert "Is it 1?" not in questions
    assert "[Answer to grade]\\n2\\n" in questions
    assert [response["verdicts"][0]["score"] for response in verdicts(tmp_path / "run")] == [1, 1, 1]


async def test_an_empty_answer_is_wrong_whatever_a_judge_says(tmp_path: Path) -> None:
    def silent(prompt: str) -> str:
        return "VERDICT: CORRECT" if "[Answer to grade]" in prompt else "<think>3, or is it"

    async with endpoint(silent) as server:
        await run(judged_request(tmp_path, server, rows=3), tmp_path / "run", no_key())
    scores = pq.read_table(RunFolder(tmp_path / "run").scores)
    assert scores["score"].to_pylist() == [0, 0, 0]
    assert scores["correct"].to_pylist() == [False, False, False]
