"""Status of the rows of scores: what it follows from, and what all numbers make of it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Bounds, Counts
from steelyard_evaluation.report.rubrics.judge import Verdict
from steelyard_evaluation.report.rubrics.overlap import Rouge
from steelyard_evaluation.report.rubrics.rows import schema
from steelyard_evaluation.report.rubrics.text import ExactMatch
from steelyard_evaluation.report.scoring import summarise
from steelyard_evaluation.report.status import (
    count_statuses,
    row_noun,
    score_values,
    with_resolved_status,
    with_status,
    without_left_out,
    wrong_rows,
)

ROW = {"target": "x"}


def make_scores(*rows: tuple[float | None, bool | None, str]) -> pa.Table:
    """A table of scores with these scores, correctness and statuses."""
    return pa.table(
        {
            "_index_": pa.array(range(len(rows)), pa.int64()),
            "_replication_": pa.array(["r0"] * len(rows)),
            "score": pa.array([score for score, _, _ in rows], pa.float64()),
            "label": pa.array(["x"] * len(rows)),
            "prediction": pa.array([None if status == "failed" else "y" for *_, status in rows], pa.string()),
            "correct": pa.array([correct for _, correct, _ in rows], pa.bool_()),
            "status": pa.array([status for *_, status in rows]),
        }
    )


@dataclass(frozen=True)
class Strange(ExactMatch):
    """A rubric that gives every answer, and silence, these columns."""

    gives: ClassVar[Json] = {"score": 1.0, "label": "x", "prediction": None, "correct": True}

    def score(self, answer: Answer) -> Json:
        return dict(self.gives)


@dataclass(frozen=True)
class Documents(Strange):
    """A rubric that knows the status itself."""

    gives: ClassVar[Json] = {**Strange.gives, "status": "left out"}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param([{"text": "x"}], ("scored", 1.0, True), id="an answer is scored"),
        pytest.param([{"text": ""}], ("scored", 0.0, False), id="an empty answer is one"),
        pytest.param([{"text": None}], ("failed", 0.0, False), id="a text of null is none"),
        pytest.param([], ("failed", 0.0, False), id="no response failed"),
        pytest.param(None, ("failed", 0.0, False), id="a row that was given up failed"),
    ],
)
def test_status_follows_from_the_answer(answer: list[Json] | None, status: tuple[str, float, bool]) -> None:
    rubric, given = ExactMatch(), Answer(0, "r0", ROW, answer)
    row = with_resolved_status(rubric, given, rubric.score(given))
    assert (row["status"], row["score"], row["correct"]) == status


def test_an_answer_without_a_grade_is_left_out_and_neither_right_nor_wrong() -> None:
    unread = {"judge": "a", "verdict": None, "score": None, "reason": "Hm.", "error": "no verdict"}
    answer = Answer(0, "r0", ROW, [{"text": "y", "verdicts": [unread]}])
    row = with_resolved_status(Verdict(), answer, Verdict().score(answer))
    assert (row["status"], row["score"], row["correct"]) == ("left out", None, None)


def test_silence_earns_nothing_whatever_a_rubric_says() -> None:
    silent = Answer(0, "r0", ROW, None)
    row = with_resolved_status(Strange(), silent, Strange().score(silent))
    assert (row["status"], row["score"], row["correct"]) == ("failed", 0.0, False)


def test_a_rubric_may_say_the_status_itself() -> None:
    answer = Answer(0, "r0", ROW, [{"text": "x"}])
    row = with_resolved_status(Documents(), answer, Documents().score(answer))
    assert (row["status"], row["score"], row["correct"]) == ("left out", None, None)


def test_an_older_column_of_this_name_is_no_status() -> None:
    answer = Answer(0, "r0", ROW, [{"text": "x"}])
    assert (
        with_resolved_status(ExactMatch(), answer, {**ExactMatch().score(answer), "status": "200 OK"})[
            "status"
        ]
        == "scored"
    )


def test_a_share_is_of_scored_and_failed_rows() -> None:
    scores = make_scores(*[(1.0, True, "scored")] * 5, (0.0, False, "scored"), *[(0.0, False, "failed")] * 2)
    scores = pa.concat_tables([scores, make_scores(*[(None, None, "left out")] * 4)])
    results = summarise(ExactMatch(), scores)
    assert results.counts == Counts(scored=6, failed=2, left_out=4)
    assert results.counts.present == scores.num_rows
    assert (results.metrics[0].estimate.value, results.metrics[0].estimate.n) == (5 / 8, 8)
    assert results.bounds == Bounds(5 / 8, 7 / 8)
    assert results.headline.endswith(
        "2 rows failed, counted as wrong: 87.5 % if all were right. 4 rows left out: they could not be graded."
    )


def test_where_all_is_scored_the_headline_says_no_more_than_before() -> None:
    results = summarise(ExactMatch(), make_scores(*[(1.0, True, "scored")] * 4))
    assert results.headline.startswith("Of 4 answers, 100 % were right")
    assert results.headline.endswith(").")
    assert results.bounds is None


def test_wrong_answers_are_those_that_were_scored() -> None:
    scores = make_scores(
        (1.0, True, "scored"), (0.0, False, "scored"), (0.0, False, "failed"), (None, None, "left out")
    )
    assert wrong_rows(scores).to_pylist() == [False, True, False, False]
    assert without_left_out(scores)["status"].to_pylist() == ["scored", "scored", "failed"]
    np.testing.assert_array_equal(score_values(scores), [1.0, 0.0, 0.0, np.nan])


def test_scores_of_earlier_versions_have_the_status_that_follows_from_them() -> None:
    scores = make_scores((1.0, True, "scored"), (0.0, False, "failed"), (None, None, "left out"))
    assert with_status(scores.drop_columns(["status"]))["status"].to_pylist() == scores["status"].to_pylist()


def test_a_failed_row_has_no_score_above_nothing() -> None:
    more = schema(*((f"rouge{variant}", pa.float64()) for variant in "12L"))
    assert Rouge().scores == more
    assert score_values(make_scores((1.0, False, "failed"), (-2.0, False, "failed"))).tolist() == [0.0, -2.0]


def test_what_a_row_of_scores_is_stands_in_the_file() -> None:
    scores = make_scores((1.0, True, "scored"))
    assert row_noun(scores) == "question"
    assert row_noun(scores.replace_schema_metadata({"unit": "document"})) == "document"
    assert count_statuses(scores) == Counts(1, 0, 0)
