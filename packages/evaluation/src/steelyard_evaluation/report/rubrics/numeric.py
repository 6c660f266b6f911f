"""The rubric `numeric.Close`: the number that the answer gives is near enough to the target.

`number_reading` finds the number that an answer gives.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Results
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.rubrics.number_reading import Number, read_number
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
        # Written so that NaN is refused, too: it is neither below 0 nor above.
        for name, bound in (("abs", self.abs), ("rel", self.rel)):
            if not bound >= 0:
                raise ValueError(f"{name}: {bound} is not 0 or more")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return UNREAD

    def score(self, answer: Answer) -> Json:
        truth = targets(answer, self.target)
        numbers = [_target_number(text, answer) for text in truth]
        said = value_said(answer, self.field)
        labels = [number.text for number in numbers]
        if said is None:
            return right_or_wrong(False, labels, None) | {"unread": None}
        number = read_number(to_text(said), self.which)
        if isinstance(number, Unclear):
            return right_or_wrong(False, labels, None) | {"unread": number.reason}
        right = any(self.near(number, true) for true in numbers)
        return right_or_wrong(right, labels, number.text) | {"unread": None}

    def near(self, said: Number, true: Number) -> bool:
        """Compare two numbers. A per cent sign on one side alone may mean 45 or 0.45."""
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
        results = summarise_scores(scores, ScoreKind("numeric_close", "Numbers right", note=note))
        return replace(results, tables=(*results.tables, *unread_tables(scores)))


@functools.lru_cache(maxsize=4096)
def _read_target(truth: str) -> Number | Unclear:
    """Read a target, which is checked before the first call, and has an answer by each replication."""
    return read_number(truth)


def _target_number(truth: str, answer: Answer) -> Number:
    number = _read_target(truth)
    if isinstance(number, Unclear):
        why = "holds no number" if number.reason == "no number" else f"is not one number: {number.reason}"
        raise NoTarget(f"row {answer.index} of the dataset has the target {truth!r}, which {why}")
    return number
