"""Tasks of lm-eval's without lm-eval: their names, their rubric, and what is said where it is missing.

`make test-engines` runs lm-eval itself and compares every number.
"""

import importlib.util
from collections.abc import Callable

import orjson
import pytest

from steelyard.errors import UsageError
from steelyard.report.results import Answer, Json
from steelyard.report.rubrics import find_rubric
from steelyard.runs.lm_eval_model import Request, build
from steelyard.runs.lm_eval_replay import CannotReplay, scored
from steelyard.runs.lm_eval_rubric import NoTokens, Task, likelihood_of, metrics_of
from steelyard.runs.lm_eval_tasks import TaskName, parse_name, task_request


def test_a_name_may_have_arguments_and_its_rubric_keeps_them() -> None:
    name = parse_name("lm_eval:arc_easy?num_fewshot=5&limit=100&chat=true&include_path=/a b")
    assert name == TaskName("arc_easy", "/a b", 5, 100, True)
    assert find_rubric(name.reference) == Task("arc_easy", "/a b", 5, 100, True)
    assert find_rubric(parse_name("lm_eval:x?num_fewshot=0").reference) == Task("x", num_fewshot=0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("arc_easy", "should be lm_eval:NAME"),
        ("lm_eval:", "should name a task"),
        (
            "lm_eval:a?shots=3",
            "there is no argument 'shots'; there are include_path, num_fewshot, limit, chat",
        ),
        ("lm_eval:a?limit=few", "limit=few should be a whole number"),
        ("lm_eval:a?chat=yes", "chat=yes should be true or false"),
    ],
)
def test_a_wrong_name_is_told(text: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_name(text)
    assert str(raised.value).startswith(f"--task {text}: ")
    assert told in str(raised.value)


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is not None, reason="lm-eval is here")
def test_without_lm_eval_one_line_says_how_to_have_it() -> None:
    with pytest.raises(UsageError) as raised:
        task_request("lm_eval:arc_easy")
    said = str(raised.value)
    assert (
        said
        == "--task lm_eval:arc_easy: lm-eval is not installed here: pip install 'lm-eval==0.4.13' (beside steelyard)"
    )
    with pytest.raises(UsageError, match="not installed"):
        build(TaskName("arc_easy"))
    with pytest.raises(UsageError, match="not installed"):
        scored(TaskName("arc_easy"), [])


def tokens(offsets: list[int], logprobs: list[float | None], tops: list[float | None]) -> str:
    return orjson.dumps({"offsets": offsets, "logprobs": logprobs, "tops": tops}).decode()


def test_the_likelihood_is_that_of_the_tokens_after_the_context() -> None:
    told = tokens([0, 3, 7, 11], [None, -1.0, -0.5, -9.0], [None, -0.5, -0.5, -9.0])
    assert likelihood_of(told, 7, 0) == (-0.5, True)  # the last token was made by the model
    assert likelihood_of(told, 3, 0) == (-1.5, False)
    assert likelihood_of(told, 5, 0) == (-1.5, False)  # a token over the border belongs to what follows


def test_what_the_endpoint_does_not_tell_is_an_error_that_names_the_row() -> None:
    with pytest.raises(NoTokens, match=r"row 8: .* no token of the continuation"):
        likelihood_of(tokens([0, 3], [None, -1.0], [None, -1.0]), 9, 8)
    with pytest.raises(NoTokens, match=r"row 8: .* no likelihood"):
        likelihood_of(tokens([0, 3], [None, -1.0], [None, -1.0]), 0, 8)


def test_a_share_stays_one_and_what_is_none_is_a_number() -> None:
    numbers = {
        "acc,none": 0.99,
        "acc_stderr,none": 0.02,
        "f1,none": 81.5,
        "brier_score,none": 0.4,
        "alias": "x",
    }
    found = metrics_of({"results": {"x": numbers}})
    assert [(metric.name, metric.unit) for metric in found] == [
        ("x.acc", "share"),
        ("x.f1", "number"),
        ("x.brier_score", "number"),
    ]
    assert found[0].estimate.high == 1.0
    assert found[0].estimate.low == pytest.approx(0.99 - 1.96 * 0.02, abs=1e-4)


def test_a_row_is_scored_by_whether_it_was_answered() -> None:
    row: Json = {"prompt": "Q", "context": 0}
    assert Task("x").score(Answer(0, "r", row, [{"text": "A"}]))["prediction"] == "A"
    assert Task("x").score(Answer(0, "r", row, None))["correct"] is False


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"_index_": 0, "prompt": "a"}, {"_index_": 0, "prompt": "a"}], "leave out --replications"),
        ([{"_index_": 1, "prompt": "a"}], "request 0 of lm-eval was not asked"),
        ([{"_index_": 0, "prompt": "b"}], "row 0: lm-eval builds another request here"),
    ],
)
def test_answers_to_other_requests_are_refused(
    rows: list[Json], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(name: TaskName, answer: Callable[..., object]) -> object:
        return answer(0, Request("generate_until", "x", 0, 0, "a", 0, {}))

    monkeypatch.setattr("steelyard.runs.lm_eval_model.score", score)
    with pytest.raises(CannotReplay) as raised:
        scored(TaskName("x"), rows)
    assert told in str(raised.value)
