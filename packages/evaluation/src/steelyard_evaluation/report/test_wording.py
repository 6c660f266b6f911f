"""Numbers for people: no number reads as another one that would mean something else."""

import pytest

from steelyard_evaluation.report.statistics.intervals import Estimate
from steelyard_evaluation.report.wording import bounds, decimal, difference_text, format_points, small_p


@pytest.mark.parametrize(
    ("difference", "unit", "scale", "text"),
    [
        (0.021, "share", None, "+2.1"),
        (-0.021, "share", None, "−2.1"),
        (0.0, "share", None, "0.0"),
        (0.0003, "share", None, "+<0.1"),
        (-0.0003, "share", None, "−<0.1"),
        (0.5, "number", None, "+0.500"),
        (-0.0001, "number", (0.0, 1.0), "−<0.001"),
        (12.345, "number", (0.0, 100.0), "+12.3"),
        (-0.01, "number", (0.0, 100.0), "−<0.1"),
    ],
)
def test_a_difference_that_is_not_zero_never_reads_zero(
    difference: float, unit: str, scale: tuple[float, float] | None, text: str
) -> None:
    assert format_points(difference, unit, scale) == text


def test_a_negative_number_has_a_minus_sign() -> None:
    assert [decimal(value) for value in (-0.333, -0.0001, 0.5)] == ["−0.333", "0.000", "0.500"]
    assert bounds(Estimate(0.1, -0.333, 0.476, "", 9), "number") == "−0.333–0.476"


def test_an_interval_shows_whether_it_leaves_out_zero() -> None:
    assert difference_text(Estimate(0.03, 0.0002, 0.06, "", 9)) == "+3.0 (+<0.1 to +6.0)"
    assert difference_text(Estimate(0.03, 0.0, 0.06, "", 9)) == "+3.0 (0.0 to +6.0)"
    assert difference_text(Estimate(0.03, None, None, "", 9)) == "+3.0 (no interval)"
    assert difference_text(Estimate(None, None, None, "", 9)) == "–"


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (None, "–"),
        (0.0004, "<0.001"),
        (0.034, "0.034"),
        (0.0496, "0.0496"),
        (0.04999, "0.0499"),
        (0.05, "0.050"),
        (1.0, "1.000"),
    ],
)
def test_a_p_value_below_the_level_does_not_read_as_it(p: float | None, text: str) -> None:
    assert small_p(p) == text
