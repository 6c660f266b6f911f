"""Numbers of a report count what they say: answered rows, rows of both judges, questions of groups, answers."""

from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard_evaluation.report.results import Answer, Metric, Results
from steelyard_evaluation.report.rubrics import find_rubric
from steelyard_evaluation.report.rubrics.judge import Verdict
from steelyard_evaluation.report.rubrics.overlap import Bleu
from steelyard_evaluation.report.scoring import summarise
from steelyard_evaluation.report.status import with_resolved_status

STATUSES = ["scored"] * 60 + ["failed"] * 10 + ["left out"] * 30
NUMBERS: dict[str, Any] = {"rouge1": 0.5, "rouge2": 0.5, "rougeL": 0.5, "counts": [4] * 10}
RUBRICS = (
    "choice.MultipleChoice",
    "classification.Classification",
    "judge.Verdict",
    "numeric.Close",
    "overlap.Bleu",
    "overlap.Rouge",
    "text.Contains",
    "text.ExactMatch",
    "text.NormalisedMatch",
    "text.TokenF1",
)
MORE = {"overlap.ChrF", "structure.JsonSchema", "text.Regex", "lm_eval.Task"}
"""Rubrics that share their summary with one above, or, as lm-eval's, score documents."""


def make_scores(rubric: str, statuses: list[str], times: int = 1, **columns: Any) -> pa.Table:
    """Scores of a rubric with these statuses of rows; each question is asked so many times."""
    scores = [{"scored": 1.0, "failed": 0.0, "left out": None}[status] for status in statuses]
    fields = {
        "_index_": pa.array(np.arange(len(statuses)) // times),
        "_replication_": pa.array([str(row % times) for row in range(len(statuses))]),
        "score": pa.array(scores, pa.float64()),
        "label": pa.array(["a"] * len(statuses)),
        "prediction": pa.array([None if status == "failed" else "a" for status in statuses], pa.string()),
        "correct": pa.array([None if score is None else score == 1 for score in scores], pa.bool_()),
        "status": pa.array(statuses),
        **columns,
    }
    for field in find_rubric(rubric).scores:
        if field.name not in fields:
            values = [NUMBERS.get(field.name)] * len(statuses)
            fields[field.name] = pa.array(values, field.type)
    return pa.table(fields)


def metric_of(results: Results, name: str) -> Metric:
    return next(metric for metric in results.metrics if metric.name == name)


def test_every_rubric_is_tried() -> None:
    assert {*RUBRICS, *MORE} == {point.name for point in entry_points(group="steelyard.rubrics")}


@pytest.mark.parametrize("rubric", RUBRICS)
def test_a_row_that_is_left_out_got_an_answer(rubric: str) -> None:
    results = summarise(find_rubric(rubric), make_scores(rubric, STATUSES))
    answered = metric_of(results, "answered")
    assert (answered.estimate.value, answered.estimate.n) == (0.9, 100)
    assert answered.note == "rows that got an answer at all"
    assert "questions asked" not in results.headline


@pytest.mark.parametrize("rubric", RUBRICS)
def test_a_share_of_answers_is_shown_only_where_one_is_missing(rubric: str) -> None:
    results = summarise(find_rubric(rubric), make_scores(rubric, ["scored"] * 20 + ["left out"] * 5))
    assert "answered" not in {metric.name for metric in results.metrics}


def test_both_judges_count_the_same_rows() -> None:
    """Two judges that give the same verdicts have the same grade, whatever failed."""
    rubric = Verdict()
    responses = [
        {"text": "x", "verdicts": [{"judge": judge, "verdict": "good", "score": 1.0} for judge in "ab"]}
    ]
    rows = [
        {"_index_": index, "_replication_": "0"} | with_resolved_status(rubric, answer, rubric.score(answer))
        for index in range(20)
        for answer in (Answer(index, "0", {"target": "t"}, responses if index < 15 else []),)
    ]
    keys = [("_index_", pa.int64()), ("_replication_", pa.string())]
    schema = pa.schema([*keys, *rubric.scores, ("status", pa.string())])
    results = summarise(rubric, pa.Table.from_pylist(rows, schema))
    first, second = results.metrics[0], metric_of(results, "second")
    assert (first.estimate.value, first.estimate.n) == (0.75, 20)
    assert (second.estimate.value, second.estimate.n) == (0.75, 20)


def bleu_scores() -> pa.Table:
    rubric = Bleu()
    texts = [("the cat sat on the mat", 8.0), ("no", 0.0), ("a dog ran over the hill again", 30.0)] * 8
    rows = []
    for index, (text, _) in enumerate(texts):
        target = {"target": "the cat sat on the mat over the hill"}
        answer = Answer(index // 2, str(index % 2), target, [{"text": text}])
        rows.append(
            {"_index_": index // 2, "_replication_": str(index % 2), "group:kind": "ab"[index % 3 == 0]}
            | with_resolved_status(rubric, answer, rubric.score(answer))
        )
    keys = [("_index_", pa.int64()), ("_replication_", pa.string())]
    schema = pa.schema([*keys, *rubric.scores, ("status", pa.string()), ("group:kind", pa.string())])
    return pa.Table.from_pylist(rows, schema)


def test_a_mean_of_sentences_is_not_called_bleu() -> None:
    """BLEU is a number of the whole corpus: groups and reducers are means of sentences, and say so."""
    results = summarise(Bleu(), bleu_scores(), ("mean", "best"))
    assert results.metrics[0].name == "bleu"
    reduced = [metric for metric in results.metrics if metric.name.endswith(("_mean", "_best"))]
    assert [metric.title for metric in reduced] == [
        "Mean BLEU of sentences, mean of the answers",
        "Mean BLEU of sentences, best answer",
    ]
    assert results.numbers["meanOfRows"] == {"name": "bleu_sentence", "title": "Mean BLEU of sentences"}
    table = next(table for table in results.tables if table.title == "By kind")
    assert table.columns[2] == "Mean BLEU of sentences"


@pytest.mark.parametrize("rubric", ["text.ExactMatch", "text.TokenF1", "numeric.Close"])
def test_the_mean_of_the_answers_is_the_mean_over_rows_with_one_interval(rubric: str) -> None:
    """One quantity has one interval on a page: four answers to each question count as often in both means."""
    statuses = ["failed" if row % 4 == 0 else "scored" for row in range(80)]
    lead, *_, mean = summarise(find_rubric(rubric), make_scores(rubric, statuses, times=4), ("mean",)).metrics
    assert (mean.name, mean.estimate) == (f"{lead.name}_mean", lead.estimate)


@pytest.mark.parametrize("failed", [0, 3])
def test_reducers_call_rows_without_an_answer_rows(failed: int) -> None:
    statuses = ["failed"] * failed + ["scored"] * (40 - failed)
    scores = make_scores("text.ExactMatch", statuses, times=4)
    reduced = summarise(
        find_rubric("text.ExactMatch"), scores, ("mean", "majority", "best", "pass@2")
    ).metrics[-4:]
    words = "4 rows of each question" if failed else "4 answers to each question"
    assert [metric.note for metric in reduced if not metric.note.endswith(words)] == []


@pytest.mark.parametrize("rubric", RUBRICS)
def test_a_headline_calls_rows_without_an_answer_rows(rubric: str) -> None:
    statuses = ["scored"] * 20 + ["failed"] * 5
    assert "25 rows" in summarise(find_rubric(rubric), make_scores(rubric, statuses)).headline
    whole = summarise(find_rubric(rubric), make_scores(rubric, ["scored"] * 20)).headline
    assert "20 answers" in whole
    assert "row" not in whole


def test_nothing_is_said_of_data_of_which_nothing_was_graded() -> None:
    """A judge may leave out every answer: its verdicts may all be unreadable."""
    kinds = pa.array(["a", "b"] * 5)
    scores = make_scores("judge.Verdict", ["left out"] * 10).append_column("group:kind", kinds)
    results = summarise(Verdict(), scores)
    assert not any("these 0 questions" in limit for limit in results.limits)
    assert not any("The lowest is" in figure.summary for figure in results.figures)


def test_a_group_counts_the_questions_that_have_a_score() -> None:
    kinds = pa.array(["a", "b"] * 10)
    statuses = ["left out" if row in {0, 2, 5} else "scored" for row in range(20)]
    scores = make_scores("text.ExactMatch", statuses).append_column("group:kind", kinds)
    groups = summarise(find_rubric("text.ExactMatch"), scores).numbers["groups"]["kind"]
    assert [(group["value"], group["questions"]) for group in groups] == [("a", 8), ("b", 9)]


def test_reducers_say_how_many_answers_they_count() -> None:
    """One of four answers to a question could not be graded, and three of another."""
    statuses = ["scored"] * 40
    statuses[3] = statuses[5] = statuses[6] = statuses[7] = "left out"
    results = summarise(
        find_rubric("text.ExactMatch"),
        make_scores("text.ExactMatch", statuses, times=4),
        ("mean", "pass@2"),
    )
    notes = {metric.name: metric.note for metric in results.metrics}
    assert notes["exact_match_mean"] == "the mean of 1 to 4 answers to each question"
    assert notes["exact_match_pass@2"] == (
        "a right answer is among 2, drawn from 3 to 4 answers to each question; "
        "1 question left out, with too few answers that have a score"
    )
    assert metric_of(results, "exact_match_pass@2").estimate.n == 9
