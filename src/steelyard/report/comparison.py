"""Two reports over the same questions, side by side: what differs, by how much, on which rows, and could it be chance.

`audit` calls `compare` for each requirement that the earlier audit has too. What was asked of other data, or scored
in another way, is not compared: `NotComparable` says why, and there is no number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.report.comparison_statistics import Chance, chance, difference
from steelyard.report.confusion import NO_ANSWER
from steelyard.report.statistics import Estimate, Floats, Integers
from steelyard.report.wording import count

COLUMNS = ("_index_", "label", "prediction", "correct")
MOST_SHOWN = 25
MOST_TEXT = 160


@dataclass(frozen=True)
class Scored:
    """One report's part of a comparison: what was asked, how it was scored, and the scores of its answers."""

    rubric: str
    data: tuple[str, ...]
    """SHA-256 of the dataset's files, sorted: what they contain counts, not what they are called."""
    view: str
    """How the rubric saw the dataset, as JSON; empty where as it is."""
    scores: pa.Table


@dataclass(frozen=True)
class NotComparable:
    """Why there is no comparison, as the end of the sentence "Not comparable, because …"."""

    because: str


@dataclass(frozen=True)
class Counts:
    """Questions by who was right each time it was asked."""

    both_right: int
    only_baseline: int
    only_system: int
    both_wrong: int


@dataclass(frozen=True)
class Change:
    """A question whose answers changed: its truth, and what each said, most frequent first."""

    index: int
    label: str
    before: str
    now: str


@dataclass(frozen=True)
class Changes:
    """All questions that changed in one way: how many, and the first of them."""

    kind: Literal["worse", "better", "otherwise"]
    total: int
    shown: tuple[Change, ...]


@dataclass(frozen=True)
class Comparison:
    """What follows for the questions that both were asked."""

    questions: int
    left_out: int
    """Questions that only one of them was asked."""
    baseline: Estimate
    system: Estimate
    difference: Estimate
    """The system's share of right answers less the baseline's, each question counting the same."""
    chance: Chance
    counts: Counts
    changes: tuple[Changes, ...]


@dataclass(frozen=True)
class _Side:
    """One system's answers per question, in the order of `index`."""

    index: Integers
    right: Integers
    asked: Integers
    label: Sequence[str]

    @property
    def share(self) -> Floats:
        return self.right / self.asked

    def of(self, index: Integers) -> "_Side":
        """These questions alone; all of them are there."""
        places = np.searchsorted(self.index, index)
        labels = [self.label[place] for place in places]
        return _Side(index, self.right[places], self.asked[places], labels)


def compare(baseline: Scored, system: Scored) -> Comparison | NotComparable:
    """The system against the baseline, question by question; the order of rows and replications says nothing."""
    if because := _mismatch(baseline, system):
        return NotComparable(because)
    before, now = _side(baseline.scores), _side(system.scores)
    common = np.intersect1d(before.index, now.index, assume_unique=True)
    if common.size == 0:
        return NotComparable("no question was asked of both")
    left_out = before.index.size + now.index.size - 2 * common.size
    before, now = before.of(common), now.of(common)
    if because := _other_truth(before, now):
        return NotComparable(because)
    return Comparison(
        questions=int(common.size),
        left_out=int(left_out),
        baseline=_share(before),
        system=_share(now),
        difference=difference(now.share - before.share),
        chance=chance(now.right, now.asked, before.right, before.asked),
        counts=_counts(before, now),
        changes=_changes(baseline.scores, system.scores, before, now),
    )


def _mismatch(baseline: Scored, system: Scored) -> str:
    if baseline.rubric != system.rubric:
        return f"the earlier report was made by the rubric {baseline.rubric}, this one by {system.rubric}"
    if baseline.data != system.data:
        return f"the two were asked different data: SHA-256 {_brief(baseline.data)} earlier, {_brief(system.data)} now"
    if baseline.view != system.view:
        return "the two reports see the dataset through different views"
    return ""


def _brief(digests: Sequence[str]) -> str:
    more = f" and {count(len(digests) - 1)} more" if len(digests) > 1 else ""
    return f"{digests[0][:12]}…{more}" if digests else "of nothing"


def _other_truth(before: _Side, now: _Side) -> str:
    for index, was, is_now in zip(now.index, before.label, now.label, strict=True):
        if was != is_now:
            return f"row {index} should be {was!r} in the earlier report and {is_now!r} in this one"
    return ""


def _side(scores: pa.Table) -> _Side:
    columns = scores.select(["_index_", "label", "correct"])
    grouped = columns.set_column(2, "correct", pc.cast(columns["correct"], pa.int64())).group_by(
        "_index_", use_threads=False
    )
    table = grouped.aggregate([("correct", "sum"), ("correct", "count"), ("label", "first")])
    table = table.sort_by("_index_")
    return _Side(
        index=table["_index_"].to_numpy(),
        right=table["correct_sum"].to_numpy().astype(np.int64),
        asked=table["correct_count"].to_numpy().astype(np.int64),
        label=[str(label) for label in table["label_first"].to_pylist()],
    )


def _share(side: _Side) -> Estimate:
    """Of the questions that are compared; its interval stands in the report."""
    return Estimate(float(side.share.mean()), None, None, "mean over questions", int(side.index.size))


def _counts(before: _Side, now: _Side) -> Counts:
    was, is_now = before.right == before.asked, now.right == now.asked
    return Counts(
        both_right=int((was & is_now).sum()),
        only_baseline=int((was & ~is_now).sum()),
        only_system=int((~was & is_now).sum()),
        both_wrong=int((~was & ~is_now).sum()),
    )


def _changes(baseline: pa.Table, system: pa.Table, before: _Side, now: _Side) -> tuple[Changes, ...]:
    steps = now.share - before.share
    worse, better = now.index[steps < 0], now.index[steps > 0]
    worse = worse[np.argsort(steps[steps < 0], kind="stable")]
    better = better[np.argsort(-steps[steps > 0], kind="stable")]
    otherwise = _otherwise(baseline, system, now.index[(steps == 0) & (now.right < now.asked)])
    labels = dict(zip(now.index.tolist(), now.label, strict=True))
    kinds: tuple[tuple[Literal["worse", "better", "otherwise"], Integers], ...] = (
        ("worse", worse),
        ("better", better),
        ("otherwise", otherwise),
    )
    return tuple(
        Changes(kind, int(rows.size), _shown(baseline, system, rows[:MOST_SHOWN], labels))
        for kind, rows in kinds
    )


def _otherwise(baseline: pa.Table, system: pa.Table, candidates: Integers) -> Integers:
    """Of the questions that both got wrong as often, those with other answers."""
    was, is_now = _said(baseline, candidates), _said(system, candidates)
    return np.array(
        [index for index in candidates.tolist() if set(was[index]) != set(is_now[index])], np.int64
    )


def _shown(
    baseline: pa.Table, system: pa.Table, rows: Integers, labels: Mapping[int, str]
) -> tuple[Change, ...]:
    was, is_now = _said(baseline, rows), _said(system, rows)
    return tuple(
        Change(index, _cut(labels[index]), _told(was[index]), _told(is_now[index])) for index in rows.tolist()
    )


def _said(scores: pa.Table, rows: Integers) -> dict[int, dict[str, int]]:
    """How often each answer was given to each of these questions."""
    few = scores.filter(pc.is_in(scores["_index_"], value_set=pa.array(rows)))
    said: dict[int, dict[str, int]] = {index: {} for index in rows.tolist()}
    for index, prediction in zip(
        few["_index_"].to_numpy().tolist(), few["prediction"].to_pylist(), strict=True
    ):
        answer = NO_ANSWER if prediction is None else prediction
        said[index][answer] = said[index].get(answer, 0) + 1
    return said


def _told(said: Mapping[str, int]) -> str:
    """`8`, or `8 (2 of 3), 3 (1 of 3)` where it wavered."""
    if len(said) == 1:
        return _cut(next(iter(said)))
    total = sum(said.values())
    ordered = sorted(said.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{_cut(answer)} ({times} of {total})" for answer, times in ordered)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def comparison_numbers(found: Comparison | NotComparable) -> dict[str, Any]:
    """The comparison in audit.json."""
    if isinstance(found, NotComparable):
        return {"comparable": False, "because": found.because}
    return {
        "comparable": True,
        "questions": found.questions,
        "leftOut": found.left_out,
        "baseline": found.baseline.value,
        "system": found.system.value,
        "difference": found.difference,
        "p": found.chance.p,
        "test": found.chance.method,
        "counts": {
            "bothRight": found.counts.both_right,
            "onlyBaseline": found.counts.only_baseline,
            "onlySystem": found.counts.only_system,
            "bothWrong": found.counts.both_wrong,
        },
        "changes": {each.kind: {"total": each.total, "shown": list(each.shown)} for each in found.changes},
    }
