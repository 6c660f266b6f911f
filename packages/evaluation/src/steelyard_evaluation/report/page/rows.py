"""The rows that a page lets people search: which of them, and each as plain data that its script draws.

A page holds a bounded sample, and says so. A long text is cut, and says so too; scores.parquet and the outputs have
it whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.statistics.intervals import Integers
from steelyard_evaluation.report.wording import count

MOST_ROWS = 1_000
"""Rows inside a report's page."""
MOST_BYTES = 2_000_000
"""Bytes of the rows as JSON, at most."""
MOST_TEXT = 2_000
"""Characters of one text of a row."""
MOST_FIELDS = 12
PICTURE = 16
"""A list of at least so many numbers is a picture or a vector, and no text."""


@dataclass(frozen=True)
class ChosenQuestions:
    """The questions whose rows a page holds."""

    indexes: Integers
    first: int
    """Number of rows that are shown because something went wrong; the others are spread evenly."""
    total: int

    @property
    def whole(self) -> bool:
        return len(self.indexes) == self.total


def choose(indexes: Integers, wrong: Sequence[int], times: int, most: int = MOST_ROWS) -> ChosenQuestions:
    """All questions where there is room for them; else wrong ones in half the room, others spread evenly over the rest.

    `indexes` are all questions, `wrong` those that went wrong, the most telling first; each has `times` rows.
    """
    every = np.unique(indexes)
    room = max(1, most // max(1, times))
    if every.size <= room:
        return ChosenQuestions(every, 0, every.size)
    # Half the room for what went right: only mistakes would give a wrong picture of the whole.
    first = np.asarray(wrong[: room // 2], dtype=np.int64)
    others = np.setdiff1d(every, first)
    # Evenly and not at random: the same output gives the same page, and rows of every part of the dataset.
    spread = others[np.linspace(0, others.size - 1, room - first.size).round().astype(np.int64)]
    return ChosenQuestions(np.union1d(first, spread), int(first.size), every.size)


@dataclass(frozen=True)
class Rows:
    """The rows of a page as its script reads them, and a sentence that says which they are."""

    sentence: str
    data: Mapping[str, JsonValue]
    pages: tuple[str, ...] = ()
    """Linked pages that hold all rows, and which rows each has."""
    names: tuple[str, ...] = ()

    @property
    def row_count(self) -> int:
        return len(self.data["i"])


def error_json(error: Mapping[str, JsonValue]) -> JsonValue:
    """Return why there is no answer: status, reason and message, body, tries."""
    return [
        error.get("status"),
        error.get("reason"),
        cut(error.get("message"), 400),
        cut(error.get("body"), MOST_TEXT),
        error.get("attempts"),
    ]


def is_vector(value: JsonValue) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= PICTURE
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
    )


def readable(value: JsonValue) -> str:
    """A value as people read it: text as it is, a conversation turn by turn, anything else as JSON."""
    if isinstance(value, str):
        return value
    if (
        isinstance(value, list)
        and value
        and all(
            isinstance(turn, dict) and isinstance(turn.get("role"), str) and turn.get("content") is not None
            for turn in value
        )
    ):
        return "\n\n".join(f"{turn['role']}: {readable(turn['content'])}" for turn in value)
    return to_text(value)


def cut(text: str | None, most: int) -> str | None:
    """Cut a text to `most` characters, and say how many more there are."""
    if text is None or len(text) <= most:
        return text
    return f"{text[:most]}… ({count(len(text) - most)} more characters)"


def choice_sentence(shown: int, chosen: ChosenQuestions, times: int) -> str:
    total = chosen.total * times
    if shown == total:
        return f"All {count(total)} rows."
    if chosen.whole:
        return f"The first {count(shown)} of {count(total)} rows, as many as {count(MOST_BYTES // 1_000_000)} MB hold."
    how = f"{count(chosen.first * times)} of them because something went wrong, the others spread evenly"
    if shown < len(chosen.indexes) * times:
        how += f", as far as {count(MOST_BYTES // 1_000_000)} MB hold them"
    return f"A sample of {count(shown)} of {count(total)} rows: {how if chosen.first else 'spread evenly'}."
