"""Several answers to a question, against counting out every draw."""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.results import Metric
from steelyard_evaluation.report.statistics.intervals import Estimate
from steelyard_evaluation.report.statistics.reducers import check_reducers, pass_at_k, reduce_scores

LEAD = Metric("accuracy", "Accuracy", Estimate(0.5, 0.4, 0.6, "test", 10))


def make_scores(*questions: Sequence[tuple[str | None, float | None]]) -> pa.Table:
    """One list of (answer, its score) for each question."""
    rows = [(i, said, score) for i, answers in enumerate(questions) for said, score in answers]
    index, said, score = zip(*rows, strict=True)
    return pa.table(
        {
            "_index_": pa.array(index, pa.int64()),
            "prediction": pa.array(said, pa.string()),
            "score": pa.array(score, pa.float64()),
            "correct": pa.array([value == 1 for value in score], pa.bool_()),
        }
    )


def value(scores: pa.Table, name: str) -> float | None:
    return reduce_scores(scores, LEAD, [name])[0].estimate.value


RIGHT, WRONG = ("8", 1.0), ("3", 0.0)
UNJUDGED = ("5", None)


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_draws_with_a_right_answer(case: tuple[int, int, int]) -> None:
    n, c, k = case
    draws = list(combinations([True] * c + [False] * (n - c), k))
    expected = sum(any(draw) for draw in draws) / len(draws)
    assert pass_at_k(np.array([n]), np.array([c]), k)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(200, 1, 100), (1000, 3, 10), (5000, 50, 10)])
def test_pass_at_k_of_many_answers(n: int, c: int, k: int) -> None:
    expected = 1 - comb(n - c, k) / comb(n, k)
    assert pass_at_k(np.array([n]), np.array([c]), k)[0] == pytest.approx(expected, rel=1e-7)


def test_pass_at_k_is_the_mean_over_questions() -> None:
    scores = make_scores([RIGHT, WRONG, WRONG, WRONG], [RIGHT] * 4, [WRONG] * 4)
    assert value(scores, "pass@2") == pytest.approx((0.5 + 1 + 0) / 3)


def test_pass_at_k_refuses_too_few_answers() -> None:
    with pytest.raises(UsageError, match=r"pass@3: needs at least 3 answers to each question; row 1 has 2"):
        reduce_scores(make_scores([RIGHT] * 3, [RIGHT, WRONG]), LEAD, ["pass@3"])


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([RIGHT, RIGHT, WRONG], 1.0),
        ([RIGHT, WRONG, WRONG], 0.0),
        ([RIGHT, WRONG], 0.5),
        ([RIGHT, WRONG, ("4", 0.0)], 1 / 3),
        ([RIGHT, RIGHT, (None, 0.0)], 1.0),
        ([RIGHT, (None, 0.0)], 0.5),
        ([RIGHT, (None, 0.0), (None, 0.0)], 0.0),
        ([(None, 0.0), (None, 0.0)], 0.0),
        ([("3", 1.0), ("3.0", 1.0), ("4", 0.0), ("4", 0.0), ("5", 0.0)], 0.5),
        ([("0.5", 1.0), (" 0.50", 1.0), ("4", 0.0)], 1.0),
        ([("true", 1.0), ("True", 1.0), ("false", 0.0)], 1.0),
        ([("2024-05-01", 1.0), ("2024-05-01 00:00", 1.0), ("no", 0.0)], 1.0),
        ([("Paris", 1.0), ("paris.", 1.0), ("Rome", 0.0)], 1.0),
        ([("3.1", 0.0), ("3.10", 0.0), ("3.2", 1.0)], 1 / 3),
        ([("7", 0.0), ("7.0", 0.0), ("8", 1.0)], 0.0),
        ([("", 0.0), (" ", 0.0), ("8", 1.0)], 0.0),
    ],
    ids=[
        "two of three",
        "one of three",
        "a tie",
        "three ways",
        "two votes beside one silence",
        "one vote beside one silence",
        "silence votes as badly as it can",
        "nothing but silence",
        "whole numbers with and without a point",
        "one number in two notations",
        "a boolean as two programs write it",
        "midnight and its date",
        "right whatever case and punctuation",
        "two versions of a program, both wrong",
        "a whole number that is wrong",
        "white space and nothing",
    ],
)
def test_the_majority_decides(answers: list[tuple[str | None, float]], expected: float) -> None:
    assert value(make_scores(answers), "majority") == pytest.approx(expected)


def test_the_best_of_a_question_counts() -> None:
    scores = make_scores([("a", 0.2), ("b", 0.7)], [("a", 0.1), ("b", 0.0)])
    assert value(scores, "best") == pytest.approx((0.7 + 0.1) / 2)


def test_each_question_counts_the_same_in_the_mean() -> None:
    assert value(make_scores([RIGHT] * 9, [WRONG]), "mean") == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "expected"), [("mean", 0.75), ("majority", 0.75), ("best", 1.0), ("pass@2", 1.0)]
)
def test_an_answer_without_a_score_is_not_a_wrong_one(name: str, expected: float) -> None:
    scores = make_scores([RIGHT, RIGHT, UNJUDGED], [RIGHT, WRONG, UNJUDGED], [UNJUDGED] * 3)
    estimate = reduce_scores(scores, LEAD, [name])[0].estimate
    assert (estimate.value, estimate.n) == (expected, 2)  # nothing is known of the third question


def test_a_vote_on_right_and_wrong_is_a_proportion() -> None:
    metric = reduce_scores(make_scores(*[[RIGHT] * 3] * 8, *[[WRONG] * 3] * 2), LEAD, ["majority"])[0]
    assert (metric.name, metric.estimate.n, metric.estimate.method) == (
        "accuracy_majority",
        10,
        "Clopper-Pearson interval (exact)",
    )
    assert metric.note == "the most frequent of 3 answers to each question"


@pytest.mark.parametrize("name", ["median", "pass@0", "pass@", "pass@-1", "pass@k"])
def test_an_unknown_reducer_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="should be mean, majority, best or pass@k"):
        check_reducers([name])


def test_more_draws_than_answers_are_refused_before_anything_is_asked() -> None:
    check_reducers(["pass@4", "majority"], replications=4)
    with pytest.raises(
        UsageError, match="pass@5: needs at least 5 answers to each question; 4 are asked for"
    ):
        check_reducers(["pass@5"], replications=4)


@pytest.mark.parametrize("name", ["mean", "majority", "best"])
def test_scores_that_are_all_0_on_a_wider_scale_are_no_share(name: str) -> None:
    lead = Metric("bleu", "BLEU", Estimate(0.0, None, None, "test", 60), "number", scale=(0.0, 100.0))
    estimate = reduce_scores(make_scores(*[[WRONG] * 3] * 20), lead, [name])[0].estimate
    assert estimate.high is not None
    assert estimate.high > 1
