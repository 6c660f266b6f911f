"""Rubrics of shared words: `overlap.Bleu` and `overlap.ChrF`, which are sacrebleu's, and `overlap.Rouge`.

BLEU and chrF are numbers of the whole corpus, from 0 to 100. Each row keeps its counts, so that the number of the
corpus, also without some of its rows, follows from their sums. A row's `score` is that of its sentence.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rapidfuzz.distance import LCSseq

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Compared, Metric, Results
from steelyard_evaluation.report.rubrics.normalisation import words
from steelyard_evaluation.report.rubrics.rows import (
    FIELD,
    TARGET,
    answer_text,
    is_empty_as_asked,
    overlap_text,
    schema,
    score_row,
    targets,
)
from steelyard_evaluation.report.rubrics.text import f1
from steelyard_evaluation.report.statistics.clusters import (
    Sums,
    jackknife_error,
    student_method,
    student_quantile,
    too_few,
)
from steelyard_evaluation.report.statistics.intervals import Estimate, Floats, row_clusters
from steelyard_evaluation.report.summary import ScoreKind, rows_or_answers, summarise_scores
from steelyard_evaluation.report.wording import between_text, decimal

Tokenizer = Literal["13a", "intl", "zh", "char", "none"]

FEWEST = 10
"""Fewest independent answers for the interval of a number of the whole corpus."""
_ORDERS = 4
_SCALE = (0.0, 100.0)
_COUNTS = schema(("counts", pa.list_(pa.int64())))
_ROUGES = schema(("rouge1", pa.float64()), ("rouge2", pa.float64()), ("rougeL", pa.float64()))


@dataclass(frozen=True)
class Bleu:
    """BLEU-4 of the corpus, with sacrebleu's tokenizers and exponential smoothing; several targets are references.

    A row whose sentence BLEU is 0 or below `threshold` is shown among the failures.
    """

    target: str = TARGET
    field: str = FIELD
    tokenize: Tokenizer = "13a"
    lowercase: bool = False
    threshold: float = 0.0

    compares: ClassVar[Compared] = "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return _COUNTS

    def score(self, answer: Answer) -> Json:
        truth, said = targets(answer, self.target), answer_text(answer, self.field)
        shared = overlap_text(answer, self.target, self.field) or ""
        counts = _sacrebleu_counts(_bleu_metric(self.tokenize, self.lowercase), shared, truth)
        score = float(bleu(np.array([counts], dtype=np.float64), effective_order=True)[0])
        score = _SCALE[1] if is_empty_as_asked(answer, self.target, self.field) else score
        return score_row(score, truth, said, score > 0 and score >= self.threshold) | {"counts": counts}

    def summarise(self, scores: pa.Table) -> Results:
        signature = f"sacrebleu, tokenizer {self.tokenize}, {_case(self.lowercase)}, smoothing exp"
        return _corpus_results(
            scores, ScoreKind("bleu", "BLEU", unit="number", note=signature, binary=False), BLEU
        )


@dataclass(frozen=True)
class ChrF:
    """chrF2 of the corpus: F of character n-grams up to 6; with `word_order=2`, chrF++. Several targets: the best."""

    target: str = TARGET
    field: str = FIELD
    word_order: int = 0
    lowercase: bool = False
    threshold: float = 0.0

    compares: ClassVar[Compared] = "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return _COUNTS

    def score(self, answer: Answer) -> Json:
        truth, said = targets(answer, self.target), answer_text(answer, self.field)
        shared = overlap_text(answer, self.target, self.field) or ""
        counts = _sacrebleu_counts(_chrf_metric(self.word_order, self.lowercase), shared, truth)
        score = float(chrf(np.array([counts], dtype=np.float64))[0])
        score = _SCALE[1] if is_empty_as_asked(answer, self.target, self.field) else score
        return score_row(score, truth, said, score > 0 and score >= self.threshold) | {"counts": counts}

    def summarise(self, scores: pa.Table) -> Results:
        name = (
            f"chrF2{'+' * self.word_order}"
            if self.word_order <= 2
            else f"chrF2, words up to {self.word_order}"
        )
        note = f"sacrebleu, characters up to 6, words up to {self.word_order}, {_case(self.lowercase)}"
        return _corpus_results(scores, ScoreKind("chrf", name, unit="number", note=note, binary=False), CHRF)


@dataclass(frozen=True)
class Rouge:
    """F1 of shared words (ROUGE-1), pairs of words (ROUGE-2) and the longest common subsequence (ROUGE-L).

    `variant` leads; of several targets the best counts, for each by itself.
    """

    target: str = TARGET
    field: str = FIELD
    variant: Literal["1", "2", "L"] = "L"
    threshold: float = 0.0

    compares: ClassVar[Compared] = "texts"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return _ROUGES

    def score(self, answer: Answer) -> Json:
        truth, said = targets(answer, self.target), answer_text(answer, self.field)
        shared = overlap_text(answer, self.target, self.field) or ""
        values = rouge(shared, truth)
        if is_empty_as_asked(answer, self.target, self.field):
            values = dict.fromkeys(values, 1.0)
        score = values[self.variant]
        row = score_row(score, truth, said, score > 0 and score >= self.threshold)
        return row | {f"rouge{variant}": value for variant, value in values.items()}

    def summarise(self, scores: pa.Table) -> Results:
        """Return the results of the leading variant, with the others as further metrics."""
        order = [self.variant, *(other for other in ("1", "2", "L") if other != self.variant)]
        variant_results = [_rouge_results(scores, variant) for variant in order]
        lead, others = variant_results[0], variant_results[1:]
        more = tuple(metric for results in others for metric in results.metrics[:1])
        return Results(
            headline=lead.headline,
            metrics=(lead.metrics[0], *more, *lead.metrics[1:]),
            figures=lead.figures,
            tables=lead.tables,
            limits=lead.limits,
            numbers=lead.numbers,
        )


def _rouge_results(scores: pa.Table, variant: str) -> Results:
    place = scores.schema.get_field_index("score")
    chosen = scores.set_column(place, "score", scores[f"rouge{variant}"])
    title = f"ROUGE-{variant}"
    note = "mean over the answers of F1, without stemming"
    return summarise_scores(chosen, ScoreKind(f"rouge{variant}", title, note=note, binary=False))


def bleu(sums: Floats, *, effective_order: bool = False) -> Floats:
    """Return BLEU for each row of counts (length of answers, of references, n-grams right, n-grams): sacrebleu's
    formula with its exponential smoothing, for many corpora at once.
    """
    length, reference = sums[:, 0], sums[:, 1]
    right, total = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS : 2 + 2 * _ORDERS]
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(length > 0, np.exp(1 - reference / length), 0.0)
        brevity = np.where(length < reference, penalty, 1.0)
        halved = np.cumsum(right == 0, axis=1)  # every order without a match halves the smoothed count again
        shares = np.where(right > 0, right, 0.5**halved) / total
        logs = np.where(total > 0, np.log(shares), 0.0 if effective_order else -np.inf)
        orders = np.maximum((total > 0).sum(axis=1), 1) if effective_order else _ORDERS
        values = 100 * brevity * np.exp(logs.sum(axis=1) / orders)
    return np.where(right.any(axis=1), values, 0.0)


def chrf(sums: Floats, beta: float = 2) -> Floats:
    """Return chrF for each row of counts (n-grams of the answers, of the references, shared, per order): sacrebleu's
    formula for many corpora at once.
    """
    answered, reference, shared = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    both = (answered > 0) & (reference > 0)
    orders = np.maximum(both.sum(axis=1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(both, shared / answered, 0.0).sum(axis=1) / orders
        recall = np.where(both, shared / reference, 0.0).sum(axis=1) / orders
        values = 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
    return np.where(precision + recall > 0, values, 0.0)


@dataclass(frozen=True)
class Corpus:
    """Functions that compute the number of a corpus from sums of its rows' counts."""

    number: Callable[[Floats], Floats]
    """Function that gives the number for each row of sums."""
    ends: Callable[[Floats], Floats]
    """Function that makes, from a row's counts, those of an equally long row that is all wrong, and one all right."""

    def estimate(self, parts: Floats, sizes: Floats) -> Estimate:
        """Return the number with Student's interval from its jackknife error; `parts` has a row per cluster of rows.

        One more cluster at both ends keeps the interval from trusting the spread of few rows.
        """
        value = float(self.number(parts.sum(axis=0, keepdims=True))[0])
        sums, n = Sums(sizes, sizes), int(sizes.sum())
        if sums.equivalent < FEWEST:
            reason = f"no interval: {too_few(sums, FEWEST)}"
            return Estimate(value, None, None, reason, n)
        wider = np.concatenate([parts, self.ends(parts.sum(axis=0) * sums.typical / n)])
        centre = float(self.number(wider.sum(axis=0, keepdims=True))[0])
        half = student_quantile(sums.freedom) * jackknife_error(wider, self.number)
        low, high = max(_SCALE[0], min(value, centre - half)), min(_SCALE[1], max(value, centre + half))
        method = student_method(sums, n, "at each end of the scale")
        return Estimate(value, low, high, method, n, jackknife_error(parts, self.number))


def _bleu_ends(counts: Floats) -> Floats:
    wrong, right = counts.copy(), counts.copy()
    wrong[2 : 2 + _ORDERS] = 0
    right[1], right[2 : 2 + _ORDERS] = right[0], right[2 + _ORDERS :]
    return np.stack([wrong, right])


def _chrf_ends(counts: Floats) -> Floats:
    wrong, right = counts.copy(), counts.copy()
    wrong[2::3] = 0
    right[1::3] = right[2::3] = right[0::3]
    return np.stack([wrong, right])


BLEU, CHRF = Corpus(bleu, _bleu_ends), Corpus(chrf, _chrf_ends)


def _corpus_results(scores: pa.Table, what: ScoreKind, corpus: Corpus) -> Results:
    """Return results of all rows' sentences, led by the corpus' own number with its interval."""
    counts = _matrix(scores["counts"])
    # Every answer and target is empty: each sentence is right, and there is nothing to count.
    if not counts.any() and pc.any(pc.greater(scores["score"], pa.scalar(0.0))).as_py():
        reason = "undefined: neither answers nor targets have words"
        return _results_led_by(Estimate(None, None, None, reason, scores.num_rows), what, scores)
    units, codes = np.unique(row_clusters(scores), return_inverse=True)
    parts = np.zeros((units.size, counts.shape[1]))
    np.add.at(parts, codes, counts)
    return _results_led_by(corpus.estimate(parts, np.bincount(codes).astype(np.float64)), what, scores)


def _results_led_by(estimate: Estimate, what: ScoreKind, scores: pa.Table) -> Results:
    title = f"Mean {what.title} of sentences"
    sentence = ScoreKind(f"{what.name}_sentence", title, "number", "mean", binary=False, scale=_SCALE)
    results = summarise_scores(scores, sentence)
    metric = Metric(what.name, what.title, estimate, "number", what.note, _SCALE)
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f" (95 % interval {between_text(estimate, 'number', _SCALE)})"
    reach = rows_or_answers(scores, estimate.n)
    value = "undefined" if estimate.value is None else decimal(estimate.value, _SCALE)
    return Results(
        headline=f"{what.title} of {reach} is {value}{interval}.",
        metrics=(metric, *results.metrics),
        figures=results.figures,
        tables=results.tables,
        limits=results.limits,
        numbers=results.numbers,
    )


def _matrix(column: "pa.ChunkedArray[Any]") -> Floats:
    """Return a column of lists of equal length as a matrix."""
    flat = pc.list_flatten(column).to_numpy()
    return np.asarray(flat, dtype=np.float64).reshape(len(column), -1)


def _sacrebleu_counts(metric: Any, said: str, truth: Sequence[str]) -> list[int]:
    """Return sacrebleu's counts for one sentence. They are private to it, so the tests compare our numbers
    with its public ones.
    """
    return [int(n) for n in metric._extract_corpus_statistics([said], [[one] for one in truth])[0]]


@functools.cache
def _bleu_metric(tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenize, lowercase=lowercase)


@functools.cache
def _chrf_metric(word_order: int, lowercase: bool) -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=word_order, lowercase=lowercase)


def _case(lowercase: bool) -> str:
    return "lower-cased" if lowercase else "case kept"


def rouge(said: str, truth: Sequence[str]) -> dict[str, float]:
    """Return ROUGE-1, -2 and -L (Lin 2004), the best over the targets of each; a text without words scores 0."""
    tokens = words(said)
    candidates = [_rouge(tokens, words(target)) for target in truth]
    return {name: max(scores[name] for scores in candidates) for name in ("1", "2", "L")}


def _rouge(said: list[str], true: list[str]) -> dict[str, float]:
    if not said or not true:
        return {"1": 0.0, "2": 0.0, "L": 0.0}
    # In C++: the table of two answers of thousands of words would take Python seconds.
    common = LCSseq.similarity(said, true)
    return {
        "1": f1(said, true),
        "2": f1(_pairs(said), _pairs(true)) if len(said) > 1 and len(true) > 1 else 0.0,
        "L": 2 * common / (len(said) + len(true)),
    }


def _pairs(tokens: Sequence[str]) -> list[tuple[str, str]]:
    return list(itertools.pairwise(tokens))
