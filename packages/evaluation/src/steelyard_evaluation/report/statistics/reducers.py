"""Reducers, which make one score from several answers to one question: mean, majority, best, pass@k.

`scoring.summarise` calls `reduce_scores` with the requested names. Each question has the same weight, whatever the
number of its answers.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.results import Metric, Unit
from steelyard_evaluation.report.rubrics.answer import comparison_label, label_of_any_type
from steelyard_evaluation.report.rubrics.normalisation import normal_form
from steelyard_evaluation.report.statistics.intervals import (
    Floats,
    Integers,
    encode_texts,
    proportion,
    row_clusters,
)
from steelyard_evaluation.report.status import FAILED, has_status, score_values
from steelyard_evaluation.report.summary import score_mean
from steelyard_evaluation.report.wording import count, count_noun

NAMES = ("mean", "majority", "best")


@dataclass(frozen=True)
class ScoresByQuestion:
    """The scores of all answers, with the question of each answer as a number from 0."""

    scores: pa.Table
    question: Integers
    clusters: Integers
    """The cluster of each question."""
    lead: Metric
    binary: bool

    @property
    def questions(self) -> int:
        return int(self.clusters.size)

    @property
    def times(self) -> Integers:
        """Number of answers to each question, those that are left out among them."""
        return np.bincount(self.question, minlength=self.questions).astype(np.int64)

    @property
    def answer_counts(self) -> Integers:
        """Number of answers to each question that have a score."""
        there = np.isfinite(self.values)
        return np.bincount(self.question[there], minlength=self.questions).astype(np.int64)

    @property
    def failure_mask(self) -> NDArray[np.bool_]:
        """Mask of the rows without an answer."""
        return np.asarray(has_status(self.scores, FAILED).to_numpy(), dtype=np.bool_)

    @property
    def values(self) -> Floats:
        """Score of each answer; NaN for an answer without a score. A question without any score is left out."""
        return score_values(self.scores)


def check_reducers(names: Sequence[str], replications: int | None = None) -> None:
    """Raise UsageError for an unknown reducer, or one that needs more answers to a question than `replications`."""
    for name in names:
        k = _parse_k(name)
        if name not in NAMES and k is None:
            raise UsageError(f"reducer {name!r}: should be {', '.join(NAMES)} or pass@k, such as pass@5")
        if k is not None and replications is not None and k > replications:
            raise UsageError(
                f"reducer {name}: needs at least {k} answers to each question; {replications} are asked for"
            )


def reduce_scores(scores: pa.Table, lead: Metric, names: Sequence[str]) -> tuple[Metric, ...]:
    """Return a metric for each reducer; `lead` is the rubric's own first one. Raises UsageError if one does not fit."""
    check_reducers(names)
    unique, first, question = np.unique(scores["_index_"].to_numpy(), return_index=True, return_inverse=True)
    clusters = row_clusters(scores)[first] if unique.size else unique
    # Scores on another scale may all be 0: then they look like those of answers that are right or wrong.
    binary = lead.unit == "share" and right_or_wrong(scores)
    scored = ScoresByQuestion(scores, question.astype(np.int64), clusters, lead, binary)
    return tuple(_metric(scored, name) for name in dict.fromkeys(names))


def right_or_wrong(scores: pa.Table) -> bool:
    """Return whether the score of each answer says no more than whether it is right."""
    return bool(pc.all(pc.equal(scores["score"], pc.cast(scores["correct"], pa.float64()))).as_py())


def pass_at_k(n: Integers, c: Integers, k: int) -> Floats:
    """Return the chance that one of k answers is right, drawn from n with c right ones: 1 - C(n-c, k) / C(n, k).

    Unbiased where answers are independent (Chen et al. 2021, "Evaluating Large Language Models Trained on Code").
    """
    from scipy.special import gammaln

    wrong = n - c
    certain = wrong < k
    drawn = np.where(certain, k, wrong)  # keeps gammaln defined where every draw holds a right answer
    logs = gammaln(drawn + 1) - gammaln(drawn - k + 1) - gammaln(n + 1) + gammaln(n - k + 1)
    return np.asarray(np.where(certain, 1.0, np.where(c == 0, 0.0, -np.expm1(logs))), dtype=np.float64)


def _metric(scored: ScoresByQuestion, name: str) -> Metric:
    k = _parse_k(name)
    if k is not None:
        chances = _pass_at_k(scored, k)
        note = f"a right answer is among {k}, drawn from {_times(scored, chances)}"
        return _estimate(scored, name, chances, (name, note, "share"))
    title, note, reduced = _REDUCERS[name]
    values = reduced(scored)
    metric = _estimate(scored, name, values, (title, f"{note} of {_times(scored, values)}", scored.lead.unit))
    if name == "mean" and np.unique(scored.answer_counts).size == 1 and scored.lead.estimate.low is not None:
        # Where each question counts as often, this is the mean over rows, and has its interval.
        return replace(metric, estimate=scored.lead.estimate)
    return metric


def _times(scored: ScoresByQuestion, values: Floats) -> str:
    """Return `5 answers to each question`: answers with a score, and how many questions have too few of them.

    Where a row failed, it says `5 rows of each question`: a failed row counts as wrong, and not as an answer.
    """
    counted_questions = np.isfinite(values)
    left_out = int(np.count_nonzero(~counted_questions))
    times = scored.answer_counts[counted_questions]
    least, most = (int(times.min()), int(times.max())) if times.size else (0, 0)
    without = f"; {count_noun(left_out, 'question')} left out, with too few answers that have a score"
    noun, to = ("row", "of") if scored.failure_mask.any() else ("answer", "to")
    times_text = count_noun(most, noun) if least == most else f"{count(least)} to {count(most)} {noun}s"
    return f"{times_text} {to} each question{without if left_out else ''}"


def _estimate(scored: ScoresByQuestion, name: str, values: Floats, shown: tuple[str, str, Unit]) -> Metric:
    title, note, unit = shown
    if scored.binary and np.isin(values, (0.0, 1.0)).all():
        estimate = proportion(values == 1, scored.clusters)
    else:
        estimate = score_mean(pa.table({"score": values}), scored.clusters, unit, scored.lead.scale)
    scale = scored.lead.scale if unit == scored.lead.unit else None
    return Metric(f"{scored.lead.name}_{name}", f"{scored.lead.title}, {title}", estimate, unit, note, scale)


def _mean(scored: ScoresByQuestion) -> Floats:
    return _means(scored.values, scored.question, scored.questions)


def _means(values: Floats, group: Integers, groups: int) -> Floats:
    """Return the mean of each group's scores; NaN for a group without scores."""
    has_score = np.isfinite(values)
    sums = np.bincount(group[has_score], weights=values[has_score], minlength=groups)
    counts = np.bincount(group[has_score], minlength=groups)
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), dtype=np.float64)


def _best(scored: ScoresByQuestion) -> Floats:
    best = np.full(scored.questions, np.nan)
    # `fmax` ignores NaN: an answer that could not be graded hides no better one.
    np.fmax.at(best, scored.question, scored.values)
    return best


def _majority(scored: ScoresByQuestion) -> Floats:
    """Return the score of each question's most frequent answer; the mean score of several that are as frequent.

    Answers are one where their values are equal. Failed rows vote as badly as they could have: a system gains nothing
    by staying silent. An answer without a prediction has no vote where another one has a prediction.
    """
    codes, different = _answers(scored.scores)
    width = different + 1
    answered = ~scored.failure_mask
    # One number stands for a question and a prediction; code 0 of a question is "no prediction".
    answers, answer = np.unique((scored.question * width + codes + 1)[answered], return_inverse=True)
    votes = np.bincount(answer, minlength=answers.size).astype(np.float64)
    score = _means(scored.values[answered], answer.astype(np.int64), answers.size)
    votes[answers % width == 0] = 0.5  # no prediction: less than any answer
    question = answers // width
    most = np.zeros(scored.questions)
    np.maximum.at(most, question, votes)
    wins = votes == most[question]
    values = _means(score[wins], question[wins], scored.questions)
    silent = np.bincount(scored.question[scored.failure_mask], minlength=scored.questions)
    for number in np.flatnonzero(silent).tolist():
        here = slice(*np.searchsorted(question, [number, number + 1]))
        values[number] = _worst_vote(votes[here], score[here], int(silent[number]))
    return values


def _answers(scores: pa.Table) -> tuple[Integers, int]:
    """Return the prediction of each row as a number, -1 for none, and how many different ones there are.

    Two wrong texts are compared as texts. Two right ones are equal to the target, which may be a number: then "0.50"
    and "0.5" are one answer, and for a rubric that normalises texts, so are "Paris" and "paris.".
    """
    codes, texts = encode_texts(scores["prediction"])
    column: Any = scores["correct"]
    right = np.asarray(pc.fill_null(column, False).to_numpy(), dtype=np.int64)
    numbers: dict[tuple[int, str], int] = {}
    of_text = np.array(
        [
            [numbers.setdefault((0, comparison_label(text, "").strip()), len(numbers)) for text in texts],
            [numbers.setdefault((1, normal_form(label_of_any_type(text))), len(numbers)) for text in texts],
        ],
        dtype=np.int64,
    )
    return np.where(codes < 0, -1, of_text[right, codes] if texts else -1), len(numbers)


def _worst_vote(votes: Floats, score: Floats, silent: int) -> float:
    """Return the lowest outcome of a vote with `silent` votes more, all for one of the answers, or for a new wrong one.

    NaN where only answers without a score could win.
    """
    votes, score = np.append(votes, 0.0), np.append(score, 0.0)
    outcomes = []
    for answer in range(votes.size):
        with_silent = votes.copy()
        with_silent[answer] += silent
        winners = score[with_silent == with_silent.max()]
        outcomes += [float(winners[np.isfinite(winners)].mean())] if np.isfinite(winners).any() else []
    return min(outcomes, default=float("nan"))


def _pass_at_k(scored: ScoresByQuestion, k: int) -> Floats:
    times = scored.times
    if times.size and times.min() < k:
        index = scored.scores["_index_"][int(np.argmax(scored.question == np.argmin(times)))].as_py()
        raise UsageError(
            f"reducer pass@{k}: needs at least {k} answers to each question; row {index} has {int(times.min())}"
        )
    has_score = np.isfinite(scored.values)
    column: Any = scored.scores["correct"]
    correct = has_score & np.asarray(pc.fill_null(column, False).to_numpy(), dtype=np.bool_)
    right = np.bincount(scored.question[correct], minlength=scored.questions)
    known = np.bincount(scored.question[has_score], minlength=scored.questions)
    chances = pass_at_k(np.maximum(known, k), right, k)
    return np.asarray(np.where(known >= k, chances, np.nan), dtype=np.float64)


def _parse_k(name: str) -> int | None:
    match = re.fullmatch(r"pass@([1-9]\d{0,5})", name)
    return int(match[1]) if match else None


_REDUCERS: dict[str, tuple[str, str, Callable[[ScoresByQuestion], Floats]]] = {
    "mean": ("mean of the answers", "the mean", _mean),
    "majority": ("majority vote", "the most frequent", _majority),
    "best": ("best answer", "the best", _best),
}
