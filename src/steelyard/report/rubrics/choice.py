"""The rubric `choice.MultipleChoice`: which of the listed options does the answer choose?

`option_reading` says which option an answer chooses, if it chooses one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from steelyard.report.results import Answer, Results, Table
from steelyard.report.rubrics.columns import value
from steelyard.report.rubrics.option_reading import read_option
from steelyard.report.rubrics.option_words import OptionWords
from steelyard.report.rubrics.rows import FIELD, TARGET, NoTarget, answer_text, right_or_wrong, targets
from steelyard.report.rubrics.unread import UNREAD, unread_tables
from steelyard.report.rubrics.written import Unclear
from steelyard.report.summary import What, summarise_scores
from steelyard.types import Json

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
        options = options_of(listed)
        letters = letters_of(listed, len(options) or self.most)
        truth = [_letter_of(target, letters, options, answer) for target in targets(answer, self.target)]
        said = answer_text(answer, self.field)
        if said is None:
            return right_or_wrong(False, truth, None) | {"unread": None}
        choice = read_option(said, letters, options)
        if isinstance(choice, Unclear):
            return right_or_wrong(False, truth, None) | {"unread": choice.reason}
        return right_or_wrong(choice in truth, truth, choice) | {"unread": None}

    def summarise(self, scores: pa.Table) -> Results:
        results = summarise_scores(
            scores, What("multiple_choice", "Multiple choice", note="the option chosen is the right one")
        )
        return replace(results, tables=(*results.tables, _by_letter(scores), *unread_tables(scores)))


def options_of(listed: Any) -> tuple[str, ...]:
    """The options of a row: a list of texts, or `{"text": […], "label": […]}` as ARC has them."""
    if isinstance(listed, dict):
        listed = listed.get("text")
    return tuple(str(option) for option in listed or ())[: len(LETTERS)]


def letters_of(listed: Any, number: int) -> str:
    """Names of the options: the labels that the dataset has (ARC's, some of them 1 to 4), or A, B, C …"""
    labels = [str(label) for label in listed.get("label") or ()] if isinstance(listed, dict) else []
    letters = "".join(labels).upper()
    usable = (
        len(labels) == number == len(set(letters)) == len(letters) and letters.isascii() and letters.isalnum()
    )
    return letters if usable else LETTERS[:number]


def _letter_of(truth: str, letters: str, options: Sequence[str], answer: Answer) -> str:
    """The letter of a target: an option's words before a letter, a letter before an index (MMLU's, from 0)."""
    if truth in options:
        return letters[options.index(truth)]
    bare = truth.strip().strip("()[].:").upper()
    if len(bare) == 1 and bare in letters:
        return bare
    if bare.isdecimal() and int(bare) < len(letters):
        return letters[int(bare)]
    if (of_words := OptionWords(tuple(options), letters).equal(truth)) is not None:
        return of_words
    raise NoTarget(
        f"row {answer.index} of the dataset has the target {truth!r}, which is none of its choices: "
        + (", ".join(map(repr, options)) or f"{letters[0]} to {letters[-1]}")
    )


def _by_letter(scores: pa.Table) -> Table:
    """Return a table of how often each letter is chosen and how often it is right."""
    true = Counter(one for label in scores["label"].to_pylist() for one in (label or "").split(" | "))
    chosen = Counter(letter or NO_CHOICE for letter in scores["prediction"].to_pylist())
    right = Counter(scores.filter(scores["correct"])["prediction"].to_pylist())
    rows = tuple(
        (letter, true[letter], chosen[letter], right[letter])
        for letter in sorted(true | chosen, key=lambda letter: (letter == NO_CHOICE, letter))
    )
    note = "A letter chosen far more often than it is right hints at a liking for its place."
    return Table("Choices", ("Option", "Right answer", "Chosen", "Chosen rightly"), rows, note)
