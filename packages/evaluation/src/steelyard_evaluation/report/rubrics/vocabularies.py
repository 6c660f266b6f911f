"""Labels and answers that have nothing in common, such as words and numbers: no answer could have been right.

A report of them is not made, since its number would say nothing about the system. `report.make_report` calls
`check_common_values`; a stand-alone run calls `share_no_word` before its first call, where it asks the endpoint for one
of a list of answers.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import shorten
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.results import Compared, Rubric
from steelyard_evaluation.report.rubrics.answer import is_blank, is_moment, is_numeral, is_truth
from steelyard_evaluation.report.rubrics.normalisation import words

Kind = Literal["numbers", "booleans", "times", "words"]
_SHOWN = 4
_FEW_LABELS = 3


def check_common_values(rubric: Rubric, scores: pa.Table, reference: str) -> None:
    """Raise ReportFailed if labels and answers of a rubric that compares them have nothing in common."""
    compares: Compared | None = getattr(rubric, "compares", None)
    # Not "greater than 0": chrF finds a shared letter in most words.
    right: Any = pc.equal(scores["score"], pa.scalar(1.0))
    if compares is None or pc.any(right).as_py():
        return
    answered: Any = scores.filter(pc.is_valid(scores["prediction"]))
    rows = [row for row in answered.to_pylist() if not is_blank(row["prediction"])]
    # Of each question once: a label that was asked for several times is no more evidence.
    labels = [
        part
        for label in {row["_index_"]: row["label"] for row in rows}.values()
        for part in label.split(" | ")
    ]
    reason = disjoint(labels, [row["prediction"] for row in rows], closed=compares == "labels")
    if reason:
        raise ReportFailed("NothingInCommon", f"rubric {reference}: {reason}")


def disjoint(labels: Sequence[str], answers: Sequence[str], *, closed: bool) -> str:
    """Return why none of these answers can be one of the labels; empty if one can, or if it is not known.

    `closed` says that an answer is a label by itself, and no text that a model writes.
    """
    different, said = set(labels), set(answers)
    if len(answers) < 2 - closed or {one.casefold() for one in different} & {one.casefold() for one in said}:
        return ""
    kinds, said_kinds = _kinds(different), _kinds(said)
    if len(kinds) == len(said_kinds) == 1 and kinds != said_kinds:
        apart = closed or (_are_classes(labels) and not _any_word(said, different))
    else:
        # A system may have said the wrong one of many labels throughout: only labels that come again are evidence.
        apart = closed and min(len(different), len(said)) >= 2 and len(labels) >= 2 * len(different)
    if not apart:
        return ""
    return (
        f"the labels of the data ({_kinds_text(kinds, different)}) and the answers ({_kinds_text(said_kinds, said)}) "
        "have no "
        "value in common, so that no answer could be right: bring one of them into the form of the other"
    )


def share_no_word(labels: Iterable[str], answers: Iterable[str]) -> bool:
    """Return whether no answer has a label, or a word of one."""
    different, said = set(labels), set(answers)
    return different.isdisjoint(said) and not _any_word(said, different)


def _kinds(texts: Iterable[str]) -> set[Kind]:
    return {_kind(text) for text in texts}


def _kind(text: str) -> Kind:
    if is_numeral(text):
        return "numbers"
    if is_truth(text):
        return "booleans"
    return "times" if is_moment(text) else "words"


def _are_classes(labels: Sequence[str]) -> bool:
    """Return whether labels are words or booleans, or numbers that stand for classes rather than for amounts."""
    different = set(labels)
    if _kinds(different).isdisjoint({"numbers", "times"}):
        return True
    return len(different) <= _FEW_LABELS or len(labels) >= 2 * len(different)


def _any_word(answers: Iterable[str], labels: Collection[str]) -> bool:
    """Return whether an answer has a word of a label: a model that says more than it was asked for."""
    there = {word for label in labels for word in words(label)}
    return any(not there.isdisjoint(words(answer)) for answer in answers)


def _kinds_text(kinds: Collection[Kind], texts: Collection[str]) -> str:
    shown = sorted(shorten(text, 40) for text in texts)
    more = ", …" if len(shown) > _SHOWN else ""
    kind = f"{next(iter(kinds))}: " if len(kinds) == 1 else ""
    return kind + ", ".join(" ".join(text.split()) for text in shown[:_SHOWN]) + more
