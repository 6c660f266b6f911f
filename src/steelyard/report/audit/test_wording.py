"""The sentences, case by case."""

import pytest

from steelyard.report.audit.wording import (
    chance_sentence,
    comparison_sentence,
    interval_of_hundred,
    of_hundred,
    result_clause,
    size_text,
)
from steelyard.report.comparison.reports import Comparison, Contingency, NotComparable
from steelyard.report.comparison.statistics import PValue
from steelyard.report.results import Counts as RowCounts
from steelyard.report.results import Metric
from steelyard.report.statistics.intervals import Estimate

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
    assert of_hundred(share) == words


def test_an_interval_is_never_said_narrower_than_it_is() -> None:
    assert interval_of_hundred(estimate(0.97, 0.9605, 0.9781)) == "95 % interval: 96 to 98 of 100"
    assert interval_of_hundred(estimate(0.97, 0.9599, 0.9801)) == "95 % interval: 95 to 99 of 100"
    assert interval_of_hundred(estimate(1.0, 0.95, 1.0)) == "95 % interval: 95 to 100 of 100"
    assert interval_of_hundred(estimate(0.5)) == "no interval"
    assert result_clause(Metric("m", "M", Estimate(None, None, None, "", 0)), True) == "was asked nothing"


@pytest.mark.parametrize(
    ("questions", "answers", "words"),
    [
        (899, 899, "899 questions, each asked once"),
        (899, 1798, "899 questions, each asked 2 times"),
        (1899, 3700, "1,899 questions, 3,700 answers"),
    ],
)
def test_how_often_it_was_asked(questions: int, answers: int, words: str) -> None:
    assert size_text(questions, answers) == words


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
            make_comparison(0.003, 0.0001, 0.006, 0.06),
            f"Right on 0.3 of 100 questions more (95 % interval: less than 0.1 to 0.6 more) {THAN} "
            "This is at the border of what chance explains. If both were equally good, chance alone would make a "
            "difference as large in about 1 of 17 comparisons (p = 0.060).",
        ),
        (
            make_comparison(0.0, -0.01, 0.01, 1.0),
            "Right as often as old, which answers 50 of 100 right (difference, 95 % interval: 1.0 fewer to 1.0 more). "
            "The questions asked show no difference; a small one may still be there.",
        ),
    ],
    ids=["better", "worse", "could be chance", "at the border", "the same"],
)
def test_a_difference_is_said_with_its_doubt(case: Comparison, words: str) -> None:
    assert f"{comparison_sentence(case, 'old')} {chance_sentence(case)}" == words


def test_what_cannot_be_compared_gets_its_reason() -> None:
    words = comparison_sentence(NotComparable("the data differ"), "old")
    assert words == "Not comparable with old, because the data differ."
