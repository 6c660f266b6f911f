"""Figures and tables of a comparison: where things stand, and the remarks about parts that are left out."""

import re

import pytest

from steelyard_evaluation.report.comparison.figures import changes_table, difference_figure, two_by_two
from steelyard_evaluation.report.comparison.reports import (
    ChangedQuestion,
    ChangedQuestions,
    Comparison,
    Contingency,
)
from steelyard_evaluation.report.comparison.statistics import PValue
from steelyard_evaluation.report.page.figures import PLOT_WIDTH
from steelyard_evaluation.report.results import Counts as RowCounts
from steelyard_evaluation.report.statistics.intervals import Estimate

ROWS = RowCounts(9, 0, 0)


def make_comparison(value: float, low: float, high: float) -> Comparison:
    share, difference = Estimate(0.5, None, None, "", 9), Estimate(value, low, high, "", 9)
    return Comparison(
        9, 0, share, share, ROWS, ROWS, difference, PValue(1.0, ""), Contingency(1, 2, 3, 4), ()
    )


@pytest.mark.parametrize(
    ("low", "value", "high", "ticks"),
    [
        (0.057, 0.078, 0.098, ["−10", "−5", "0", "+5", "+10"]),
        (-0.355, -0.2, 0.01, ["−40", "−30", "−20", "−10", "0", "+10", "+20", "+30", "+40"]),
        (-0.004, 0.0, 0.004, ["−0.4", "−0.3", "−0.2", "−0.1", "0", "+0.1", "+0.2", "+0.3", "+0.4"]),
        (-1.0, 0.1, 1.0, ["−100", "−50", "0", "+50", "+100"]),
    ],
)
def test_zero_is_in_the_middle_and_everything_is_on_the_axis(
    low: float, value: float, high: float, ticks: list[str]
) -> None:
    svg = str(difference_figure([("Difference", make_comparison(value, low, high))]).svg)
    assert re.findall(r'text-anchor="middle">([−+]?[\d.]+)</text>', svg) == ticks
    places = [float(x) for x in re.findall(r'class="(?:dot|whisker)"[^>]* c?x\d?="(-?[\d.]+)"', svg)]
    assert all(0 <= place <= PLOT_WIDTH for place in places)
    zero = re.search(r'class="axis" x1="([\d.]+)"', svg)
    assert zero is not None
    assert float(zero[1]) == PLOT_WIDTH / 2


def test_the_two_by_two_add_up() -> None:
    assert [row[1:] for row in two_by_two(make_comparison(0, 0, 0)).rows] == [(1, 2), (3, 4), (4, 6)]


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        (
            ChangedQuestions("worse", 1, (ChangedQuestion(7, "a", "a", "b"),)),
            "Right less often now: 1 question",
        ),
        (
            ChangedQuestions("better", 213, (ChangedQuestion(7, "a", "a", "b"),)),
            "Right more often now: 213 questions; 1 shown, the greatest gains first",
        ),
        (
            ChangedQuestions("otherwise", 2, (ChangedQuestion(7, "a", "a", "b"),)),
            "Wrong as often, with other answers: 2 questions; 1 shown, by row",
        ),
    ],
)
def test_a_sample_says_that_it_is_one(changes: ChangedQuestions, title: str) -> None:
    table = changes_table(changes)
    assert table.title == title
    assert table.rows == (("7", "a", "a", "b"),)
