"""Tasks of lm-eval's without lm-eval: names, requests, the rubric over its results, the message where it is missing.

`make test-engines` runs lm-eval itself and compares every number.
"""

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import orjson
import pyarrow as pa
import pytest

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.comparison.reports import Comparison, ScoredReport, compare
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.results import Answer, Results
from steelyard_evaluation.report.rubrics import find_rubric
from steelyard_evaluation.report.scoring import summarise
from steelyard_evaluation.report.status import count_statuses, with_resolved_status
from steelyard_evaluation.runs.lm_eval import process
from steelyard_evaluation.runs.lm_eval.documents import find_shares, make_document, share_bounds
from steelyard_evaluation.runs.lm_eval.model import _Messages, _prompt, generation_settings
from steelyard_evaluation.runs.lm_eval.process import CannotReplay, check_prompts, prompt_digest
from steelyard_evaluation.runs.lm_eval.results import _members
from steelyard_evaluation.runs.lm_eval.rubric import NO_ANSWER, Task
from steelyard_evaluation.runs.lm_eval.task_name import TaskName, parse_name
from steelyard_evaluation.runs.lm_eval.tasks import check_asked_whole, task_request
from steelyard_evaluation.runs.request import RubricSpec, RunRequest, SourceSpec


def test_a_name_may_have_arguments_and_its_rubric_keeps_them() -> None:
    name = parse_name(
        "lm_eval:arc_easy?num_fewshot=5&limit=100&chat=true&include_path=/a b&max_failed=0.2&prefix_token_id=0"
    )
    assert name == TaskName("arc_easy", "/a b", 5, 100, True, 0.2, 0)
    rubric = find_rubric(name.reference)
    assert isinstance(rubric, Task)
    assert rubric.name == name
    for arguments in ("num_fewshot=0", "max_failed=0", "max_failed=1", "max_length=9"):
        other = parse_name(f"lm_eval:x?{arguments}")
        rubric = find_rubric(other.reference)
        assert isinstance(rubric, Task)
        assert rubric.name == other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arc_easy", "should be lm_eval:NAME"),
        ("lm_eval:", "should name a task"),
        (
            "lm_eval:a?shots=3",
            "there is no argument 'shots'; there are include_path, num_fewshot, limit, chat, max_",
        ),
        ("lm_eval:a?limit=²", "limit=² should be a whole number"),
        ("lm_eval:a?limit=few", "limit=few should be a whole number"),
        ("lm_eval:a?chat=yes", "chat=yes should be true or false"),
        ("lm_eval:a?max_failed=5%", "max_failed=5% should be a number from 0 to 1"),
        ("lm_eval:a?max_failed=5", "max_failed=5 should be a number from 0 to 1"),
    ],
)
def test_a_wrong_name_is_reported(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_name(text)
    assert str(raised.value).startswith(f"--task {text}: ")
    assert message in str(raised.value)


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is not None, reason="lm-eval is here")
def test_without_lm_eval_one_line_says_how_to_have_it() -> None:
    message = "lm-eval is not installed here: pip install 'lm-eval==0.4.13' (next to steelyard)"
    with pytest.raises(UsageError) as raised:
        task_request("lm_eval:arc_easy")
    assert str(raised.value) == f"--task lm_eval:arc_easy: {message}"
    with pytest.raises(UsageError, match="not installed"):
        process.replay(TaskName("arc_easy"), [], [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replications": 2}, "--replications 2: lm-eval's tasks say themselves"),
        ({"source": SourceSpec("x.jsonl", limit=5)}, "--limit 5: would leave out requests"),
        ({"source": SourceSpec("x.jsonl", sample=5)}, "--sample 5: would leave out requests"),
    ],
)
def test_what_could_not_be_scored_is_refused_before_it_is_paid(changes: JsonValue, message: str) -> None:
    whole = RunRequest(SourceSpec("x.jsonl"), "m", (), rubrics=(RubricSpec("lm_eval.Task?task=x"),))
    check_asked_whole(whole)
    with pytest.raises(UsageError, match=message):
        check_asked_whole(replace(whole, **changes))


def test_a_group_has_the_tasks_of_the_groups_in_it() -> None:
    groups = {"all": ["some", "c"], "some": ["a", "b"]}
    assert _members("all", ["a", "b", "c"], groups) == ["a", "b", "c"]
    assert _members("some", ["a", "b", "c"], groups) == ["a", "b"]
    assert _members("a", ["a", "b", "c"], groups) == ["a"]


def test_all_stops_of_a_task_stay() -> None:
    stops = ["a", "b", "c", "d", "e", "f"]
    sent = generation_settings({"until": stops, "max_gen_toks": 9, "do_sample": False})
    assert sent == {"max_tokens": 9, "temperature": 0, "seed": 1234, "stop": stops}
    assert generation_settings({"until": "\n"})["stop"] == ["\n"]


def test_only_a_chat_template_makes_messages() -> None:
    text = '[{"role": "user", "content": "x"}]'
    assert _prompt(text, "t", chat=False) == text
    assert _prompt(_Messages(text), "t", chat=True) == [{"role": "user", "content": "x"}]
    with pytest.raises(UsageError, match="leave out chat=true"):
        _prompt(text, "t", chat=True)


@pytest.mark.parametrize(
    ("digests", "message"),
    [
        (
            [prompt_digest("a"), prompt_digest("b"), prompt_digest("c")],
            "3 requests were asked; lm-eval builds 2 here",
        ),
        ([None, prompt_digest("b")], "request 0 of lm-eval was not asked"),
        ([prompt_digest("a")], "request 1 of lm-eval was not asked"),
        ([prompt_digest("a"), prompt_digest("a")], "row 1: lm-eval builds another request here"),
    ],
)
def test_answers_to_other_requests_are_refused(digests: list[str | None], message: str) -> None:
    with pytest.raises(CannotReplay) as raised:
        check_prompts(TaskName("x"), ["a", "b"], digests)
    assert message in str(raised.value)
    check_prompts(TaskName("x"), ["a", "b"], [prompt_digest("a"), prompt_digest("b")])


# A task of four documents with two choices each: of each document's requests the first row bears its score.

CHOICES = 2


def kept(value: float, **changes: JsonValue) -> str:
    tokens = {"tokens": ["x"], "logprobs": [value], "tops": [value], "context_tokens": 3, "inside": False}
    return orjson.dumps(tokens | changes).decode()


def answers(right: list[bool | None]) -> list[Answer]:
    """Two rows for each document; None: the second of them got no answer."""
    rows = []
    for document, was in enumerate(right):
        for choice in range(CHOICES):
            likely = -1.0 if (choice == 0) is bool(was) else -2.0
            said = None if was is None and choice == 1 else [{"text": kept(likely)}]
            row = {
                "prompt": f"{document} {choice}",
                "kind": "loglikelihood",
                "task": "x",
                "document": document,
            }
            rows.append(Answer(document * CHOICES + choice, "r", row, said))
    return rows


class LoadedTask:
    """A task of lm-eval's, as far as it is looked at."""

    def higher_is_better(self) -> dict[str, bool]:
        return {"acc": True}


@dataclass
class DoubleOfLmEval:
    """Scores documents as lm-eval's multiple choice does, gold first, without those that lack an answer."""

    documents: int

    def results(self, given: list[JsonValue], digests: list[str | None]) -> dict[str, JsonValue]:
        pairs = [given[start : start + CHOICES] for start in range(0, len(given), CHOICES)]
        samples: list[JsonValue] = [
            {
                "doc_id": number,
                "filter": "none",
                "metrics": ["acc"],
                "acc": float(pair[0][0] > pair[1][0]),
                "target": 0,
                "arguments": [("Q", " yes"), ("Q", " no")],
                "filtered_resps": [tuple(answer) for answer in pair],
            }
            for number, pair in enumerate(pairs)
            if None not in pair
        ]
        size = len(samples)
        mean = sum(sample["acc"] for sample in samples) / size if size else None
        numbers = {"sample_len": size, **({} if mean is None else {"acc,none": mean, "acc_stderr,none": 0.1})}
        results = {"x": numbers}
        loaded = {"tasks": {"x": LoadedTask()}, "groups": {}}
        shares = find_shares(loaded["tasks"], {"x": samples}, results)
        by_number = {sample["doc_id"]: sample for sample in samples}
        rows = [list(range(CHOICES * number, CHOICES * (number + 1))) for number in range(len(pairs))]
        failed = len(pairs) - size
        return {
            "results": {"results": results, "n-samples": {"x": {"effective": size}}},
            "shares": shares,
            "bounds": share_bounds(results, loaded, shares, {"x": failed} if failed else {}),
            "documents": [
                make_document(
                    ("x", number), (several, "yes"), [*filter(None, [by_number.get(number)])], results, shares
                )
                for number, several in enumerate(rows)
            ],
        }


def scores(right: list[bool | None], rubric: Task | None = None) -> pa.Table:
    """Return the rubric's scores for these answers."""
    rubric = rubric or Task("x")
    process._waiting[rubric.name] = DoubleOfLmEval(len(right))  # type: ignore[assignment]
    rows = [
        {
            "_index_": answer.index,
            "_replication_": "r",
            **with_resolved_status(rubric, answer, rubric.score(answer)),
        }
        for answer in answers(right)
    ]
    keys = [pa.field("_index_", pa.int64()), pa.field("_replication_", pa.string())]
    schema = pa.schema([*keys, *rubric.scores, pa.field("status", pa.string())])
    schema = schema.with_metadata(rubric.scores.metadata)
    return rubric.together(pa.Table.from_pylist(rows, schema))


def results(right: list[bool | None], **changes: JsonValue) -> Results:
    rubric = replace(Task("x"), **changes)
    return summarise(rubric, scores(right, rubric))


def test_the_score_of_a_document_stands_at_the_first_row_of_its_requests() -> None:
    table = scores([True, False, True, None])
    assert table["_index_"].to_pylist() == [0, 2, 4, 6]
    assert table["score"].to_pylist() == [1.0, 0.0, 1.0, 0.0]
    assert table["correct"].to_pylist() == [True, False, True, False]
    assert table["prediction"].to_pylist() == ["yes", "no", "yes", None]
    assert table["metrics"].to_pylist()[:2] == ['{"acc,none":1.0}', '{"acc,none":0.0}']
    assert table["likelihoods"].to_pylist()[0] == [-1.0, -2.0]
    assert table["fault"].to_pylist() == [None, None, None, NO_ANSWER]
    counts = count_statuses(table)
    assert (counts.scored, counts.failed, counts.left_out, counts.noun) == (3, 1, 0, "document")


@pytest.mark.parametrize(
    ("token", "said", "prediction"),
    [
        ("", "<think>4?</think>5", "5"),
        ("", "<think>4?", ""),
        ("</think>", "4?</think>no, 3?</think>\n 5", "5"),
        ("<|done|>", "It is 4?<|done|>5", "5"),
        ("<|done|>", "<think>4?</think>5", "5"),
        ("<|done|>", "5", "5"),
    ],
)
def test_thoughts_are_no_part_of_what_lm_eval_scores(token: str, said: str, prediction: str) -> None:
    row = {"prompt": "2 + 3?", "kind": "generate_until", "task": "x", "document": 0}
    name = parse_name(f"lm_eval:x?think_end_token={quote(token)}")
    assert name.think_end_token == token
    rubric = find_rubric(name.reference)
    assert rubric.score(Answer(0, "r", row, [{"text": said}]))["prediction"] == prediction


def test_silence_scores_nothing() -> None:
    """Gold first, the second choice refused: as "most unlikely" each of these would have been right."""
    report = results([False, False, None, None], max_failed=0.5)
    lead = report.metrics[0].estimate
    assert (lead.value, lead.n) == (0.0, 4)
    assert report.bounds is not None
    assert (report.bounds.all_failed_wrong, report.bounds.all_failed_right) == (0.0, 0.5)
    assert "2 documents failed, counted as wrong: 50.0 % if all were right." in report.headline


@pytest.mark.parametrize(("failed", "there"), [(1, True), (2, False)])
def test_above_a_share_of_failed_documents_there_is_no_number(failed: int, there: bool) -> None:
    report = results([True] * (10 - failed) + [None] * failed, max_failed=0.1)
    assert (report.metrics[0].estimate.value is not None) is there
    assert ("has no number: 2 of 10 documents failed" in report.headline) is not there
    assert report.bounds is not None
    assert report.bounds.all_failed_right == 1.0
    assert report.tables[0].rows == ((NO_ANSWER, failed),)


def test_where_nothing_was_answered_there_is_no_number_and_no_error() -> None:
    report = results([None, None])
    assert report.metrics[0].estimate.value is None
    assert report.headline == "No row was answered. 2 documents failed."


@pytest.mark.parametrize(
    ("said", "metrics", "unread"),
    [
        ("[invalid]", '{"exact_match,strict": 0.0}', True),
        ("[invalid]", '{"exact_match,strict": 0.0, "exact_match,flexible": 0.0}', False),
        ("[invalid]", None, True),
        ("5", '{"exact_match,strict": 0.0}', False),
    ],
)
def test_what_the_only_filter_finds_nothing_in_is_not_read(
    said: str, metrics: str | None, unread: bool
) -> None:
    table = pa.table({"prediction": [said], "metrics": pa.array([metrics], pa.string())})
    assert Task("x").unread(table) == [unread]


@pytest.mark.parametrize(("right", "value"), [([True] * 5, 1.0), ([False] * 5, 0.0)])
def test_an_interval_is_never_a_point(right: list[bool | None], value: float) -> None:
    estimate = results(right).metrics[0].estimate
    assert estimate.value == value
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.high - estimate.low > 0.3


def test_a_document_counts_once_however_many_requests_it_has() -> None:
    report = results([True, False, True, True])
    assert report.metrics[0].estimate.n == 4
    assert "4 questions" in "".join(report.limits)


def test_two_runs_are_compared_by_documents() -> None:
    one, other = scores([True, True, False, False, None]), scores([True, True, True, False, True])
    comparison = compare(
        ScoredReport("lm_eval.Task?task=x", (), "", one), ScoredReport("lm_eval.Task?task=x", (), "", other)
    )
    assert isinstance(comparison, Comparison)
    assert (comparison.questions, comparison.not_compared) == (5, 0)
    assert (comparison.baseline.value, comparison.system.value) == (0.4, 0.8)


def test_a_border_inside_a_token_is_reported() -> None:
    row = {"prompt": "p", "kind": "loglikelihood", "task": "x", "document": 0}
    row_score = Task("x").score(Answer(0, "r", row, [{"text": kept(-1.0, context_tokens=None, inside=True)}]))
    assert row_score["inside_token"] is True
    counted = Task("x").score(Answer(0, "r", row, [{"text": kept(-1.0, inside=True)}]))
    assert counted["inside_token"] is False


@pytest.mark.parametrize(
    "text",
    ['{"fault": "the tokens do not spell the continuation"}', kept(-1.0, logprobs=[None])],
)
def test_what_is_no_likelihood_is_a_fault_with_its_reason(text: str) -> None:
    row = {"prompt": "p", "kind": "loglikelihood", "task": "x", "document": 0}
    row_score = Task("x").score(Answer(0, "r", row, [{"text": text}]))
    assert row_score["likelihoods"] == []
    assert row_score["fault"]


def test_tasks_of_ones_own_are_files_that_a_number_depends_on(tmp_path: Path) -> None:
    for name in ("task.yaml", "sub/utils.py", "__pycache__/utils.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    named = [Path(path).relative_to(tmp_path).as_posix() for path in Task("t", str(tmp_path)).files]
    assert named == ["sub/utils.py", "task.yaml"]
    assert Task("t").files == ()


def test_a_process_that_has_ended_says_why_although_its_answers_were_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    lm_eval = process.LmEval(TaskName("x"))
    lm_eval._process.kill()
    lm_eval._process.wait()
    # Few enough to stay in the buffer, which is sent again when the pipe is closed.
    with pytest.raises(ReportFailed, match="lm-eval ended: exit status -9"):
        lm_eval.results(["answer"], [None])
