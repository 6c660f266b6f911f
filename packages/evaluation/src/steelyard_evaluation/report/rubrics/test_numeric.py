"""The number of a text as Python reads it, and which numbers are near enough to the target's."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics.contract import make_scores
from steelyard_evaluation.report.rubrics.number_reading import number_in
from steelyard_evaluation.report.rubrics.numeric import Close
from steelyard_evaluation.report.rubrics.rows import NoTarget


def score(text: str | None, target: Any, **arguments: Any) -> bool:
    answer = Answer(7, "r", {"target": target}, None if text is None else [{"text": text}])
    return bool(Close(**arguments).score(answer)["correct"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The answer is 42.", 42),
        ("1, 2, 3", 3),
        ("It costs $1,234.50.", 1234.5),
        ("1,234,567", 1234567),
        ("1,23", None),
        ("-5", -5),
        ("−5 °C", -5),
        ("-$3", -3),
        ("10-4", None),
        ("between 3 and -7", -7),
        (".5", 0.5),
        ("3/4", 0.75),
        ("1 1/2 cups", 1.5),
        ("-1/4", -0.25),
        (r"\frac{3}{4}", 0.75),
        (r"so $\boxed{12}$, with 3 steps", 12),
        ("6.02e23", 6.02e23),
        ("1.5E-3 m", 0.0015),
        ("6.02 × 10^23", 6.02e23),
        (r"2 \times 10^{-3}", 0.002),
        ("3*10^2", 300),
        ("Half of 48 is 24, so 48+24 = 72.\n#### 72", 72),
        ("#### 1,000 because of 3", 1000),
        ("#### unknown, 5", 5),
        ("12 %", 12),
        ("1/0", None),
        ("1e9999", None),
        ("no number", None),
        ("", None),
        ("####", None),
        ("Room B12", None),
    ],
)
def test_the_number_of_a_text(text: str, expected: float | None) -> None:
    number = number_in(text)
    assert (number and number.value) == (expected if expected is None else pytest.approx(expected, rel=1e-12))


@pytest.mark.parametrize(
    ("text", "target", "arguments", "expected"),
    [
        ("72", "Some steps.\n#### 72", {}, True),
        ("18.0", 18, {}, True),
        ("3.14", math.pi, {}, False),
        ("3.14", math.pi, {"abs": 0.01}, True),
        ("990", 1000, {"rel": 0.01}, True),
        ("989", 1000, {"rel": 0.01}, False),
        ("0", 0, {"rel": 0, "abs": 0}, True),
        ("45%", 45, {}, True),
        ("45 %", 0.45, {}, True),
        ("0.45", "45%", {}, True),
        ("0.5%", "50%", {}, False),
        ("1/3", 0.333333333, {}, True),
        ("none", 0, {}, False),
        ("5", [4, 5], {}, True),
        ("1 then 2", 1, {"which": "first"}, True),
    ],
)
def test_near_enough(text: str, target: Any, arguments: dict[str, Any], expected: bool) -> None:
    assert score(text, target, **arguments) is expected


@given(st.integers(-(10**12), 10**12), st.sampled_from(["{:d}", "{:,d}", "So it is {:,d}.", "#### {:d}\n"]))
@settings(deadline=None, derandomize=True)
def test_every_integer_is_found_as_it_is_written(number: int, form: str) -> None:
    result = number_in(form.format(number))
    assert result is not None
    assert result.value == number


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None, derandomize=True)
def test_every_float_is_found_as_python_writes_it(number: float) -> None:
    result = number_in(f"x = {number!r}")
    assert result is not None
    assert result.value == number


@given(st.integers(-999, 999), st.integers(1, 999))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_fractions_are_what_they_are(top: int, bottom: int) -> None:
    number = number_in(f"= {top}/{bottom}")
    assert number is not None
    assert number.value == pytest.approx(float(Fraction(top, bottom)))


def test_why_no_number_was_read_is_said() -> None:
    scored = Close().score(Answer(7, "r", {"target": 4}, [{"text": "3 or 4"}]))
    assert (scored["prediction"], scored["unread"]) == (None, "several numbers: 3 or 4")
    results = Close().summarise(make_scores(Close(), [Answer(0, "r", {"target": 4}, [{"text": "3 or 4"}])]))
    assert results.tables[-1].rows == (("several numbers", 1),)


def test_a_target_that_is_not_one_number_is_named() -> None:
    with pytest.raises(
        NoTarget, match="row 7 of the dataset has the target '3-4', which is not one number: "
    ):
        score("1", "3-4")


def test_a_target_without_a_number_is_named() -> None:
    with pytest.raises(NoTarget, match="row 7 of the dataset has the target 'many', which holds no number"):
        score("1", "many")


def test_tolerances_are_not_negative() -> None:
    with pytest.raises(ValueError, match="rel: -1 is not 0 or more"):
        Close(rel=-1)
