"""The sentences, case by case."""

import pytest

from steelyard_evaluation.report.audit.wording import (
    chance_sentence,
    comparison_sentence,
    interval_of_hundred,
    p_value,
    result_clause,
    share_of_asked,
    share_of_hundred,
    size_text,
)
from steelyard_evaluation.report.comparison.reports import Comparison, Contingency, NotComparable
from steelyard_evaluation.report.comparison.statistics import PValue
from steelyard_evaluation.report.results import Counts as RowCounts
from steelyard_evaluation.report.results import Metric
from steelyard_evaluation.report.statistics.intervals import Estimate

THAN = "than old, which answers 50 of 100 right."


def estimate(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, low, high, "some method", 100)


def make_comparison(value: float, low: float, high: float, p: float) -> Comparison:
    share, counts = estimate(0.5), Contingency(0, 0, 0, 0)
    difference = estimate(value, low, high)
    rows = RowCounts(100, 0, 0)
    return Comparison(100, 0, share, share, rows, rows, difference, PValue(p, "a test"), counts, ())


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.971, "97 of 100"),
        (1.0, "100 of 100"),
        (0.9996, "more than 99 of 100"),
        (0.0004, "fewer than 1 of 100"),
        (0.0, "0 of 100"),
    ],
)
def test_shares_are_said_of_a_hundred(share: float, words: str) -> None:
    assert share_of_hundred(share) == words


@pytest.mark.parametrize(
    ("share", "asked", "right", "words"),
    [
        (87 / 89, 89, 87, "87 of 89"),
        (1.0, 3, 3, "3 of 3"),
        (0.0, 3, 0, "0 of 3"),
        (87.5 / 89, 89, 87, "98.3 % of 89"),
        (1 / 2, 2, 0, "50.0 % of 2"),
        (97 / 100, 100, 97, "97 of 100"),
        (872 / 899, 899, 872, "97 of 100"),
    ],
)
def test_of_fewer_than_a_hundred_their_own_number_is_said(
    share: float, asked: int, right: int, words: str
) -> None:
    """Two questions that are right in half of their answers are not one question that is right."""
    assert share_of_asked(share, asked, right) == words
    metric = Metric("m", "M", Estimate(share, 0.9, 0.95, "", asked))
    assert result_clause(metric, right, asked) == f"answers {words} questions right"


def test_an_interval_is_never_said_narrower_than_it_is() -> None:
    assert interval_of_hundred(estimate(0.97, 0.9605, 0.9781), 100) == "95 % interval: 96 to 98 of 100"
    assert interval_of_hundred(estimate(0.97, 0.9599, 0.9801), 100) == "95 % interval: 95 to 99 of 100"
    assert interval_of_hundred(estimate(1.0, 0.95, 1.0), 100) == "95 % interval: 95 to 100 of 100"
    assert interval_of_hundred(estimate(0.5), 100) == "no interval"
    assert result_clause(Metric("m", "M", Estimate(None, None, None, "", 0)), 0, 0) == "was asked nothing"


@pytest.mark.parametrize(
    ("questions", "rows", "words"),
    [
        (899, 899, "899 questions, each asked once"),
        (899, 1798, "899 questions, each asked 2 times"),
        (1899, 3700, "1,899 questions, 3,700 rows"),
        (1, 3, "1 question, asked 3 times"),
    ],
)
def test_how_often_it_was_asked(questions: int, rows: int, words: str) -> None:
    assert size_text(questions, rows) == words


@pytest.mark.parametrize(
    ("difference", "questions", "counts", "words"),
    [
        (
            2 / 12,
            12,
            Contingency(8, 1, 3, 0),
            "Right on 2 of 12 questions more (95 % interval, of 100: 19.2 fewer",
        ),
        (
            -1 / 12,
            12,
            Contingency(8, 1, 0, 3),
            "Right on 1 of 12 questions fewer (95 % interval, of 100: 19.2",
        ),
        (1 / 36, 12, Contingency(8, 1, 1, 2), "Right on 2.8 % of 12 questions more (95 % interval, of 100"),
        (2 / 12, 120, Contingency(80, 10, 30, 0), "Right on 16.7 of 100 questions more (95 % interval: 19.2"),
    ],
)
def test_a_difference_of_fewer_than_a_hundred_is_said_of_their_own_number(
    difference: float, questions: int, counts: Contingency, words: str
) -> None:
    rows, share = RowCounts(questions, 0, 0), estimate(0.75)
    comparison = Comparison(
        questions,
        0,
        share,
        share,
        rows,
        rows,
        estimate(difference, -0.192, 0.478),
        PValue(0.6, ""),
        counts,
        (),
    )
    assert comparison_sentence(comparison, "old").startswith(words)


@pytest.mark.parametrize(
    ("p", "words"), [(0.0496, "p = 0.0496"), (0.04999, "p = 0.0499"), (0.05, "p = 0.050")]
)
def test_a_p_value_below_the_level_does_not_read_as_it(p: float, words: str) -> None:
    assert p_value(p) == words


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            make_comparison(0.031, 0.019, 0.043, 0.00004),
            f"Right on 3.1 of 100 questions more (95 % interval: 1.9 to 4.3 more) {THAN} "
            "This is unlikely to be chance. If both were equally good, chance alone would make a difference as "
            "large in less than 1 of 10,000 comparisons (p < 0.0001).",
        ),
        (
            make_comparison(-0.031, -0.043, -0.019, 0.0024),
            f"Right on 3.1 of 100 questions fewer (95 % interval: 1.9 to 4.3 fewer) {THAN} "
            "This is unlikely to be chance. If both were equally good, chance alone would make a difference as "
            "large in about 1 of 420 comparisons (p = 0.0024).",
        ),
        (
            make_comparison(0.003, -0.008, 0.014, 0.344),
            f"Right on 0.3 of 100 questions more (95 % interval: 0.8 fewer to 1.4 more) {THAN} "
            "This could be chance: if both were equally good, a difference as large would show up in about 34 of "
            "100 comparisons (p = 0.34).",
        ),
        (
            make_comparison(0.0, -0.01, 0.01, 1.0),
            "Right as often as old, which answers 50 of 100 right (difference, 95 % interval: 1.0 fewer to 1.0 more). "
            "The questions asked show no difference; a small one may still be there.",
        ),
    ],
    ids=["better", "worse", "could be chance", "the same"],
)
def test_a_difference_is_said_with_its_doubt(case: Comparison, words: str) -> None:
    assert f"{comparison_sentence(case, 'old')} {chance_sentence(case)}" == words


def test_what_cannot_be_compared_gets_its_reason() -> None:
    words = comparison_sentence(NotComparable("the data differ"), "old")
    assert words == "Not comparable with old, because the data differ."
