"""Tests of a comparison of two tables of scores, row by row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_evaluation.report.comparison.reports import (
    MOST_SHOWN,
    ChangedQuestion,
    Comparison,
    Contingency,
    NotComparable,
    ScoredReport,
    compare,
    comparison_numbers,
)
from steelyard_evaluation.report.page.page import numbers_json
from steelyard_evaluation.report.results import Counts as RowCounts

Answers = dict[int, list[str | None]]
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("_index_", pa.int64()),
    ("label", pa.string()),
    ("prediction", pa.string()),
    ("correct", pa.bool_()),
]


def scored(answers: Answers, truth: str = "a", **changes: Any) -> ScoredReport:
    """Scores of a system that gave these answers to each question; the truth is `a` everywhere."""
    rows = [
        {"_index_": index, "label": truth, "prediction": said, "correct": said == truth}
        for index, texts in answers.items()
        for said in texts
    ]
    base = ScoredReport("classification", ("d1",), "", pa.Table.from_pylist(rows, pa.schema(_COLUMNS)))
    return replace(base, **changes)


def compared(baseline: Answers, system: Answers) -> Comparison:
    comparison = compare(scored(baseline), scored(system))
    assert isinstance(comparison, Comparison)
    return comparison


def test_every_question_falls_on_one_side() -> None:
    comparison = compared(
        {1: ["a"], 2: ["a"], 3: ["b"], 4: ["b"], 5: ["b"], 6: [None]},
        {1: ["a"], 2: ["b"], 3: ["a"], 4: ["c"], 5: ["b"], 6: ["b"]},
    )
    assert comparison.contingency == Contingency(both_right=1, only_baseline=1, only_system=1, both_wrong=3)
    assert {change.kind: change.shown for change in comparison.changes} == {
        "worse": (ChangedQuestion(2, "a", "a", "b"),),
        "better": (ChangedQuestion(3, "a", "b", "a"),),
        "otherwise": (ChangedQuestion(4, "a", "b", "c"), ChangedQuestion(6, "a", "(no answer)", "b")),
    }
    assert (comparison.baseline.value, comparison.system.value, comparison.difference.value) == (
        2 / 6,
        2 / 6,
        0,
    )


def test_replications_are_one_question() -> None:
    comparison = compared({1: ["a", "b"], 2: ["a", "a"]}, {1: ["a", "a", "a"], 2: ["c", "a", "b"]})
    assert comparison.questions == comparison.difference.n == 2
    assert comparison.difference.value == pytest.approx((1 / 2 - 2 / 3) / 2)
    assert comparison.contingency == Contingency(both_right=0, only_baseline=1, only_system=1, both_wrong=0)
    worse, better, _ = comparison.changes
    assert worse.shown == (ChangedQuestion(2, "a", "a", "a (1 of 3), b (1 of 3), c (1 of 3)"),)
    assert better.shown == (ChangedQuestion(1, "a", "a (1 of 2), b (1 of 2)", "a"),)


def test_only_questions_asked_of_both_count() -> None:
    comparison = compared({1: ["a"], 2: ["b"], 3: ["b"]}, {2: ["a"], 3: ["b"], 4: ["b"]})
    assert (comparison.questions, comparison.not_compared) == (2, 2)
    assert (comparison.baseline.value, comparison.system.value) == (0, 0.5)


def test_what_is_shown_is_bounded_and_the_total_is_said() -> None:
    many = range(MOST_SHOWN + 5)
    comparison = compared({k: ["a"] for k in many}, {k: ["b"] for k in many})
    worse = comparison.changes[0]
    assert (worse.total, len(worse.shown)) == (MOST_SHOWN + 5, MOST_SHOWN)
    assert [row.index for row in worse.shown] == list(range(MOST_SHOWN))


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"data": ("d2",)}, "different data: SHA-256 d1… earlier, d2… now"),
        ({"data": ("d1", "d2")}, "different data"),
        ({"rubric": "other"}, "made by the rubric classification, this one by other"),
        ({"view": "[]"}, "different views"),
        ({"truth": "b"}, 'row 1 should be "a" in the earlier report and "b" in this one'),
        ({"answers": {2: ["a"]}}, "no question was asked of both"),
    ],
    ids=["data", "more data", "rubric", "view", "truth", "questions"],
)
def test_what_differs_in_kind_gets_a_word_and_no_number(changes: dict[str, Any], because: str) -> None:
    comparison = compare(scored({1: ["a"]}), scored(**{"answers": {1: ["a"]}, **changes}))
    assert isinstance(comparison, NotComparable)
    assert because in comparison.reason
    assert set(comparison_numbers(comparison)) == {"comparable", "because"}


Side = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=3), min_size=6, max_size=6
)


@settings(deadline=None)
@given(Side, Side, st.randoms())
def test_the_order_of_rows_says_nothing_and_the_other_way_round_it_is_the_opposite(
    baseline: list[list[str | None]], system: list[list[str | None]], chances: Any
) -> None:
    before, now = dict(enumerate(baseline)), dict(enumerate(system))
    comparison, opposite = compared(before, now), compared(now, before)
    items = list(now.items())
    chances.shuffle(items)
    assert compared(before, {k: chances.sample(said, len(said)) for k, said in items}) == comparison
    assert opposite.difference.value == pytest.approx(-comparison.difference.value)  # type: ignore[operator]
    assert opposite.p_value == comparison.p_value
    assert opposite.contingency.only_system == comparison.contingency.only_baseline
    assert (
        comparison.contingency.both_right
        + comparison.contingency.both_wrong
        + comparison.contingency.only_system
        <= comparison.questions
    )
    numbers_json(comparison_numbers(comparison))


def graded(scores: Sequence[float | None], clusters: list[int] | None = None) -> ScoredReport:
    """A system whose answers got these scores; full marks are right."""
    columns = {
        "_index_": pa.array(range(len(scores)), pa.int64()),
        "label": ["a"] * len(scores),
        "prediction": [f"worth {score}" for score in scores],
        "correct": [score == 1 for score in scores],
        "score": pa.array(scores, pa.float64()),
    }
    if clusters:
        columns["_cluster_"] = pa.array(clusters, pa.int64())
    return scored({}, scores=pa.table(columns), scale=(0.0, 1.0))


def test_scores_between_right_and_wrong_are_compared_as_numbers() -> None:
    comparison = compare(graded([0.5, 0.0, 1.0, 0.25]), graded([0.75, 0.0, 1.0, 1.0]))
    assert isinstance(comparison, Comparison)
    assert (comparison.binary, comparison.differ, comparison.difference.value) == (False, 2, 0.25)
    assert comparison.p_value.p is not None
    assert comparison.p_value.p > 0.5
    assert comparison.p_value.method == "Gaffke's test of a mean on a scale (2 questions differ)"
    assert [(change.kind, change.indexes) for change in comparison.changes] == [
        ("worse", ()),
        ("better", (3, 0)),
        ("otherwise", ()),
    ]


def test_scores_without_a_scale_have_neither_interval_nor_test() -> None:
    one, other = graded([0.5, 0.0, 1.0, 0.25]), graded([0.75, 0.0, 1.0, 1.0])
    for baseline, system in (
        (replace(one, scale=None), replace(other, scale=None)),
        (one, replace(other, scale=(0.0, 0.5))),
    ):
        comparison = compare(baseline, system)
        assert isinstance(comparison, Comparison)
        assert (comparison.difference.value, comparison.difference.low, comparison.p_value.p) == (
            0.25,
            None,
            None,
        )
        assert "without a scale" in comparison.difference.method
        assert "without a scale" in comparison.p_value.method


def test_full_marks_or_none_are_compared_as_right_and_wrong() -> None:
    comparison = compare(graded([1.0, 0.0, 1.0]), graded([1.0, 1.0, 1.0]))
    assert isinstance(comparison, Comparison)
    assert comparison.binary
    assert comparison.p_value.method == "McNemar's exact test (1 question differs)"


def test_a_question_without_a_score_on_one_side_is_left_out() -> None:
    comparison = compare(graded([0.5, None, 0.5]), graded([0.5, 0.5, 0.75]))
    assert isinstance(comparison, Comparison)
    assert (comparison.questions, comparison.not_compared) == (2, 1)
    assert comparison.difference.value == pytest.approx(0.125)


def test_questions_of_a_cluster_count_as_one() -> None:
    before, now = [0.0] * 12, [1.0] * 6 + [0.0] * 6
    apart = compare(graded(before), graded(now))
    together = compare(graded(before), graded(now, [0] * 6 + [1, 2, 3, 4, 5, 6]))
    assert isinstance(apart, Comparison)
    assert isinstance(together, Comparison)
    assert (apart.clusters, together.clusters) == (None, 7)
    assert apart.p_value.p == pytest.approx(2 / 2**6)
    assert together.p_value.p == 1.0
    assert together.difference.low < 0 < apart.difference.low  # type: ignore[operator]


def judged(*statuses: str) -> ScoredReport:
    """A system with one row for each of these: right, wrong, failed or left out."""
    worth = {"right": 1.0, "wrong": 0.0, "failed": 0.0, "left out": None}
    correct = {"right": True, "wrong": False, "failed": False, "left out": None}
    columns = {
        "_index_": pa.array(range(len(statuses)), pa.int64()),
        "label": ["a"] * len(statuses),
        "prediction": pa.array([None if status == "failed" else status for status in statuses], pa.string()),
        "correct": pa.array([correct[status] for status in statuses], pa.bool_()),
        "score": pa.array([worth[status] for status in statuses], pa.float64()),
        "status": [status if status in {"failed", "left out"} else "scored" for status in statuses],
    }
    return scored({}, scores=pa.table(columns))


def test_an_answer_that_could_not_be_graded_is_not_wrong() -> None:
    """A report of these says 55.0 % of 160; the comparison said 44.0 % of 200."""
    one = judged(*["right"] * 88, *["wrong"] * 72, *["left out"] * 40)
    comparison = compare(one, one)
    assert isinstance(comparison, Comparison)
    assert (comparison.questions, comparison.not_compared) == (160, 40)
    assert comparison.baseline.value == comparison.system.value == 0.55
    assert comparison.baseline_rows == comparison.system_rows == RowCounts(scored=160, failed=0, left_out=40)


def test_a_row_that_failed_is_compared_as_wrong() -> None:
    comparison = compare(judged("right", "right", "left out"), judged("right", "failed", "right"))
    assert isinstance(comparison, Comparison)
    assert (comparison.questions, comparison.not_compared) == (2, 1)
    assert (comparison.baseline.value, comparison.system.value) == (1.0, 0.5)
    assert comparison.system_rows == RowCounts(scored=2, failed=1, left_out=0)


def test_rows_of_questions_that_one_side_was_not_asked_are_not_counted() -> None:
    one, other = judged("right", "failed"), judged("right", "right", "failed", "left out")
    comparison = compare(one, other)
    assert isinstance(comparison, Comparison)
    assert comparison.baseline_rows == RowCounts(scored=1, failed=1, left_out=0)
    assert comparison.system_rows == RowCounts(scored=2, failed=0, left_out=0)


def test_scores_that_are_all_0_on_a_wider_scale_are_not_right_or_wrong() -> None:
    sides = []
    for wrong in ("b", "c"):
        side = scored({index: [wrong] for index in range(20)}, scale=(0.0, 100.0))
        sides.append(replace(side, scores=side.scores.append_column("score", pa.array([0.0] * 20))))
    comparison = compare(*sides)
    assert isinstance(comparison, Comparison)
    assert not comparison.binary
