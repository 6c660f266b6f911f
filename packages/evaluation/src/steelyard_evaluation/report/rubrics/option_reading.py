"""Reads the option that an answer chooses, or the reason why it chooses none, for `choice.MultipleChoice`.

An option that the answer states to be its answer wins over one that it only mentions. If it names several and does not
say which of them it means, none is chosen.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from steelyard_evaluation.report.rubrics.answer import final_part
from steelyard_evaluation.report.rubrics.option_patterns import patterns
from steelyard_evaluation.report.rubrics.option_words import OptionWords
from steelyard_evaluation.report.rubrics.plain_text import NO_END_OF_THOUGHTS, Unclear, find_boxed, plain
from steelyard_evaluation.report.rubrics.statements import statements

NO_OPTION = Unclear("no option")
_ITEM = re.compile(r"(?:(?!\.\s)[^\n]){0,300}")
_REVISED = re.compile(r"\b(?:wait|actually|no,|correction|on second thought|sorry)\b", re.I)


def read_option(said: str, letters: str, options: Sequence[str] = ()) -> str | Unclear:
    """Return the letter that is chosen, by the first of these that gives one: the last statement such as "the answer
    is", a letter alone at the beginning or the end, an option that is chosen or called right, an option's words, the
    only option that is mentioned.
    """
    final = final_part(said)
    if final is None:
        return NO_END_OF_THOUGHTS
    reader = _Reader(plain(final), letters, OptionWords(tuple(options), letters))
    for read in (reader.statement, reader.letter_alone, reader.claims, reader.by_words, reader.mentions):
        choice = read()
        if choice is not None:
            return choice
    return NO_OPTION


def choose(said: str, letters: str, options: Sequence[str] = ()) -> str | None:
    """Return the letter that is chosen; None if none is, or not clearly."""
    choice = read_option(said, letters, options)
    return None if isinstance(choice, Unclear) else choice


class _Reader:
    """The ways to read one answer; each returns a letter, a reason why there is none, or None if it does not apply."""

    def __init__(self, text: str, letters: str, words: OptionWords) -> None:
        self._patterns = patterns(letters)
        self._letters = letters
        self._words = words
        self._text = text
        self._own_text = self._without_restated(text)

    def statement(self) -> str | Unclear | None:
        """Return the option of the last statement or box that names one."""
        box = find_boxed(self._text)
        if isinstance(box, Unclear):
            return box
        positions = [(statement.position, statement.rest) for statement in statements(self._text)]
        if box is not None:
            positions = sorted([*positions, box])
        # From the last one back: a model that corrects itself states its answer again.
        for position, rest in reversed(positions):
            choice = self._beginning(rest)
            if choice is not None:
                return choice
            if box is not None and position == box[0]:
                return Unclear(f"a box without an option: {rest[:40]}")
        return None

    def letter_alone(self) -> str | Unclear | None:
        """Return a letter that is the whole answer, its beginning, or its last sentence."""
        first = self._patterns.alone.match(self._own_text)
        last = self._patterns.last.search(self._own_text[-80:])
        if first and self._is_rejected(first[1]):
            first = None
        if first and first[1] == "I" and self._own_text[first.end(1) :].startswith(","):
            first = None  # "I, for one"
        if first is None:
            return last[1] if last else None
        # An answer that begins with one letter and ends with another has changed its mind, or lists them: not
        # guessed.
        if last and last[1] != first[1].upper():
            return self._several([first[1].upper(), last[1]])
        return self._beginning(self._own_text)

    def claims(self) -> str | Unclear | None:
        """Return the option that the answer chooses or calls right; if it revises itself, the last of several."""
        if not self._has_letters:
            return None
        claimed = [
            (match.start(), letter)
            for pattern in self._patterns.chosen
            for match in pattern.finditer(self._own_text)
            for letter in self._letters_in(match[1])
            if not self._is_rejected(letter)
        ]
        claimed.sort()
        chosen = list(dict.fromkeys(letter for _, letter in claimed))
        if len(chosen) < 2:
            return chosen[0] if chosen else None
        (before, _), (position, letter) = next(
            pair for pair in _pairs(claimed) if pair[1][1] == claimed[-1][1]
        )
        if _REVISED.search(self._own_text, before, position + 8):
            return letter
        return self._several(chosen)

    def by_words(self) -> str | Unclear | None:
        """Return the option whose words are the whole answer, or the only one that it names."""
        choice = self._words.find_named(self._own_text)
        return (
            self._words.find_named(self._text) if choice is None and self._own_text != self._text else choice
        )

    def mentions(self) -> str | Unclear | None:
        """Return the only option in brackets, or called an option, that is not rejected."""
        if not self._has_letters:
            return None
        letters = [match[1] or match[2] for match in self._patterns.mentioned.finditer(self._own_text)]
        left = [letter for letter in dict.fromkeys(letters) if not self._is_rejected(letter)]
        if len(left) > 1:
            return self._several(left)
        return left[0] if left else None

    def _beginning(self, text: str) -> str | Unclear | None:
        """Return the option that a text begins with, by its letter or its words."""
        match = self._patterns.letter.match(text)
        if match is None:
            return self._words.option_at_start(text)
        letter = match[1].upper()
        others = [letter, *self._list_letters(text, match.end(1))]
        if len(set(others)) > 1:
            return self._several(others)
        of_words = self._words.equal(_first_sentence(text[match.end(1) :]))
        if of_words not in (None, letter):
            return Unclear(f"the letter of one option, the words of another: {letter}, {of_words}")
        return letter

    def _list_letters(self, text: str, end: int) -> Iterator[str]:
        for _ in self._letters:
            another = self._patterns.several.match(text, end)
            if another is None:
                return
            yield another[1]
            end = another.end(1)

    @functools.cached_property
    def _has_letters(self) -> bool:
        return self._patterns.any.search(self._own_text) is not None

    @functools.cached_property
    def _find_rejected(self) -> frozenset[str]:
        matches = (
            match[1] for pattern in self._patterns.rejected for match in pattern.finditer(self._own_text)
        )
        return frozenset(letter for text in matches for letter in self._letters_in(text))

    def _is_rejected(self, letter: str) -> bool:
        return letter.upper() in self._find_rejected

    def _letters_in(self, text: str) -> list[str]:
        return [
            letter.upper()
            for letter in re.findall(rf"(?<!\w)[{self._letters}{self._letters.lower()}](?!\w)", text)
        ]

    def _without_restated(self, text: str) -> str:
        """Return the text without a list of the options A, B, C … that the answer repeats from the question."""
        if not any(self._letters[0] + mark in text for mark in ").:]"):
            return text
        labels = list(self._patterns.restated.finditer(text))
        kept, position, start = [], 0, 0
        while start < len(labels):
            ends = self._find_restated(text, labels[start : start + len(self._letters) + 1])
            # One label alone may be the answer itself; two in order are the options again.
            if len(ends) >= 2:
                kept.append(text[position : labels[start].start()])
                position = ends[-1]
            start += max(1, len(ends))
        return "\n".join([*kept, text[position:]])

    def _find_restated(self, text: str, labels: Sequence[re.Match[str]]) -> list[int]:
        """Return the ends of the options in a list that begins at the first of these labels."""
        ends: list[int] = []
        for position, (label, letter) in enumerate(zip(labels, self._letters, strict=False)):
            if label[1] != letter:
                break
            beyond = labels[position + 1].start() if position + 1 < len(labels) else len(text)
            item = _ITEM.match(text, label.end(), beyond)
            if item is None or not self._words.may_be(item[0], letter):
                break
            ends.append(item.end())
        return ends

    @staticmethod
    def _several(letters: Iterable[str]) -> Unclear:
        return Unclear(f"several options: {', '.join(dict.fromkeys(letters))}")


def _pairs(claims: list[tuple[int, str]]) -> list[tuple[tuple[int, str], tuple[int, str]]]:
    """Return, from the end, pairs of consecutive claims with different letters."""
    pairs = list(itertools.pairwise(claims))
    return [pair for pair in reversed(pairs) if pair[0][1] != pair[1][1]]


def _first_sentence(text: str) -> str:
    """Return the first sentence, at most up to the end of the line."""
    return re.split(r"\n|[.!?;](?:\s|\Z)", text.lstrip(" )]}.:,-—–\"'"), maxsplit=1)[0]
