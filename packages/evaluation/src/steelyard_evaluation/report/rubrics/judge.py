"""The rubric `judge.Verdict`: the verdict of a judge model on each answer, and its agreement with a second judge.

It calls no model: it reads the verdicts that `runs/judge` stored with the answers, in the field `verdicts` of each
response. An answer without a readable verdict has no score; it is left out, and counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import Json
from steelyard_evaluation.report.results import Answer, Cell, Metric, Results, Table
from steelyard_evaluation.report.rubrics.answer import is_blank
from steelyard_evaluation.report.rubrics.rows import (
    FIELD,
    TARGET,
    answer_text,
    is_empty_as_asked,
    schema,
    score_row,
    targets,
)
from steelyard_evaluation.report.statistics.clusters import jackknife_error, sum_clusters, too_few
from steelyard_evaluation.report.statistics.intervals import (
    Estimate,
    Floats,
    Integers,
    encode_texts,
    interval_from_error,
    proportion,
    row_clusters,
)
from steelyard_evaluation.report.status import FAILED, has_status
from steelyard_evaluation.report.summary import ScoreKind, score_mean, summarise_scores
from steelyard_evaluation.report.wording import count_noun
from steelyard_schema.columns import value

VERDICTS = "verdicts"
FEWEST_OF_KAPPA = 30
"""Fewest independent answers for the interval of kappa."""
_SCHEMA = schema(
    ("judge", pa.string()),
    ("verdict", pa.string()),
    ("reason", pa.string()),
    ("fault", pa.string()),
    ("pairs", pa.int32()),
    ("flips", pa.int32()),
    ("second_judge", pa.string()),
    ("second_verdict", pa.string()),
    ("second_score", pa.float64()),
    ("second_reason", pa.string()),
    ("second_fault", pa.string()),
)
_UNREAD = "could not be read"
_REASON = 2000  # characters that are kept


class NoVerdicts(ValueError):
    """Error of a rubric whose judge, or any judge, has given no verdict on these answers."""


@dataclass(frozen=True)
class Verdict:
    """The grade that a judge gave; an answer worth `threshold` or more is right. `judge` is its name (by default the
    first one's), `second` that of the judge whose agreement is reported (by default the next one's).
    """

    judge: str = ""
    second: str = ""
    threshold: float = 1.0
    target: str = f"{TARGET}|"
    field: str = FIELD
    sees_left_out: ClassVar[bool] = True
    """Verdicts of either judge are counted on every answer, though the score needs the first one's."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def scores(self) -> pa.Schema:
        return _SCHEMA

    def score(self, answer: Answer) -> Json:
        shown = () if value(self.target, answer.row) is None else targets(answer, self.target)
        said = answer_text(answer, self.field)
        nothing: Json = dict.fromkeys(_SCHEMA.names[4:])
        # An empty answer is wrong, whatever the judge made of it, unless nothing else was asked for.
        empty = said is None or (
            is_blank(said) and not (shown and is_empty_as_asked(answer, self.target, self.field))
        )
        if not answer.responses or empty:
            return score_row(0.0, shown, said, False) | nothing
        first, second = self._read_verdicts(answer.responses[0], answer.index)
        worth = first.get("score")
        columns = {
            "judge": first.get("judge"),
            "verdict": first.get("verdict"),
            "reason": _reason(first),
            "fault": first.get("error"),
            "pairs": first.get("pairs"),
            "flips": first.get("flips"),
            "second_judge": second.get("judge"),
            "second_verdict": second.get("verdict"),
            "second_score": second.get("score"),
            "second_reason": _reason(second),
            "second_fault": second.get("error"),
        }
        if worth is None:  # it was not graded: it is neither right nor wrong
            return score_row(0.0, shown, said, False) | {"score": None, "correct": None} | columns
        return score_row(worth, shown, said, worth >= self.threshold) | columns

    def _read_verdicts(
        self, response: Mapping[str, Any], index: int
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the verdict of this judge, and that of the second one; empty if there is none. Raises NoVerdicts."""
        verdicts: Sequence[Mapping[str, Any]] = response.get(VERDICTS) or ()
        if not verdicts:
            raise NoVerdicts(f"no judge was asked about the answer to row {index} (--judge-model)")
        first = next(
            (verdict for verdict in verdicts if not self.judge or verdict["judge"] == self.judge), None
        )
        if first is None:
            there = ", ".join(verdict["judge"] for verdict in verdicts)
            raise NoVerdicts(
                f"there is no judge {self.judge!r} of the answer to row {index}; there are: {there}"
            )
        others = (verdict for verdict in verdicts if verdict is not first)
        second = next(
            (verdict for verdict in others if not self.second or verdict["judge"] == self.second), None
        )
        if second is None and self.second:
            raise NoVerdicts(f"there is no second judge {self.second!r} of the answer to row {index}")
        return first, second or {}

    def summarise(self, scores: pa.Table) -> Results:
        pairs = scores.filter(pc.is_valid(scores["pairs"]))
        note = "the mean worth of the verdicts; a model gave them, and may be wrong"
        if pairs.num_rows:
            note = "wins over the other answer, in both orders; ties count half; a model decided, and may be wrong"
        title = "Win rate" if pairs.num_rows else "Judge's grade"
        results = summarise_scores(scores, ScoreKind("verdict", title, binary=False, note=note))
        metrics, tables, limits = (
            [*results.metrics],
            [*results.tables, *_verdict_table(scores)],
            [*results.limits],
        )
        metrics += [*_order_metric(pairs), *_second_judge_metric(scores)]
        unread = scores.num_rows - scores["fault"].null_count
        if unread:
            limits.append(
                f"Of {count_noun(unread, 'answer')} no verdict could be read: left out of every number."
            )
        both = scores.filter(pc.and_(pc.is_valid(scores["verdict"]), pc.is_valid(scores["second_verdict"])))
        numbers = dict(results.numbers)
        if both.num_rows:
            agreement = measure_agreement(both)
            metrics += agreement.metrics
            tables.append(agreement.table)
            numbers["agreement"] = agreement.numbers
        elif _judge_name(scores, "second_judge") is None:
            # Said in every report: a number that one model gave is easily taken for a measurement.
            limits.append("No second judge was asked: how far judges agree here is unknown.")
        else:
            limits.append("Two judges were asked, and of no answer could the verdicts of both be read.")
        return replace(
            results, metrics=tuple(metrics), tables=tuple(tables), limits=tuple(limits), numbers=numbers
        )


@dataclass(frozen=True)
class Agreement:
    """Agreement of two judges."""

    metrics: tuple[Metric, ...]
    table: Table
    numbers: Json


def measure_agreement(both: pa.Table) -> Agreement:
    """Return the agreement on the answers that both judges gave a verdict on: the share of equal verdicts,
    and Cohen's kappa, which subtracts agreement by chance.
    """
    columns = both["verdict"], both["second_verdict"]
    names = sorted({str(name) for column in columns for name in column.unique().to_pylist()})
    first, second = _codes(both["verdict"], names), _codes(both["second_verdict"], names)
    clusters = row_clusters(both)
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (first, second), 1)
    share = Metric(
        "agreement",
        "Agreement of the judges",
        proportion(first == second, clusters),
        note="answers that both judges gave the same verdict",
    )
    cohen = Metric(
        "kappa",
        "Cohen's kappa",
        kappa_estimate(first, second, clusters),
        unit="number",
        note="agreement beyond chance: 1 is full agreement, 0 that of chance",
    )
    rows: list[tuple[Cell, ...]] = [(name, *map(int, counts[row])) for row, name in enumerate(names)]
    table = Table("Verdicts of both judges", ("First judge ↓, second →", *names), tuple(rows))
    return Agreement((share, cohen), table, {"verdicts": names, "matrix": counts.tolist()})


def kappa_estimate(first: Integers, second: Integers, clusters: Integers) -> Estimate:
    """Return Cohen's kappa with the interval of the agreement, transformed to the scale of kappa; its size follows from
    kappa's jackknife error over clusters. Kappa is undefined if both judges gave only one verdict.
    """
    size = int(max(first.max(), second.max())) + 1
    parts = _cluster_sums(first, second, clusters, size)
    value = float(_kappa(parts.sum(axis=0, keepdims=True), size)[0])
    n = int(first.size)
    if not np.isfinite(value):
        return Estimate(
            None, None, None, "undefined: both judges gave one and the same verdict throughout", n
        )
    agreed = (first == second).astype(np.float64)
    sums = sum_clusters(agreed, clusters)
    if sums.equivalent < FEWEST_OF_KAPPA:
        return Estimate(value, None, None, f"no interval: {too_few(sums, FEWEST_OF_KAPPA)}", n)
    error = jackknife_error(parts, lambda totals: _kappa(totals, size))
    # Solved from kappa = (agreement − chance) / (1 − chance); at full agreement that says nothing of chance.
    chance = (sums.mean - value) / (1 - value) if value < 1 else _chance_agreement(parts, size)
    # On the scale of the agreement, where intervals near the ends are known to hold; kappa is linear in it.
    low, high, method = interval_from_error(sums.mean, error * (1 - chance), sums)
    low, high = (max(-1.0, (bound - chance) / (1 - chance)) for bound in (low, high))
    return Estimate(value, low, high, f"from the interval of the agreement: {method}", n, error)


def _cluster_sums(first: Integers, second: Integers, clusters: Integers, size: int) -> Floats:
    """Return the sums per cluster: equal verdicts, and the verdicts of each judge by value."""
    _, units = np.unique(clusters, return_inverse=True)
    parts = np.zeros((int(units.max()) + 1, 1 + 2 * size))
    parts[:, 0] = np.bincount(units, weights=(first == second).astype(np.float64))
    np.add.at(parts, (units, 1 + first), 1.0)
    np.add.at(parts, (units, 1 + size + second), 1.0)
    return parts


def _chance_agreement(parts: Floats, size: int) -> float:
    """Return the agreement that chance alone would give."""
    totals = parts.sum(axis=0)
    first, second = totals[1 : 1 + size], totals[1 + size :]
    return float((first * second).sum() / first.sum() ** 2)


def _kappa(sums: Floats, size: int) -> Floats:
    """Return kappa for each row of sums: equal verdicts, then each judge's verdicts by value."""
    first, second = sums[:, 1 : 1 + size], sums[:, 1 + size :]
    total = first.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = sums[:, 0] / total
        chance = (first * second).sum(axis=1) / total**2
        kappa = np.where(1 - chance > 1e-12, (observed - chance) / (1 - chance), np.nan)
    return np.asarray(kappa, dtype=np.float64)


def _codes(column: Any, names: Sequence[str]) -> Integers:
    codes, there = encode_texts(column)
    places = np.asarray([names.index(name) for name in there], dtype=np.int64)
    return places[codes]


def _verdict_table(scores: pa.Table) -> tuple[Table, ...]:
    """Return a table of how often each judge gave each verdict, and how often none could be read."""
    sides = [("verdict", "fault", _judge_name(scores, "judge") or "Answers")]
    if second := _judge_name(scores, "second_judge"):
        sides.append(("second_verdict", "second_fault", second))
    tallies = [_tally(scores, verdict, fault) for verdict, fault, _ in sides]
    verdicts = sorted(set().union(*tallies), key=lambda name: (-tallies[0][name], name))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(tally[name] for tally in tallies)) for name in verdicts
    )
    return (Table("Verdicts", ("Verdict", *(name for *_, name in sides)), rows),) if rows else ()


def _tally(scores: pa.Table, verdict: str, fault: str) -> Counter[str]:
    counts = Counter(str(name) for name in scores[verdict].drop_null().to_pylist())
    unread = scores.num_rows - scores[fault].null_count
    return counts + Counter({_UNREAD: unread})


def _order_metric(pairs: pa.Table) -> tuple[Metric, ...]:
    """Return the share of pairs whose verdict changed with the order in which the answers were shown."""
    if not pairs.num_rows:
        return ()
    shares: Any = pc.divide(pc.cast(pairs["flips"], pa.float64()), pc.cast(pairs["pairs"], pa.float64()))
    estimate = score_mean(pa.table({"score": shares}), row_clusters(pairs))
    note = "pairs on which the judge decided differently in the other order: they count as ties"
    return (Metric("order", "Verdict changed with the order", estimate, note=note),)


def _second_judge_metric(scores: pa.Table) -> tuple[Metric, ...]:
    """Return the mean score of the second judge's verdicts. As for the first judge, a row that failed counts as 0, and
    an answer whose verdict could not be read does not count. Without any verdict there is no number.
    """
    name = _judge_name(scores, "second_judge")
    if name is None or scores["second_score"].null_count == scores.num_rows:
        return ()
    failed: Any = has_status(scores, FAILED)
    counted_rows: Any = pc.or_(pc.is_valid(scores["second_score"]), failed)
    grades: Any = pc.if_else(failed, 0.0, scores["second_score"])
    values = pa.table({"score": grades}).filter(counted_rows)
    estimate = score_mean(values, row_clusters(scores.filter(counted_rows)))
    note = "the mean worth of its verdicts that could be read"
    return (Metric("second", f"By the second judge ({name})", estimate, note=note),)


def _judge_name(scores: pa.Table, column: str) -> str | None:
    """Return the name of a judge: the first in the column; None if there is none."""
    names: list[Any] = scores[column].unique().drop_null().to_pylist()
    return str(names[0]) if names else None


def _reason(verdict: Mapping[str, Any]) -> str | None:
    return (verdict.get("reason") or "")[:_REASON] or None
