"""Comparison of two reports over the same questions: the difference, its interval and test, and the rows that changed.

`audit` calls `compare` for each requirement that the earlier audit has too, and the comparison of runs for each run
but the first. Reports of other data or by another rubric are not compared: `NotComparable` says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import shorten
from steelyard_evaluation.report.comparison.differences import Shares, estimate_difference
from steelyard_evaluation.report.comparison.statistics import (
    NoTest,
    PValue,
    score_difference,
    share_difference,
)
from steelyard_evaluation.report.results import Counts as RowCounts
from steelyard_evaluation.report.statistics.clusters import without_rounding
from steelyard_evaluation.report.statistics.confusion import NO_ANSWER
from steelyard_evaluation.report.statistics.exact_power import least_discordant
from steelyard_evaluation.report.statistics.intervals import Estimate, Floats, Integers, Scale
from steelyard_evaluation.report.statistics.power import FEWEST_CLUSTERS, least_mean, least_mean_of_clusters
from steelyard_evaluation.report.statistics.reducers import right_or_wrong
from steelyard_evaluation.report.status import count_statuses, score_values, with_own_score
from steelyard_evaluation.report.wording import count

COLUMNS = ("_index_", "label", "prediction", "correct")
MOST_SHOWN = 25
MOST_TEXT = 160


@dataclass(frozen=True)
class ScoredReport:
    """A report as a comparison needs it: its rubric, its data, and the scores of its answers."""

    rubric: str
    data: tuple[str, ...]
    """SHA-256 digests of the dataset's files, sorted: equal data may have other file names."""
    view: str
    """Dataset view of the rubric, as JSON; empty where the dataset is read as it is."""
    scores: pa.Table
    """Table with COLUMNS; with `score` where answers are more than right or wrong, and `_cluster_` for clusters."""
    scale: Scale | None = None
    """The least and the greatest score; None where the rubric has no scale, or does not name it."""


@dataclass(frozen=True)
class NotComparable:
    """The reason for no comparison, as the end of the sentence "Not comparable, because …"."""

    reason: str


@dataclass(frozen=True)
class Contingency:
    """Numbers of questions by which system was right each time it was asked: a two-by-two table."""

    both_right: int
    only_baseline: int
    only_system: int
    both_wrong: int


@dataclass(frozen=True)
class ChangedQuestion:
    """A question whose answers changed: its label, and the answers of both sides, the most frequent first."""

    index: int
    label: str
    before: str
    now: str


@dataclass(frozen=True)
class ChangedQuestions:
    """All questions that changed in one way: their number, the first of them, and all their indexes."""

    kind: Literal["worse", "better", "otherwise"]
    total: int
    shown: tuple[ChangedQuestion, ...]
    indexes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison over the questions that both sides were asked."""

    questions: int
    not_compared: int
    """Number of questions for which only one side has rows that are not left out."""
    baseline: Estimate
    system: Estimate
    baseline_rows: RowCounts
    system_rows: RowCounts
    """Rows of both sides by status: those of all questions that both were asked; some may have no grade."""
    difference: Estimate
    """The system's share of right answers, or mean score, less the baseline's; every question has the same weight."""
    p_value: PValue | NoTest
    contingency: Contingency
    changes: tuple[ChangedQuestions, ...]
    binary: bool = True
    """True where answers are right or wrong; otherwise all numbers are mean scores."""
    differ: int = 0
    """Number of questions on which the two are not equally good."""
    clusters: int | None = None
    detectable: float | None = None
    """Least difference that a comparison of this size, with as many questions that differ, detects."""


@dataclass(frozen=True)
class _Side:
    """One system's answers per question, in the order of `index`."""

    index: Integers
    right: Integers
    answer_counts: Integers
    label: Sequence[str]
    score: Floats
    """The mean over the answers."""
    magnitude: Floats
    """The greatest score of an answer, without its sign."""
    cluster: Integers | None

    def select(self, index: Integers) -> "_Side":
        """Return these questions alone; all of them must be among those of this side."""
        rows = np.searchsorted(self.index, index)
        labels = [self.label[row] for row in rows]
        cluster = None if self.cluster is None else self.cluster[rows]
        return _Side(
            index,
            self.right[rows],
            self.answer_counts[rows],
            labels,
            self.score[rows],
            self.magnitude[rows],
            cluster,
        )


def compare(baseline: ScoredReport, system: ScoredReport) -> Comparison | NotComparable:
    """Compare the system with the baseline, question by question; the order of rows and replications is ignored.

    A question is compared if both sides have rows of it that are not left out.
    """
    if reason := _mismatch(baseline, system):
        return NotComparable(reason)
    binary = _is_binary(baseline) and _is_binary(system)
    if not binary and any("score" not in side.scores.column_names for side in (baseline, system)):
        return NotComparable("the earlier audit kept no scores, only what was right")
    first, second = with_own_score(baseline.scores), with_own_score(system.scores)
    before, now = _side(first, binary), _side(second, binary)
    common = np.intersect1d(before.index, now.index, assume_unique=True)
    if common.size == 0:
        return NotComparable("no question was asked of both")
    row_ids = [np.unique(side.scores["_index_"].to_numpy()) for side in (baseline, system)]
    not_compared = np.union1d(*row_ids).size - common.size
    before, now = before.select(common), now.select(common)
    # Equal files with another target column, or labels that were mended in between, are another question.
    if reason := _find_other_label(before, now):
        return NotComparable(reason)
    # Mean scores are equal where they are equal as fractions: the mean of 0.1, 0.1 and 0.1 is 0.1, though that of the
    # floating-point numbers is not.
    steps = without_rounding(now.score - before.score, np.maximum(now.magnitude, before.magnitude))
    return Comparison(
        questions=int(common.size),
        not_compared=int(not_compared),
        baseline=_mean_estimate(before, binary),
        system=_mean_estimate(now, binary),
        baseline_rows=_count_shared(baseline.scores, row_ids[1]),
        system_rows=_count_shared(system.scores, row_ids[0]),
        contingency=_contingency(before, now),
        changes=_changes(first, second, now, steps),
        **_difference_fields(before, now, steps, _width(baseline, system, binary), binary),
    )


def _count_shared(scores: pa.Table, others: Integers) -> RowCounts:
    """Return the number of a system's rows by status, of the questions that the other one was asked, too."""
    shared: Any = pc.is_in(scores["_index_"], pa.array(others))
    return count_statuses(scores.filter(shared))


def _width(baseline: ScoredReport, system: ScoredReport, binary: bool) -> float | None:
    """Return the width of the scale of all scores; None where one of them is not on the scale that the rubric names."""
    scale = (0.0, 1.0) if binary else system.scale or baseline.scale
    if scale is None:
        return None
    for side in (baseline, system):
        values = score_values(side.scores) if not binary else np.zeros(0)
        if not np.all((scale[0] <= values) & (values <= scale[1]) | np.isnan(values)):
            return None
    return scale[1] - scale[0]


def _difference_fields(
    before: _Side, now: _Side, steps: Floats, width: float | None, binary: bool
) -> dict[str, Any]:
    """Return the fields of a Comparison that say how large and how certain the difference is."""
    clusters, n = now.cluster, int(now.index.size)
    differ = int((steps != 0).sum())
    counted = None if clusters is None else int(np.unique(clusters).size)
    shares = Shares(now.right, now.answer_counts), Shares(before.right, before.answer_counts)
    estimate, p = estimate_difference(steps, clusters, width, shares if binary else None)
    # Power is computed for McNemar's test where it is the one that is used, else from the interval.
    if binary and clusters is None and np.isin(steps, (-1.0, 0.0, 1.0)).all():
        least = least_discordant(n, differ / n)
    else:
        least = _least_mean(steps, clusters, width, binary, estimate.error)
    return {
        "difference": estimate,
        "p_value": p,
        "binary": binary,
        "differ": differ,
        "clusters": counted,
        "detectable": least,
    }


def _least_mean(
    steps: Floats, clusters: Integers | None, width: float | None, binary: bool, error: float | None
) -> float | None:
    """Return the least difference that is found with the spread that was seen; None where there is none."""
    if width is None or not error:
        return None
    if clusters is None:
        return least_mean(steps, error, width)
    count = int(np.unique(clusters).size)
    if count < FEWEST_CLUSTERS:
        return None

    def lower_bound(moved: Floats) -> float:
        inside = np.clip(moved, -width, width)
        estimate = share_difference(inside, clusters) if binary else score_difference(inside, clusters, width)
        return estimate.low or 0.0

    return least_mean_of_clusters(steps, error, width, count, lower_bound)


def _mismatch(baseline: ScoredReport, system: ScoredReport) -> str:
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


def _find_other_label(before: _Side, now: _Side) -> str:
    """Return a sentence for the first question whose label differs; empty where there is none."""
    for index, was, is_now in zip(now.index, before.label, now.label, strict=True):
        if was != is_now:
            return f'row {index} should be "{was}" in the earlier report and "{is_now}" in this one'
    return ""


def _is_binary(side: ScoredReport) -> bool:
    """Return whether answers are right or wrong; scores on another scale that are all 0 only look like it."""
    if "score" not in side.scores.column_names:
        return True
    return side.scale in (None, (0.0, 1.0)) and right_or_wrong(side.scores)


def _side(scores: pa.Table, binary: bool) -> _Side:
    """Return one side's rows, without those that are left out, aggregated by question."""
    correct: Any = scores["correct"]
    columns = {
        "_index_": scores["_index_"],
        "label": scores["label"],
        # A failed row of an earlier version has null here; it counts as wrong, as everywhere.
        "correct": pc.cast(pc.coalesce(correct, pa.scalar(False)), pa.int64()),
        "score": pc.cast(correct, pa.float64()) if binary else pa.array(score_values(scores)),
    }
    values: Any = columns["score"]
    columns["magnitude"] = pc.abs(values)
    aggregates: list[Any] = [
        ("correct", "sum"),
        ("correct", "count"),
        ("label", "first"),
        ("score", "mean"),
        ("magnitude", "max"),
    ]
    if "_cluster_" in scores.column_names:
        columns["_cluster_"] = scores["_cluster_"]
        aggregates.append(("_cluster_", "first"))
    # On one thread: with several, "first" and the sums of floating-point numbers would change from run to run.
    table = pa.table(columns).group_by("_index_", use_threads=False).aggregate(aggregates).sort_by("_index_")
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
        magnitude=np.asarray(table["magnitude_max"].to_numpy(), dtype=np.float64),
        cluster=table["_cluster__first"].to_numpy() if "_cluster_" in columns else None,
    )


def _mean_estimate(side: _Side, binary: bool) -> Estimate:
    """Return the mean over the compared questions, without an interval: that is in the report."""
    method = "mean over questions" if binary else "mean score over questions"
    return Estimate(float(side.score.mean()), None, None, method, int(side.index.size))


def _contingency(before: _Side, now: _Side) -> Contingency:
    was, is_now = before.right == before.answer_counts, now.right == now.answer_counts
    return Contingency(
        both_right=int((was & is_now).sum()),
        only_baseline=int((was & ~is_now).sum()),
        only_system=int((~was & is_now).sum()),
        both_wrong=int((~was & ~is_now).sum()),
    )


def _changes(baseline: pa.Table, system: pa.Table, now: _Side, steps: Floats) -> tuple[ChangedQuestions, ...]:
    worse, better = now.index[steps < 0], now.index[steps > 0]
    # Stable: of equal losses the first rows are shown, in every run of this code.
    worse = worse[np.argsort(steps[steps < 0], kind="stable")]
    better = better[np.argsort(-steps[steps > 0], kind="stable")]
    candidates = now.index[(steps == 0) & (now.right < now.answer_counts)]
    was, is_now = _answer_counts(baseline, candidates), _answer_counts(system, candidates)
    # By sets of answers: a system asked several times may say the same things in another number.
    otherwise = np.array(
        [index for index in candidates.tolist() if set(was[index]) != set(is_now[index])], np.int64
    )
    labels = dict(zip(now.index.tolist(), now.label, strict=True))
    kinds: tuple[tuple[Literal["worse", "better", "otherwise"], Integers], ...] = (
        ("worse", worse),
        ("better", better),
        ("otherwise", otherwise),
    )
    return tuple(
        ChangedQuestions(
            kind,
            int(rows.size),
            _first_changes(baseline, system, rows[:MOST_SHOWN], labels),
            tuple(rows.tolist()),
        )
        for kind, rows in kinds
    )


def _first_changes(
    baseline: pa.Table, system: pa.Table, rows: Integers, labels: Mapping[int, str]
) -> tuple[ChangedQuestion, ...]:
    was, is_now = _answer_counts(baseline, rows), _answer_counts(system, rows)
    return tuple(
        ChangedQuestion(
            index, shorten(labels[index], MOST_TEXT), _answers_text(was[index]), _answers_text(is_now[index])
        )
        for index in rows.tolist()
    )


def _answer_counts(scores: pa.Table, rows: Integers) -> dict[int, dict[str, int]]:
    """Return how often each answer was given to each of these questions."""
    few = scores.filter(pc.is_in(scores["_index_"], value_set=pa.array(rows)))
    counts: dict[int, dict[str, int]] = {index: {} for index in rows.tolist()}
    for index, prediction in zip(
        few["_index_"].to_numpy().tolist(), few["prediction"].to_pylist(), strict=True
    ):
        answer = NO_ANSWER if prediction is None else prediction
        counts[index][answer] = counts[index].get(answer, 0) + 1
    return counts


def _answers_text(counts: Mapping[str, int]) -> str:
    """Return `8`, or `8 (2 of 3), 3 (1 of 3)` where the answers differ."""
    if len(counts) == 1:
        return shorten(next(iter(counts)), MOST_TEXT)
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{shorten(answer, MOST_TEXT)} ({times} of {total})" for answer, times in ordered)


def comparison_numbers(comparison: Comparison | NotComparable) -> dict[str, Any]:
    """Return the comparison for audit.json."""
    if isinstance(comparison, NotComparable):
        return {"comparable": False, "because": comparison.reason}
    return {
        "comparable": True,
        "questions": comparison.questions,
        "leftOut": comparison.not_compared,
        "baseline": comparison.baseline.value,
        "system": comparison.system.value,
        "rows": {"baseline": comparison.baseline_rows.numbers(), "system": comparison.system_rows.numbers()},
        "difference": comparison.difference,
        "p": comparison.p_value.p,
        "test": comparison.p_value.method,
        "counts": {
            "bothRight": comparison.contingency.both_right,
            "onlyBaseline": comparison.contingency.only_baseline,
            "onlySystem": comparison.contingency.only_system,
            "bothWrong": comparison.contingency.both_wrong,
        },
        "changes": {
            change.kind: {"total": change.total, "shown": list(change.shown)} for change in comparison.changes
        },
    }
