"""The tables of docs/answers.md are true of the module that says what an answer is and which values are equal."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.report.answers import read_rows
from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics.answer import answer_in, are_equal, is_missing
from steelyard_evaluation.report.rubrics.classification import Classification
from steelyard_evaluation.report.rubrics.rows import NoTarget
from steelyard_evaluation.report.rubrics.text import ExactMatch, NormalisedMatch
from tests.answers.page import DOCS
from tests.answers.test_guards import EXAMPLES, Example

PAGE = (DOCS / "answers.md").read_text(encoding="utf-8")
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "text": (pa.string(), str),
    "large text": (pa.large_string(), str),
    "text view": (pa.string_view(), str),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), str),
    "binary": (pa.binary(), str.encode),
    "int8": (pa.int8(), int),
    "int64": (pa.int64(), int),
    "uint64": (pa.uint64(), int),
    "float16": (pa.float16(), float),
    "float32": (pa.float32(), float),
    "float64": (pa.float64(), float),
    "decimal": (pa.decimal128(12, 2), Decimal),
    "boolean": (pa.bool_(), "true".__eq__),
    "date": (pa.date32(), date.fromisoformat),
    "time": (pa.time32("s"), time.fromisoformat),
    "timestamp": (pa.timestamp("us"), datetime.fromisoformat),
    "timestamp with zone": (
        pa.timestamp("us", "UTC"),
        lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
    ),
}


def _rows(section: str) -> Iterator[tuple[str, ...]]:
    """The cells of the table under a heading, without its head."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in re.findall(r"^\| (.+) \|$", text, re.M)[1:]:
        yield tuple(cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\s\|\s", line))


def _text(cell: str) -> str:
    fence = "``" if cell.startswith("``") else "`"
    return "" if cell == "(empty)" else cell.removeprefix(fence).removesuffix(fence).replace("⏎", "\n")


@pytest.mark.parametrize(("text", "answer"), list(_rows("Thoughts")))
def test_thoughts_are_no_part_of_an_answer(text: str, answer: str) -> None:
    assert answer_in(_text(text)) == _text(answer)


MARKS = [
    re.findall("`(.+?)`", cell) for models, cell in _rows("Marks of thoughts") if "harmony" not in models
]
PAIRS = [marks[place : place + 2] for marks in MARKS for place in range(0, len(marks) - 1, 2)]
OF_THOUGHTS = [pair for pair in PAIRS if "solution" not in pair[0] and "RESPONSE" not in pair[0]]


@pytest.mark.parametrize(("opening", "closing"), OF_THOUGHTS)
def test_the_marks_of_the_table_are_read(opening: str, closing: str) -> None:
    assert len(OF_THOUGHTS) >= 10
    for opened in (opening, opening.upper(), opening.lower()) if "Here" not in opening else (opening,):
        assert answer_in(f"{opened}\nLondon?\n{closing}\nParis") == "Paris"
        assert answer_in(f"Let me see. {opened} London? {closing} Paris") == "Paris" or "Here" in opening
        assert answer_in(f"{opened}\nIt is Paris") == (
            "" if "Here" not in opening else f"{opened}\nIt is Paris"
        )


def test_a_block_of_code_is_part_of_the_answer_and_one_of_the_thoughts_is_not() -> None:
    code = "```\n<think>\nLondon?\n</think>\n```"
    assert answer_in(f"<think>Code?</think>{code}") == code
    assert answer_in(f"Like this:\n{code}") == f"Like this:\n{code}"
    assert answer_in("<think>A ``` block</think>\n<think>London?</think>Paris") == "Paris"
    assert answer_in("<think>A ``` block</think>\n<think>London?") == ""


def test_any_number_of_marks_is_read_in_time_that_grows_with_the_text() -> None:
    """A server may answer with nothing but marks; quadratic work on these texts would take hours."""
    for piece in (
        "a <think>",
        "<think>",
        "</think>",
        "```<think>",
        "x </think> <think>",
        "<think></think>a <think>",
    ):
        answer_in(piece * (1_000_000 // len(piece)))
        answer_in("<think>a</think>" + piece * (1_000_000 // len(piece)))
    answer_in("Here is my thought process:" * 40_000)
    answer_in("analysis" + "assistantanalysis" * 60_000)
    answer_in("<|start|>assistant<|channel|>final" * 30_000)


COMPARING = [
    example
    for example in EXAMPLES
    if "target" in example.row and "JsonSchema" not in example.rubric and "pattern=^" not in example.rubric
]


@pytest.mark.parametrize("example", COMPARING, ids=lambda one: one.rubric)
@pytest.mark.parametrize(("target", "answer", "equal"), list(_rows("Empty answers")))
def test_an_empty_target_is_an_empty_answer_in_every_rubric(
    target: str, answer: str, equal: str, example: Example
) -> None:
    target, answer = _text(target), _text(answer)
    assert are_equal(answer_in(answer), target) == (equal == "yes")
    row = {**example.row} | {name: target for name in ("target", "label") if name in example.row}
    try:
        scored = example.score(answer, row)
    except NoTarget:
        assert example.rubric in {"choice.MultipleChoice", "numeric.Close"}  # they have no empty targets
        return
    if equal == "yes":
        assert scored["score"] == (100 if example.rubric in {"overlap.Bleu", "overlap.ChrF"} else 1)
    if "group=1" in example.rubric and answer == "!":
        return  # its pattern reads an empty text from it
    assert scored["correct"] == (equal == "yes") or (not example.decides and answer_in(answer).strip())
    if example.rubric.startswith(("text.Contains?every", "class", "choice")):
        return  # all targets have to be there, or there is one
    several = {name: [value, "99"] for name, value in row.items()}
    assert example.score(answer, several)["correct"] == scored["correct"]
    assert example.score(None, row)["correct"] is False


def _as_read(cell: str, folder: Path) -> Any:
    """The value of a cell such as "int64 `1`", written to a file of that type and read as reports read it."""
    name, value = re.fullmatch(r"([a-z0-9 ]+) `(.*)`", cell).groups()  # type: ignore[union-attr]
    kind, make = TYPES[name]
    if pa.types.is_dictionary(kind):
        array: Any = pa.array([make(value)], kind.value_type).dictionary_encode()
    elif pa.types.is_float16(kind):
        array = pa.array([make(value)], pa.float32()).cast(kind)
    else:
        array = pa.array([make(value)], kind)
    pq.write_table(pa.table({"value": array}), folder / "value.parquet")
    return next(iter(read_rows(folder / "value.parquet")))["value"]


@pytest.mark.parametrize(("one", "other", "equal"), list(_rows("Equal values")))
def test_values_are_equal_whatever_their_types(one: str, other: str, equal: str, tmp_path: Path) -> None:
    first, second = _as_read(one, tmp_path), _as_read(other, tmp_path)
    for said, true in ((first, second), (second, first)):
        assert are_equal(said, true) == (equal == "yes")
        if not is_missing(true):
            answer = Answer(0, "r0", {"target": true, "label": true}, [{"text": said, "label": said}])
            assert ExactMatch().score(answer)["correct"] == (equal == "yes")
            assert Classification().score(answer)["correct"] == (equal == "yes")
            assert NormalisedMatch().score(answer)["correct"] >= (equal == "yes")
