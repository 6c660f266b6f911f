"""Rubrics of text: `text.ExactMatch`, `text.NormalisedMatch`, `text.Contains`, `text.Regex`, `text.TokenF1`.

They compare the field `text` of the answer with the target of the row; if there are several targets, the best counts. A
row without an answer is wrong.
"""

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Compared, Results
from steelyard_evaluation.report.rubrics.answer import are_equal, is_blank, to_text
from steelyard_evaluation.report.rubrics.normalisation import fold, normal_form, normalise
from steelyard_evaluation.report.rubrics.rows import (
    FIELD,
    SCHEMA,
    TARGET,
    answer_text,
    answer_value,
    is_empty_as_asked,
    overlap_text,
    right_or_wrong,
    score_row,
    target_values,
    targets,
)
from steelyard_evaluation.report.summary import ScoreKind, summarise_scores


@dataclass(frozen=True)
class ExactMatch:
    """The answer is the target, apart from white space at both ends."""

    target: str = TARGET
    field: str = FIELD
    ignore_case: bool = False
    strip: bool = True

    compares: ClassVar[Compared] = "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return SCHEMA

    def score(self, answer: Answer) -> Json:
        truth, said = target_values(answer, self.target), answer_value(answer, self.field)
        return match_targets(said, truth, self._normalise)

    def _normalise(self, text: str) -> str:
        text = text.strip() if self.strip else text
        return text.casefold() if self.ignore_case else text

    def summarise(self, scores: pa.Table) -> Results:
        return summarise_scores(
            scores, ScoreKind("exact_match", "Exact match", note="answers equal to the target")
        )


@dataclass(frozen=True)
class NormalisedMatch:
    """The answer is the target once both are normalised as SQuAD does."""

    target: str = TARGET
    field: str = FIELD

    compares: ClassVar[Compared] = "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return SCHEMA

    def score(self, answer: Answer) -> Json:
        truth, said = target_values(answer, self.target), answer_value(answer, self.field)
        return match_targets(said, truth, normal_form)

    def summarise(self, scores: pa.Table) -> Results:
        note = "answers equal to the target but for case, punctuation, articles and spaces"
        return summarise_scores(scores, ScoreKind("normalised_match", "Normalised match", note=note))


@dataclass(frozen=True)
class Contains:
    """The target is somewhere in the answer; with `every`, all targets are."""

    target: str = TARGET
    field: str = FIELD
    ignore_case: bool = False
    normalise: bool = False
    every: bool = False

    compares: ClassVar[Compared] = "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return SCHEMA

    def score(self, answer: Answer) -> Json:
        values, value = target_values(answer, self.target), answer_value(answer, self.field)
        truth = [*map(to_text, values)]
        if value is None:
            return right_or_wrong(False, truth, None)
        said = to_text(value)
        contained = (
            are_equal(value, true) or self._contains(said, text)
            for true, text in zip(values, truth, strict=True)
        )
        return right_or_wrong(all(contained) if self.every else any(contained), truth, said)

    def _contains(self, said: str, target: str) -> bool:
        if is_blank(said) or is_blank(target):  # an empty text would be in every other one
            return False
        if self.normalise and (needed := normalise(target)):  # whole words: "art" is not in "start"
            return f" {needed} " in f" {normalise(said)} "
        if self.normalise:  # a target of articles and punctuation alone
            return fold(target.strip()) in fold(said)
        return target.casefold() in said.casefold() if self.ignore_case else target in said

    def summarise(self, scores: pa.Table) -> Results:
        return summarise_scores(
            scores, ScoreKind("contains", "Contains the target", note="the target stands in them")
        )


@dataclass(frozen=True)
class Regex:
    """The answer matches `pattern`; with `group`, what that group finds is the target.

    Patterns are RE2's: matching takes time linear in the text, so that no pattern hangs, and what RE2 leaves
    out for that (backreferences, looking around) is refused when the rubric is made.
    """

    pattern: str
    group: int | None = None
    flags: str = ""
    which: Literal["first", "last"] = "first"
    target: str = TARGET
    field: str = FIELD

    def __post_init__(self) -> None:
        if unknown := set(self.flags) - set("imsU"):
            raise ValueError(f"flags: {min(unknown)!r} is not one of i, m, s, U")
        if self.group is not None and not 0 <= self.group <= 9:
            raise ValueError(f"group: {self.group} is not between 0 and 9")
        try:
            # Compiled when the rubric is made: a wrong pattern is reported before the first call is paid for.
            _find(self, "")
        except pa.ArrowInvalid as error:
            raise ValueError(f"pattern {self.pattern!r}: {error}") from error

    @property
    def compares(self) -> Compared | None:
        return None if self.group is None else "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.group is None else (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return SCHEMA

    def score(self, answer: Answer) -> Json:
        truth = None if self.group is None else target_values(answer, self.target)
        said = answer_text(answer, self.field)
        match = None if said is None else _find(self, said)
        if truth is None:
            # Many patterns match an empty text, such as `.*`.
            right = said is not None and match is not None and not is_blank(said)
            return right_or_wrong(right, (self.pattern,), said)
        scored = match_targets(None if match is None else match.strip(), truth, str.strip)
        if match is None and is_empty_as_asked(answer, self.target, self.field):
            return scored | {"score": 1.0, "correct": True}
        return scored

    def unread(self, scores: pa.Table) -> list[bool]:
        """Return in which answers the pattern finds nothing that could be the target."""
        return [self.group is not None and is_blank(said or "") for said in scores["prediction"].to_pylist()]

    def summarise(self, scores: pa.Table) -> Results:
        if self.group is None:
            return summarise_scores(
                scores, ScoreKind("regex", "Matches the pattern", note=f"they match {self.pattern}")
            )
        note = f"what {self.pattern} finds in them is the target"
        return summarise_scores(scores, ScoreKind("regex", "Match by pattern", note=note))


_OPEN, _CLOSE = "\x02", "\x03"
_NO_MARKS = {2: None, 3: None}


@functools.lru_cache(maxsize=64)
def _marking(regex: Regex) -> pc.ReplaceSubstringOptions:
    """Return options that put marks around the text of the group: in the first match, or in all of them."""
    pattern = f"(?{regex.flags}){regex.pattern}" if regex.flags else regex.pattern
    marked = f"{_OPEN}\\{regex.group or 0}{_CLOSE}"
    return pc.ReplaceSubstringOptions(pattern, marked, max_replacements=1 if regex.which == "first" else None)


def _find(regex: Regex, text: str) -> str | None:
    # RE2 gives replaced text and no positions: marks around the group are found again, so none may be there
    # before.
    text = text.translate(_NO_MARKS) if _OPEN in text or _CLOSE in text else text
    plain = pa.scalar(text, pa.string())
    marked = pc.call_function("replace_substring_regex", [plain], _marking(regex)).as_py()
    _, mark, rest = marked.rpartition(_OPEN)
    return rest.partition(_CLOSE)[0] if mark else None


@dataclass(frozen=True)
class TokenF1:
    """SQuAD's F1: the harmonic mean of precision and recall of the words, after SQuAD's normalisation.

    A row below `threshold` is shown among the failures; no number depends on it.
    """

    target: str = TARGET
    field: str = FIELD
    threshold: float = 0.5

    compares: ClassVar[Compared] = "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return SCHEMA

    def score(self, answer: Answer) -> Json:
        truth, said = targets(answer, self.target), answer_text(answer, self.field)
        shared = overlap_text(answer, self.target, self.field)
        tokens = None if shared is None else normal_form(shared).split()
        best = 0.0 if tokens is None else max(f1(tokens, normal_form(one).split()) for one in truth)
        return score_row(best, truth, said, best > 0 and best >= self.threshold)

    def summarise(self, scores: pa.Table) -> Results:
        note = "mean over the answers of F1 of words shared with the target"
        return summarise_scores(scores, ScoreKind("token_f1", "Token F1", note=note, binary=False))


def match_targets(said: object, truth: Sequence[object], form: Callable[[str], str]) -> Json:
    """Return the columns of an answer that is right if it is equal to one of the targets."""
    right = any(are_equal(said, target, form) for target in truth)
    return right_or_wrong(right, [*map(to_text, truth)], None if said is None else to_text(said))


def f1(said: Sequence[Hashable], true: Sequence[Hashable]) -> float:
    """Return the F1 of two bags of words; 1 where both are empty, 0 where one is."""
    if not said or not true:
        return float(said == true)
    shared = (Counter(said) & Counter(true)).total()
    return 2 * shared / (len(said) + len(true))
