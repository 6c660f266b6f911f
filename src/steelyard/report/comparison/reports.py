"""Two reports over the same questions, side by side: what differs, by how much, on which rows, and could it be chance.

`audit` calls `compare` for each requirement that the earlier audit has too, and the comparison of runs for each run
beside the first. What was asked of other data, or scored in another way, is not compared: `NotComparable` says why, and
there is no number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.report.comparison.statistics import (
    Chance,
    chance,
    chance_of_numbers,
    difference,
    difference_of_numbers,
)
from steelyard.report.results import Counts as Rows
from steelyard.report.statistics.confusion import NO_ANSWER
from steelyard.report.statistics.exact_power import least_discordant
from steelyard.report.statistics.intervals import Estimate, Floats, Integers
from steelyard.report.statistics.power import FEWEST_CLUSTERS, detectable_mean
from steelyard.report.statistics.reducers import right_or_wrong
from steelyard.report.status import counts_of, numbered, values_of
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
    """Dataset view of the rubric, as JSON; empty where the dataset is read as it is."""
    scores: pa.Table
    """Table with COLUMNS, with `score` where answers are more than right or wrong, and `_cluster_` where rows
    depend on each other.
    """


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
    indexes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison over the questions that both sides were asked."""

    questions: int
    left_out: int
    """Questions that not both were asked, or that one side has no row of that counts."""
    baseline: Estimate
    system: Estimate
    baseline_rows: Rows
    system_rows: Rows
    """All rows of each side by status, also those of questions that are not compared."""
    difference: Estimate
    """The system's share of right answers less the baseline's, each question counting the same."""
    chance: Chance
    counts: Counts
    changes: tuple[Changes, ...]
    binary: bool = True
    """Answers are right or wrong; otherwise all numbers are mean scores."""
    differ: int = 0
    """Questions on which the two are not equally good."""
    clusters: int | None = None
    detectable: float | None = None
    """The least difference that so many questions, with so many that differ, can see."""


@dataclass(frozen=True)
class _Side:
    """One system's answers per question, in the order of `index`."""

    index: Integers
    right: Integers
    answer_counts: Integers
    label: Sequence[str]
    score: Floats
    """The mean over the answers."""
    cluster: Integers | None

    def of(self, index: Integers) -> "_Side":
        """These questions alone; all of them are there."""
        places = np.searchsorted(self.index, index)
        labels = [self.label[place] for place in places]
        cluster = None if self.cluster is None else self.cluster[places]
        return _Side(
            index, self.right[places], self.answer_counts[places], labels, self.score[places], cluster
        )


def compare(baseline: Scored, system: Scored) -> Comparison | NotComparable:
    """The system against the baseline, question by question; the order of rows and replications says nothing.

    A question is compared where each side has rows of it that are not left out.
    """
    if because := _mismatch(baseline, system):
        return NotComparable(because)
    binary = _right_or_wrong(baseline.scores) and _right_or_wrong(system.scores)
    if not binary and any("score" not in side.scores.column_names for side in (baseline, system)):
        return NotComparable("the earlier audit kept no scores, only what was right")
    first, second = numbered(baseline.scores), numbered(system.scores)
    before, now = _side(first, binary), _side(second, binary)
    common = np.intersect1d(before.index, now.index, assume_unique=True)
    if common.size == 0:
        return NotComparable("no question was asked of both")
    row_ids = [np.unique(side.scores["_index_"].to_numpy()) for side in (baseline, system)]
    left_out = np.union1d(*row_ids).size - common.size
    before, now = before.of(common), now.of(common)
    if because := _other_truth(before, now):
        return NotComparable(because)
    return Comparison(
        questions=int(common.size),
        left_out=int(left_out),
        baseline=_level(before, binary),
        system=_level(now, binary),
        baseline_rows=counts_of(baseline.scores),
        system_rows=counts_of(system.scores),
        counts=_counts(before, now),
        changes=_changes(first, second, before, now),
        **_sure(before, now, binary),
    )


def _sure(before: _Side, now: _Side, binary: bool) -> dict[str, Any]:
    """The difference, its interval, whether it could be chance, and what could have been seen."""
    steps, clusters, n = now.score - before.score, now.cluster, int(now.index.size)
    differ = int((steps != 0).sum())
    counted = None if clusters is None else int(np.unique(clusters).size)
    if binary:
        estimate = difference(steps, clusters)
        p = chance(now.right, now.answer_counts, before.right, before.answer_counts, clusters)
    else:
        estimate = difference_of_numbers(steps, clusters, _width(before, now))
        p = chance_of_numbers(steps, clusters)
    if binary and clusters is None and np.isin(steps, (-1.0, 0.0, 1.0)).all():
        least = least_discordant(n, differ / n)
    else:
        seen = estimate.error and differ and (counted is None or counted >= FEWEST_CLUSTERS)
        least = detectable_mean(estimate.error or 0.0, counted) if seen else None
    return {
        "difference": estimate,
        "chance": p,
        "binary": binary,
        "differ": differ,
        "clusters": counted,
        "detectable": least,
    }


def _width(before: _Side, now: _Side) -> float | None:
    """Width of the scale of the scores: 1 where all lie between 0 and 1; None where it is not known."""
    inside = all(0 <= side.score.min() <= side.score.max() <= 1 for side in (before, now))
    return 1.0 if inside else None


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


def _right_or_wrong(scores: pa.Table) -> bool:
    return "score" not in scores.column_names or right_or_wrong(scores)


def _side(scores: pa.Table, binary: bool) -> _Side:
    """The rows that count of one side, question by question."""
    correct: Any = scores["correct"]
    columns = {
        "_index_": scores["_index_"],
        "label": scores["label"],
        "correct": pc.cast(pc.coalesce(correct, pa.scalar(False)), pa.int64()),
        "score": pc.cast(correct, pa.float64()) if binary else pa.array(values_of(scores)),
    }
    wanted: list[Any] = [("correct", "sum"), ("correct", "count"), ("label", "first"), ("score", "mean")]
    if "_cluster_" in scores.column_names:
        columns["_cluster_"] = scores["_cluster_"]
        wanted.append(("_cluster_", "first"))
    table = pa.table(columns).group_by("_index_", use_threads=False).aggregate(wanted).sort_by("_index_")
    right = table["correct_sum"].to_numpy().astype(np.int64)
    answer_counts = table["correct_count"].to_numpy().astype(np.int64)
    return _Side(
        index=table["_index_"].to_numpy(),
        right=right,
        answer_counts=answer_counts,
        label=[str(label) for label in table["label_first"].to_pylist()],
        score=right / answer_counts
        if binary
        else np.asarray(table["score_mean"].to_numpy(), dtype=np.float64),
        cluster=table["_cluster__first"].to_numpy() if len(wanted) == 5 else None,
    )


def _level(side: _Side, binary: bool) -> Estimate:
    """Return the mean over the compared questions; its interval stands in the report."""
    method = "mean over questions" if binary else "mean score over questions"
    return Estimate(float(side.score.mean()), None, None, method, int(side.index.size))


def _counts(before: _Side, now: _Side) -> Counts:
    was, is_now = before.right == before.answer_counts, now.right == now.answer_counts
    return Counts(
        both_right=int((was & is_now).sum()),
        only_baseline=int((was & ~is_now).sum()),
        only_system=int((~was & is_now).sum()),
        both_wrong=int((~was & ~is_now).sum()),
    )


def _changes(baseline: pa.Table, system: pa.Table, before: _Side, now: _Side) -> tuple[Changes, ...]:
    steps = now.score - before.score
    worse, better = now.index[steps < 0], now.index[steps > 0]
    worse = worse[np.argsort(steps[steps < 0], kind="stable")]
    better = better[np.argsort(-steps[steps > 0], kind="stable")]
    otherwise = _otherwise(baseline, system, now.index[(steps == 0) & (now.right < now.answer_counts)])
    labels = dict(zip(now.index.tolist(), now.label, strict=True))
    kinds: tuple[tuple[Literal["worse", "better", "otherwise"], Integers], ...] = (
        ("worse", worse),
        ("better", better),
        ("otherwise", otherwise),
    )
    return tuple(
        Changes(
            kind, int(rows.size), _shown(baseline, system, rows[:MOST_SHOWN], labels), tuple(rows.tolist())
        )
        for kind, rows in kinds
    )


def _otherwise(baseline: pa.Table, system: pa.Table, candidates: Integers) -> Integers:
    """Return the questions that both got wrong equally often, with other answers."""
    was, is_now = _said(baseline, candidates), _said(system, candidates)
    return np.array(
        [index for index in candidates.tolist() if set(was[index]) != set(is_now[index])], np.int64
    )


def _shown(
    baseline: pa.Table, system: pa.Table, rows: Integers, labels: Mapping[int, str]
) -> tuple[Change, ...]:
    was, is_now = _said(baseline, rows), _said(system, rows)
    return tuple(
        Change(index, _cut(labels[index]), _answers_text(was[index]), _answers_text(is_now[index]))
        for index in rows.tolist()
    )


def _said(scores: pa.Table, rows: Integers) -> dict[int, dict[str, int]]:
    """Return how often each answer was given to each of these questions."""
    few = scores.filter(pc.is_in(scores["_index_"], value_set=pa.array(rows)))
    said: dict[int, dict[str, int]] = {index: {} for index in rows.tolist()}
    for index, prediction in zip(
        few["_index_"].to_numpy().tolist(), few["prediction"].to_pylist(), strict=True
    ):
        answer = NO_ANSWER if prediction is None else prediction
        said[index][answer] = said[index].get(answer, 0) + 1
    return said


def _answers_text(said: Mapping[str, int]) -> str:
    """`8`, or `8 (2 of 3), 3 (1 of 3)` where it wavered."""
    if len(said) == 1:
        return _cut(next(iter(said)))
    total = sum(said.values())
    ordered = sorted(said.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{_cut(answer)} ({times} of {total})" for answer, times in ordered)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def comparison_numbers(comparison: Comparison | NotComparable) -> dict[str, Any]:
    """The comparison in audit.json."""
    if isinstance(comparison, NotComparable):
        return {"comparable": False, "because": comparison.because}
    return {
        "comparable": True,
        "questions": comparison.questions,
        "leftOut": comparison.left_out,
        "baseline": comparison.baseline.value,
        "system": comparison.system.value,
        "rows": {"baseline": comparison.baseline_rows.numbers(), "system": comparison.system_rows.numbers()},
        "difference": comparison.difference,
        "p": comparison.chance.p,
        "test": comparison.chance.method,
        "counts": {
            "bothRight": comparison.counts.both_right,
            "onlyBaseline": comparison.counts.only_baseline,
            "onlySystem": comparison.counts.only_system,
            "bothWrong": comparison.counts.both_wrong,
        },
        "changes": {
            change.kind: {"total": change.total, "shown": list(change.shown)} for change in comparison.changes
        },
    }
