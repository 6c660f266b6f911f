"""The rubric `numeric.Close`: is the number that the answer ends with near enough to the target?

Numbers may have thousands separators, a sign, an exponent (`1.2e-3`, `1.2 × 10^-3`), a per cent sign, or be
fractions (`3/4`, `1 1/2`, `\\frac{3}{4}`).
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from steelyard.report.results import Answer, Json, Results
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

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
_NUMBER = re.compile(
    rf"""(?=[-+.0-9\\])(?P<sign>(?<![\w)\].])[-+][\s$€£]{{0,2}})?
    (?:
      \\[dt]?frac\{{(?P<top>[0-9]{{1,30}})\}}\{{(?P<bottom>[0-9]{{1,30}})\}}
    | (?:(?P<whole>[0-9]{{1,9}})[ ])?(?P<over>[0-9]{{1,30}})/(?P<under>[0-9]{{1,30}})(?![0-9/])
    | (?P<plain>{_DIGITS}(?:\.[0-9]+)?|(?<![0-9])\.[0-9]+)
      (?: [eE](?P<e>[-+]?[0-9]{{1,4}})(?![0-9])
        | [ ]?(?:×|\*|x|\\times|\\cdot)[ ]?10\s?(?:\^|\*\*)\{{?(?P<power>[-+]?[0-9]{{1,4}})\}}?
      )?
    )
    (?P<percent>[ ]?\\?%)?""",
    re.VERBOSE,
)
_MINUS = str.maketrans({"−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " "})
_LAST_DIGIT = re.compile("[0-9]")
_MOST = 20_000  # characters from the end that are looked at
_REACH = 100  # characters that a number may be long


@dataclass(frozen=True)
class Number:
    value: float
    percent: bool
    text: str


@dataclass(frozen=True)
class Close:
    """|answer - target| ≤ max(abs, rel · |target|).

    The number of an answer: after the last `####` (GSM8K), else in the last `\\boxed{…}`, else the text's last.
    """

    abs: float = 1e-9
    rel: float = 1e-6
    which: Literal["last", "first"] = "last"
    target: str = TARGET
    field: str = FIELD

    def __post_init__(self) -> None:
        for name, bound in (("abs", self.abs), ("rel", self.rel)):
            if not bound >= 0:
                raise ValueError(f"{name}: {bound} is not 0 or more")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return SCHEMA

    def score(self, answer: Answer) -> Json:
        truth = targets(answer, self.target)
        numbers = [_target(one, answer) for one in truth]
        said = answer_text(answer, self.field)
        found = None if said is None else number_in(said, self.which)
        right = found is not None and any(self.near(found, number) for number in numbers)
        return right_or_wrong(
            right, [number.text for number in numbers], None if found is None else found.text
        )

    def near(self, said: Number, true: Number) -> bool:
        """Where one side alone has a per cent sign, it may mean 45 or 0.45."""
        readings = [said.value]
        against = [true.value]
        if said.percent and not true.percent:
            readings.append(said.value / 100)
        if true.percent and not said.percent:
            against.append(true.value / 100)
        return any(
            math.fabs(one - other) <= max(self.abs, self.rel * math.fabs(other))
            for one in readings
            for other in against
        )

    def summarise(self, scores: pa.Table) -> Results:
        note = f"the number given is within {self.abs:g} or {self.rel:g} of the target's size"
        return summarise_scores(scores, What("numeric_close", "Numbers right", note=note))


def number_in(text: str, which: Literal["last", "first"] = "last") -> Number | None:
    text = text[-_MOST:] if text.isascii() else text[-_MOST:].translate(_MINUS)
    _, mark, rest = text.rpartition("####")
    if mark and (told := next(_numbers(rest), None)):
        return told
    start = text.rfind("\\boxed{")
    if start >= 0 and (told := next(_numbers(text[start + len("\\boxed{") :]), None)):
        return told
    return next(_numbers(text), None) if which == "first" else _last(text)


def _last(text: str) -> Number | None:
    """Looks from a space before the last digit on, since most text holds no number; then at all of it."""
    digit = _LAST_DIGIT.search(text[::-1])
    if digit is None:
        return None
    near = text.rfind(" ", 0, max(0, len(text) - digit.end() - _REACH))
    starts = (near, 0) if near > 0 else (0,)
    for start in starts:
        found = list(_numbers(text, start))
        if found:
            return found[-1]
    return None


def _numbers(text: str, start: int = 0) -> Iterator[Number]:
    for match in _NUMBER.finditer(text, start):
        if number := _read(match):
            yield number


def _read(match: re.Match[str]) -> Number | None:
    said = match.groupdict()
    top, bottom = said["top"] or said["over"], said["bottom"] or said["under"]
    if top is not None:
        if int(bottom) == 0:
            return None
        size = int(said["whole"] or 0) + int(top) / int(bottom)
    else:
        size = float(f"{said['plain'].replace(',', '')}e{said['e'] or said['power'] or 0}")
    if not math.isfinite(size):
        return None
    value = -size if (said["sign"] or "").startswith("-") else size
    return Number(value, said["percent"] is not None, match[0].strip())


def _target(truth: str, answer: Answer) -> Number:
    number = number_in(truth)
    if number is None:
        raise NoTarget(f"row {answer.index} of the dataset has the target {truth!r}, which holds no number")
    return number
