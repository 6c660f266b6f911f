"""Reading numbers and options: any text can be scored, decoration changes nothing, and no text takes long."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_evaluation.report.rubrics.number_reading import Number, read_number
from steelyard_evaluation.report.rubrics.option_reading import read_option
from steelyard_evaluation.report.rubrics.plain_text import Unclear, plain

CITIES = ("London", "Paris", "New York", "York")
WORDS = [
    "answer",
    "The answer is",
    "Option",
    "A",
    "B",
    "(A)",
    "(B)",
    "b",
    "is",
    "not",
    "wrong",
    "correct",
    "or",
    "and",
]
WORDS += [
    ",",
    "Paris",
    "London",
    "I think",
    "it is",
    ".",
    "\n",
    "5",
    "1,000",
    "3.5",
    "-",
    "=",
    "+",
    "%",
    "\\frac12",
]
WORDS += [
    "\\frac{1}{2}",
    "\\boxed{",
    "}",
    "{",
    "$",
    "**",
    "####",
    "10^6",
    "e9",
    "<think>",
    "</think>",
    "\u202f",
    "½",
]
PIECES = st.lists(st.sampled_from([*WORDS, "1:2", "/", "\\text{"]), max_size=12)
TEXTS = st.text() | PIECES.map(" ".join) | PIECES.map("".join)
UNITS = [
    "answer is ",
    "answer: A ",
    "*",
    " ",
    "(",
    "A ",
    "A, ",
    "A,",
    "A or ",
    "Options A and B are ",
    "not A ",
    "A) ",
]
UNITS += [
    "\\boxed{",
    "\\text{",
    "\\text{a}",
    "{",
    "9",
    "1,",
    "1/",
    "- ",
    "1 ",
    "1 000 ",
    "1.1.",
    "\\frac{1",
    "<a ",
]
UNITS += [
    "10^{",
    "10^",
    "<<",
    "½",
    "²",
    "\u2009",
    "Paris or ",
    "#### 1 ",
    "<think>",
    "</think>",
    "x=1,",
    "1e",
    "\n",
]
UNITS += ["I think it is A wait B ", "A is "]


@given(TEXTS)
@settings(deadline=None, derandomize=True)
def test_every_text_can_be_read(text: str) -> None:
    assert isinstance(read_number(text), Number | Unclear)
    for letters, options in (("ABCD", CITIES), ("ABCDEFGHIJ", ()), ("123", ("3.5", "35", "a"))):
        choice = read_option(text, letters, options)
        assert isinstance(choice, Unclear) or choice in letters


@given(st.sampled_from(["{}", " {}", "\n\n{}\n", "**{}**", "{}  \t", "\u200b{}", "<b>{}</b>"]), TEXTS)
@settings(deadline=None, derandomize=True)
def test_decoration_around_an_answer_changes_nothing(decoration: str, text: str) -> None:
    """Use texts that hold no decoration of their own, whose ends could join with ours."""
    text = " ".join(plain(text).translate(dict.fromkeys(map(ord, "*_<>`#~$\\"))).split())
    decorated = decoration.format(text)
    assert read_number(decorated) == read_number(text)
    assert read_option(decorated, "ABCD", CITIES) == read_option(text, "ABCD", CITIES)


@given(
    st.integers(-(10**9), 10**9), st.sampled_from([",", "\u2009", "\u202f", "\u00a0", "\\,", "{,}", "'", "_"])
)
@settings(deadline=None, derandomize=True)
def test_groups_of_digits_may_be_parted_by_any_sign_that_groups(number: int, separator: str) -> None:
    written = f"{number:,}".replace(",", separator)
    for form in ("{}", "The answer is {}.", "\\boxed{{{}}}", "#### {}"):
        read = read_number(form.format(written))
        assert isinstance(read, Number), form
        assert read.value == number


@pytest.mark.soak
@pytest.mark.parametrize("unit", UNITS)
def test_no_text_takes_more_than_its_length(unit: str) -> None:
    """A pattern that looks at all of the rest from every place would not end within pytest's limit."""
    _read_much(unit, 200_000)


@pytest.mark.parametrize("unit", UNITS[::3])
def test_no_repetition_is_tried_in_every_way(unit: str) -> None:
    """The number of ways to part even a short repetition would not end within pytest's limit."""
    _read_much(unit, 2_000)


def _read_much(unit: str, length: int) -> None:
    text = (unit * length)[:length]
    for end in ("", "5 B"):
        read_number(text + end)
        read_option(text + end, "ABCD", CITIES)
