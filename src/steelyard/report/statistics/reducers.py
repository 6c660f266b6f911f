"""Reducers, which make one score of several answers to one question: mean, majority, best, pass@k.

`scoring.summarise` calls `reduced` with the names that were asked for. Each question counts the same, however often it
was asked.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import gammaln

from steelyard.errors import UsageError
from steelyard.report.results import Metric, Unit
from steelyard.report.statistics.intervals import Floats, Integers, clusters_of, codes_of, proportion
from steelyard.report.status import FAILED, has_status, values_of
from steelyard.report.summary import score_mean
from steelyard.report.wording import count

NAMES = ("mean", "majority", "best")


@dataclass(frozen=True)
class Asked:
    """The scores of all answers, with the question of each as a number from 0."""

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
        return np.bincount(self.question, minlength=self.questions).astype(np.int64)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """The rows without an answer."""
        return np.asarray(has_status(self.scores, FAILED).to_numpy(), dtype=np.bool_)

    @property
    def values(self) -> Floats:
        """NaN of an answer without a score: it adds nothing, and a question without any is left out."""
        return values_of(self.scores)


def check_reducers(names: Sequence[str], replications: int | None = None) -> None:
    """UsageError for a reducer that there is not, or that so many answers to a question are too few for."""
    for name in names:
        k = _pass_at(name)
        if name not in NAMES and k is None:
            raise UsageError(f"reducer {name!r}: should be {', '.join(NAMES)} or pass@k, such as pass@5")
        if k is not None and replications is not None and k > replications:
            raise UsageError(
                f"reducer {name}: needs at least {k} answers to each question; {replications} are asked for"
            )


def reduced(scores: pa.Table, lead: Metric, names: Sequence[str]) -> tuple[Metric, ...]:
    """A metric for each reducer; `lead` is the rubric's own first one. UsageError says what does not fit."""
    check_reducers(names)
    unique, first, question = np.unique(scores["_index_"].to_numpy(), return_index=True, return_inverse=True)
    clusters = clusters_of(scores)[first] if unique.size else unique
    scored = Asked(scores, question.astype(np.int64), clusters, lead, right_or_wrong(scores))
    return tuple(_metric(scored, name) for name in dict.fromkeys(names))


def right_or_wrong(scores: pa.Table) -> bool:
    """Tell whether the score of each answer says no more than whether it is right."""
    return bool(pc.all(pc.equal(scores["score"], pc.cast(scores["correct"], pa.float64()))).as_py())


def pass_at_k(n: Integers, c: Integers, k: int) -> Floats:
    """The chance that of k answers, drawn from n of which c are right, one is: 1 - C(n-c, k) / C(n, k).

    Unbiased where answers are independent (Chen et al. 2021, "Evaluating Large Language Models Trained on Code").
    """
    wrong = n - c
    never = wrong < k
    drawn = np.where(never, k, wrong)  # where every draw holds a right answer the formula is not asked
    logs = gammaln(drawn + 1) - gammaln(drawn - k + 1) - gammaln(n + 1) + gammaln(n - k + 1)
    return np.asarray(np.where(never, 1.0, np.where(c == 0, 0.0, -np.expm1(logs))), dtype=np.float64)


def _metric(scored: Asked, name: str) -> Metric:
    k = _pass_at(name)
    if k is not None:
        note = f"a right answer is among {k}, drawn from {_times(scored.times)} to each question"
        return _estimated(scored, name, _pass(scored, k), (name, note, "share"))
    title, note, values = _REDUCERS[name]
    note = f"{note} of {_times(scored.times)} to each question"
    return _estimated(scored, name, values(scored), (title, note, scored.lead.unit))


def _times(times: Integers) -> str:
    least, most = int(times.min()), int(times.max())
    return f"{count(most)} answers" if least == most else f"{count(least)} to {count(most)} answers"


def _estimated(scored: Asked, name: str, values: Floats, shown: tuple[str, str, Unit]) -> Metric:
    title, note, unit = shown
    if scored.binary and np.isin(values, (0.0, 1.0)).all():
        estimate = proportion(values == 1, scored.clusters)
    else:
        estimate = score_mean(pa.table({"score": values}), scored.clusters, unit, scored.lead.scale)
    return Metric(f"{scored.lead.name}_{name}", f"{scored.lead.title}, {title}", estimate, unit, note)


def _mean(scored: Asked) -> Floats:
    return _means(scored.values, scored.question, scored.questions)


def _means(values: Floats, group: Integers, groups: int) -> Floats:
    """The mean of each group's scores; NaN where it has none."""
    scored = np.isfinite(values)
    sums = np.bincount(group[scored], weights=values[scored], minlength=groups)
    counts = np.bincount(group[scored], minlength=groups)
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), dtype=np.float64)


def _best(scored: Asked) -> Floats:
    best = np.full(scored.questions, np.nan)
    np.fmax.at(best, scored.question, scored.values)
    return best


def _majority(scored: Asked) -> Floats:
    """The score of the answer that was given most often; of several as frequent, their mean.

    Rows that failed vote as badly as they could have: a system gains nothing by staying silent. An answer in which
    nothing was found has no vote beside one in which something was.
    """
    codes, texts = codes_of(scored.scores["prediction"])
    width = len(texts) + 1
    answered = ~scored.failed
    answers, place = np.unique((scored.question * width + codes + 1)[answered], return_inverse=True)
    votes = np.bincount(place, minlength=answers.size).astype(np.float64)
    score = _means(scored.values[answered], place.astype(np.int64), answers.size)
    votes[answers % width == 0] = 0.5  # nothing found: less than any answer
    question = answers // width
    most = np.zeros(scored.questions)
    np.maximum.at(most, question, votes)
    wins = votes == most[question]
    values = _means(score[wins], question[wins], scored.questions)
    silent = np.bincount(scored.question[scored.failed], minlength=scored.questions)
    for number in np.flatnonzero(silent).tolist():
        here = slice(*np.searchsorted(question, [number, number + 1]))
        values[number] = _worst_vote(votes[here], score[here], int(silent[number]))
    return values


def _worst_vote(votes: Floats, score: Floats, silent: int) -> float:
    """The lowest outcome of a vote to which so many votes are added: all to one of the answers, or to a wrong one more.

    NaN where only answers without a score could win.
    """
    votes, score = np.append(votes, 0.0), np.append(score, 0.0)
    outcomes = []
    for place in range(votes.size):
        with_silent = votes.copy()
        with_silent[place] += silent
        winners = score[with_silent == with_silent.max()]
        outcomes += [float(winners[np.isfinite(winners)].mean())] if np.isfinite(winners).any() else []
    return min(outcomes, default=float("nan"))


def _pass(of_questions: Asked, k: int) -> Floats:
    times = of_questions.times
    if times.size and times.min() < k:
        index = of_questions.scores["_index_"][
            int(np.argmax(of_questions.question == np.argmin(times)))
        ].as_py()
        raise UsageError(
            f"reducer pass@{k}: needs at least {k} answers to each question; row {index} has {int(times.min())}"
        )
    scored = np.isfinite(of_questions.values)
    column: Any = of_questions.scores["correct"]
    correct = scored & np.asarray(pc.fill_null(column, False).to_numpy(), dtype=np.bool_)
    right = np.bincount(of_questions.question[correct], minlength=of_questions.questions)
    known = np.bincount(of_questions.question[scored], minlength=of_questions.questions)
    chances = pass_at_k(np.maximum(known, k), right, k)
    return np.asarray(np.where(known >= k, chances, np.nan), dtype=np.float64)


def _pass_at(name: str) -> int | None:
    match = re.fullmatch(r"pass@([1-9]\d{0,5})", name)
    return int(match[1]) if match else None


_REDUCERS: dict[str, tuple[str, str, Callable[[Asked], Floats]]] = {
    "mean": ("mean of the answers", "the mean", _mean),
    "majority": ("majority vote", "the most frequent", _majority),
    "best": ("best answer", "the best", _best),
}
