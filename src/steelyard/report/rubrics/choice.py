"""The rubric `choice.MultipleChoice`: which of the listed options does the answer choose?

Understands a letter ("B", "(b)", "B) Paris", "The answer is (B)", "\\boxed{B}") and, where the dataset lists
the options, an option's own words.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from steelyard.report.results import Answer, Json, Results, Table
from steelyard.report.rubrics import words
from steelyard.report.rubrics.columns import value
from steelyard.report.rubrics.rows import (
    FIELD,
    SCHEMA,
    TARGET,
    NoTarget,
    answer_text,
    right_or_wrong,
    targets,
)
from steelyard.report.summary import What, summarise_scores

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NO_CHOICE = "(none)"

_OPENS = r"[\s*_`\"'“‘\[({$:=-]{0,8}(?:\\(?:boxed|text|textbf|mathrm)\{){0,2}[\s*_`\"'\[({]{0,4}"
_VERB = r"(?:\s{1,3}(?:is|was|should\s{1,3}be|would\s{1,3}be))?\s{0,3}"


@dataclass(frozen=True)
class MultipleChoice:
    """The option that the answer chooses is the target: a letter, an index from 0, or the option's words."""

    target: str = TARGET
    choices: str = "choices|options|"
    field: str = FIELD
    most: int = 10
    """How many letters there are where the dataset does not list the options."""

    def __post_init__(self) -> None:
        if not 2 <= self.most <= len(LETTERS):
            raise ValueError(f"most: {self.most} is not between 2 and {len(LETTERS)}")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target, self.choices)

    @property
    def scores(self) -> pa.Schema:
        return SCHEMA

    def score(self, answer: Answer) -> Json:
        options = options_of(value(self.choices, answer.row))
        letters = LETTERS[: len(options) or self.most]
        truth = [_letter_of(one, letters, options, answer) for one in targets(answer, self.target)]
        said = answer_text(answer, self.field)
        chosen = None if said is None else choose(said, letters, options)
        return right_or_wrong(chosen in truth, truth, chosen)

    def summarise(self, scores: pa.Table) -> Results:
        results = summarise_scores(
            scores, What("multiple_choice", "Multiple choice", note="the option chosen is the right one")
        )
        return replace(results, tables=(*results.tables, _by_letter(scores)))


def options_of(listed: Any) -> tuple[str, ...]:
    """The options of a row: a list of texts, or `{"text": […], "label": […]}` as ARC has them."""
    if isinstance(listed, dict):
        listed = listed.get("text")
    return tuple(str(option) for option in listed or ())[: len(LETTERS)]


def choose(said: str, letters: str, options: Sequence[str] = ()) -> str | None:
    """The letter chosen: first what is said to be the answer, then a letter that begins it or is all of it, then
    what is said to be the choice or option, then an option's words, then the last letter in brackets.
    """
    told, lone, named, bracketed = _patterns(letters)
    if found := told.findall(said):
        return str(found[-1]).upper()
    if match := lone.match(said):
        return match[1].upper()
    if found := named.findall(said):
        return str(found[-1]).upper()
    if option := _by_words(said, letters, options):
        return option
    found = bracketed.findall(said)
    return str(found[-1]).upper() if found else None


@functools.cache
def _patterns(letters: str) -> tuple[re.Pattern[str], ...]:
    """Every repetition is bounded, so that no answer takes long."""
    some = f"[{letters}{letters.lower()}]"
    ends = r"(?=[)\]}*_`\"'”’.,;:!$\n]|\s*$)"  # so "a" is a choice in "the answer is a.", not in "… is a dog"
    capital = rf"[{letters}](?![\w'’]|\s+[a-z]\w*\s+(?:of|is|are|was)\b)"
    told, named = (
        rf"(?i:\b(?:{nouns})\b{_VERB}){_OPENS}({capital}|{some}{ends})"
        for nouns in ("answer", "choice|option")
    )
    lone = rf"\s*[*_`\"'\[({{$]{{0,4}}({some})(?:[)\]}}.:*_`\"',$]+(?:\s|$)|\s*$|\s*[)\]}}.:]|\n)"
    return tuple(re.compile(pattern) for pattern in (told, lone, named, rf"\(([{letters}])\)"))


def _by_words(said: str, letters: str, options: Sequence[str]) -> str | None:
    """The option that the answer is, or else the only one that it names; one inside another's name is not named."""
    plain = [words.normalised(option) or option.strip() for option in options]
    text = words.normalised(said) or said.strip()
    if text in plain:
        return letters[plain.index(text)]
    named = [option for option in plain if f" {option} " in f" {text} "]
    longest = [option for option in named if not any(option != other and option in other for other in named)]
    return letters[plain.index(longest[0])] if len(set(longest)) == 1 else None


def _letter_of(truth: str, letters: str, options: Sequence[str], answer: Answer) -> str:
    """Of a target: an option's words before a letter, a letter before an index (MMLU's, from 0)."""
    if truth in options:
        return letters[options.index(truth)]
    bare = truth.strip().strip("()[].:").upper()
    if len(bare) == 1 and bare in letters:
        return bare
    if bare.isdecimal() and int(bare) < len(letters):
        return letters[int(bare)]
    plain = [words.normalised(option) for option in options]
    if (told := words.normalised(truth)) and told in plain:
        return letters[plain.index(told)]
    raise NoTarget(
        f"row {answer.index} of the dataset has the target {truth!r}, which is none of its choices: "
        + (", ".join(map(repr, options)) or f"{letters[0]} to {letters[-1]}")
    )


def _by_letter(scores: pa.Table) -> Table:
    """Whether some letters are chosen more often than they are right."""
    true = Counter(one for label in scores["label"].to_pylist() for one in (label or "").split(" | "))
    chosen = Counter(letter or NO_CHOICE for letter in scores["prediction"].to_pylist())
    right = Counter(scores.filter(scores["correct"])["prediction"].to_pylist())
    rows = tuple(
        (letter, true[letter], chosen[letter], right[letter])
        for letter in sorted(true | chosen, key=lambda letter: (letter == NO_CHOICE, letter))
    )
    note = "A letter chosen far more often than it is right hints at a liking for its place."
    return Table("Choices", ("Option", "Right answer", "Chosen", "Chosen rightly"), rows, note)
