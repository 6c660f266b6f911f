"""No number is made of answers that nobody could read; what a report, the screen and `eval show` say in its place."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from aiohttp import web

from steelyard.cli.eval import run_text
from steelyard_common.errors import UsageError
from steelyard_evaluation.report.results import Answer, Results
from steelyard_evaluation.report.rubrics import find_rubric
from steelyard_evaluation.report.scoring import summarise
from steelyard_evaluation.report.status import with_resolved_status
from steelyard_evaluation.runs.compare import compare_runs
from steelyard_evaluation.runs.doubles import endpoint, make_ended_answer, make_request, write_prompts
from steelyard_evaluation.runs.folder import open_run
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run
from tests.answers.test_guards import EXAMPLES, Example

# lm-eval scores documents, of which its own tests have a table.
SCORED = [example for example in EXAMPLES if not example.rubric.startswith("lm_eval")]
every = pytest.mark.parametrize("example", SCORED, ids=lambda one: one.rubric)
KEYS = (("_index_", pa.int64()), ("_replication_", pa.string()), ("group:kind", pa.string()))
UNREADABLE: Mapping[str, Sequence[str]] = {
    "choice.MultipleChoice": ("I cannot say", "Rome or Paris", "<think>It is"),
    "numeric.Close": ("I cannot say", "5 or 6", "<think>It is 5"),
    "text.Regex?pattern=(\\w*)&group=1": ("?!", "…"),
}
"""Texts in which a rubric finds nothing that it could compare; the others read every text."""
UNGRADED = [
    {"judge": "judge", "verdict": None, "score": None, "reason": "Hm.", "error": "there is no verdict"}
]


def results_of(example: Example, responses: Sequence[Any]) -> Results:
    """The results where these are the responses to the same question; None for a row that failed."""
    rubric = find_rubric(example.rubric)
    rows = []
    for index, response in enumerate(responses):
        answer = Answer(index, "r0", example.row, None if response is None else [response])
        scored = with_resolved_status(rubric, answer, rubric.score(answer))
        rows.append({"_index_": index, "_replication_": "r0", "group:kind": "ab"[index % 2], **scored})
    schema = pa.schema([*KEYS, *rubric.scores, ("status", pa.string())])
    return summarise(rubric, pa.Table.from_pylist(rows, schema), ("mean", "majority"))


def says(example: Example, text: str, **more: Any) -> dict[str, Any]:
    return {example.name: text, "text": text, **example.more, **more}


def check_no_number(results: Results, headline: str) -> None:
    assert results.headline == headline
    assert [metric.estimate.value for metric in results.metrics] == [None] * len(results.metrics)
    assert not results.figures
    assert results.bounds is None
    assert "%" not in str(results.tables)
    assert results.numbers["power"] is None


@every
def test_rows_that_all_failed_have_no_number(example: Example) -> None:
    check_no_number(results_of(example, [None] * 20), "No row was answered. 20 rows failed.")


@every
@pytest.mark.parametrize("failed", [0, 5])
def test_empty_answers_have_no_number(example: Example, failed: int) -> None:
    responses = [says(example, ("", " ", "<think>Hm.</think>")[row % 3]) for row in range(15)]
    results = results_of(example, [*responses, *[None] * failed])
    why = "No row was answered: every answer is empty."
    why = "No answer could be read." if example.rubric in UNREADABLE else why
    check_no_number(results, why + " 5 rows failed." * (failed == 5))


@pytest.mark.parametrize("reference", UNREADABLE)
@pytest.mark.parametrize("failed", [0, 5])
def test_answers_that_could_not_be_read_have_no_number(reference: str, failed: int) -> None:
    example = next(one for one in SCORED if one.rubric == reference)
    texts = UNREADABLE[reference]
    responses = [says(example, texts[row % len(texts)]) for row in range(15)]
    sentence = "No answer could be read." + " 5 rows failed." * (failed == 5)
    check_no_number(results_of(example, [*responses, *[None] * failed]), sentence)


@pytest.mark.parametrize("failed", [0, 5])
def test_answers_without_a_readable_verdict_have_no_number(failed: int) -> None:
    example = next(one for one in SCORED if one.rubric == "judge.Verdict")
    responses = [says(example, "Paris", verdicts=UNGRADED)] * 15
    left_out = "15 rows left out: they could not be graded."
    parts = ["No answer could be graded.", *["5 rows failed."] * (failed == 5), left_out]
    check_no_number(results_of(example, [*responses, *[None] * failed]), " ".join(parts))


def test_a_second_judge_keeps_its_number() -> None:
    example = next(one for one in SCORED if one.rubric == "judge.Verdict")
    second = {"judge": "other", "verdict": "CORRECT", "score": 1.0, "reason": "", "error": None}
    results = results_of(example, [says(example, "Paris", verdicts=[*UNGRADED, second])] * 15)
    values = {metric.name: metric.estimate.value for metric in results.metrics}
    assert values == {"verdict": None, "second": 1.0}


@every
def test_one_answer_that_is_read_makes_a_number(example: Example) -> None:
    """The one may be wrong: then the number is 0."""
    unread = [None, *[says(example, text) for text in ("", *UNREADABLE.get(example.rubric, ()))]] * 5
    for text in (example.right, example.wrong) if example.decides else (example.right,):
        results = results_of(example, [*unread, says(example, text)])
        assert results.metrics[0].estimate.value is not None
        assert not results.headline.startswith("No ")


def test_an_empty_answer_that_is_right_makes_a_number() -> None:
    example = Example("text.ExactMatch", row={"target": ""})
    assert results_of(example, [says(example, "")] * 5).metrics[0].estimate.value == 1.0


ENDS: dict[str, tuple[Callable[[], web.Response], str]] = {
    "every row is too long": (
        lambda: web.json_response({"error": {"message": "the prompt is too long"}}, status=400),
        "No row was answered. 20 rows failed.",
    ),
    "every row is filtered": (
        lambda: web.json_response(
            {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
        ),
        "No row was answered: every answer is empty.",
    ),
    "every answer is empty": (
        lambda: make_ended_answer("stop", ""),
        "No row was answered: every answer is empty.",
    ),
    "thoughts alone": (
        lambda: make_ended_answer("length", "<think>Let me see."),
        "No row was answered: every answer is empty.",
    ),
}


@pytest.mark.parametrize("name", ENDS)
async def test_where_no_row_was_answered_it_is_said_everywhere(tmp_path: Path, name: str) -> None:
    prompts, (answer, headline) = write_prompts(tmp_path / "p.parquet"), ENDS[name]
    rubrics = (RubricSpec("exact-match"), RubricSpec("overlap.Bleu"))
    for folder, reply in (("run", lambda _: answer()), ("other", lambda prompt: prompt)):
        async with endpoint(reply) as server:
            result = await run(make_request(prompts, server.url, rubrics=rubrics), tmp_path / folder)
        if folder == "run":
            assert [said for _, said in result.headlines] == [headline, headline]
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"<h1>{headline}</h1>" in page
    numbers = orjson.loads((tmp_path / "run" / "report.json").read_bytes())
    assert [metric["value"] for metric in numbers["metrics"]] == [None]
    shown = run_text.summary(open_run(tmp_path / "run"))
    assert headline in shown
    assert "0 %" not in shown
    assert "0 %" not in page
    for pair in (["run", "other"], ["other", "run"]):
        with pytest.raises(UsageError, match=r"run: has no number .*No row was answered"):
            compare_runs([tmp_path / folder for folder in pair])
