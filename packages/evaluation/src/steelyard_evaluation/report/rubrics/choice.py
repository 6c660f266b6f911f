"""The rubric `choice.MultipleChoice`: the answer chooses one of the listed options.

`option_reading` finds the option that an answer chooses.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from steelyard_common.types import Json, value_text
from steelyard_evaluation.report.results import Answer, Results, Table
from steelyard_evaluation.report.rubrics.answer import is_missing, to_text
from steelyard_evaluation.report.rubrics.option_reading import read_option
from steelyard_evaluation.report.rubrics.option_words import OptionWords
from steelyard_evaluation.report.rubrics.plain_text import Unclear
from steelyard_evaluation.report.rubrics.rows import (
    FIELD,
    TARGET,
    NoTarget,
    right_or_wrong,
    targets,
    value_said,
)
from steelyard_evaluation.report.rubrics.unread import UNREAD, unread_tables
from steelyard_evaluation.report.summary import ScoreKind, summarise_scores
from steelyard_schema.columns import present, value

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NO_CHOICE = "(none)"


@dataclass(frozen=True)
class MultipleChoice:
    """The option that the answer chooses is the target: a letter, an index from 0, or the option's words."""

    target: str = TARGET
    choices: str = "choices|options|"
    field: str = FIELD
    most: int = 10
    """Number of letters where the dataset does not list the options."""

    def __post_init__(self) -> None:
        if not 2 <= self.most <= len(LETTERS):
            raise ValueError(f"most: {self.most} is not between 2 and {len(LETTERS)}")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target, self.choices)

    @property
    def scores(self) -> pa.Schema:
        return UNREAD

    def score(self, answer: Answer) -> Json:
        listed = value(self.choices, answer.row)
        options = read_options(listed)
        if options is None:
            raise NoTarget(
                f"row {answer.index} of the dataset has the options {value_text(listed)} in the column "
                f"{present(self.choices, answer.row)!r}, which are not a list"
            )
        letters = read_letters(listed, len(options) or self.most)
        named_right = [
            _read_letter(target, letters, options, answer) for target in targets(answer, self.target)
        ]
        truth = _with_equal_options(named_right, letters, options)
        said = value_said(answer, self.field)
        if said is None:
            return right_or_wrong(False, truth, None) | {"unread": None}
        choice = read_option(to_text(said), letters, options)
        if isinstance(choice, Unclear):
            return right_or_wrong(False, truth, None) | {"unread": choice.reason}
        return right_or_wrong(choice in truth, truth, choice) | {"unread": None}

    def summarise(self, scores: pa.Table) -> Results:
        results = summarise_scores(
            scores, ScoreKind("multiple_choice", "Multiple choice", note="the option chosen is the right one")
        )
        return replace(results, tables=(*results.tables, _letter_table(scores), *unread_tables(scores)))


def read_options(listed: Any) -> tuple[str, ...] | None:
    """Return the options of a row, a list of texts or `{"text": […], "label": […]}` as in ARC; none if the row lists
    none, and None for anything else.
    """
    if isinstance(listed, dict):
        listed = listed.get("text")
    if is_missing(listed):
        return ()
    if not isinstance(listed, list | tuple):
        return None
    return tuple(to_text(option) for option in listed)[: len(LETTERS)]


def read_letters(listed: Any, number: int) -> str:
    """Return the letters of the options: the dataset's own labels (ARC's, some of them 1 to 4), or A, B, C …"""
    labels = [to_text(label) for label in listed.get("label") or ()] if isinstance(listed, dict) else []
    letters = "".join(labels).upper()
    # A few rows of ARC are labelled 1 to 4, all others A to D: an answer is read by its own row's labels.
    usable = (
        len(labels) == number == len(set(letters)) == len(letters) and letters.isascii() and letters.isalnum()
    )
    return letters if usable else LETTERS[:number]


def _read_letter(truth: str, letters: str, options: Sequence[str], answer: Answer) -> str:
    """Return the letter of a target, read as an option's words, else as a letter, else as an index from 0 (MMLU)."""
    # Words first: an option may itself be a letter or a digit, at another place than the letter says.
    if truth in options:
        return letters[options.index(truth)]
    bare = truth.strip().strip("()[].:").upper()
    if len(bare) == 1 and bare in letters:
        return bare
    if bare.isdecimal() and int(bare) < len(letters):
        return letters[int(bare)]
    if (letter := OptionWords(tuple(options), letters).equal(truth)) is not None:
        return letter
    raise NoTarget(
        f"row {answer.index} of the dataset has the target {truth!r}, which is not one of its choices: "
        + (", ".join(map(repr, options)) or f"{letters[0]} to {letters[-1]}")
    )


def _with_equal_options(truth: Sequence[str], letters: str, options: Sequence[str]) -> list[str]:
    """Return the letters of the right options, and of all options of the same words: to choose one is to choose all."""
    if len(set(options)) == len(options):
        return [*truth]
    words = {options[letters.index(letter)] for letter in truth}
    return [letter for letter, option in zip(letters, options, strict=True) if option in words]


def _letter_table(scores: pa.Table) -> Table:
    """Return a table of how often each letter is chosen and how often it is right."""
    true = Counter(letter for label in scores["label"].to_pylist() for letter in (label or "").split(" | "))
    chosen = Counter(letter or NO_CHOICE for letter in scores["prediction"].to_pylist())
    right = Counter(scores.filter(scores["correct"])["prediction"].to_pylist())
    rows = tuple(
        (letter, true[letter], chosen[letter], right[letter])
        for letter in sorted(true | chosen, key=lambda letter: (letter == NO_CHOICE, letter))
    )
    note = "A letter chosen far more often than it is right hints at a liking for its place."
    return Table("Choices", ("Option", "Right answer", "Chosen", "Chosen rightly"), rows, note)
