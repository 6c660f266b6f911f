"""Changes that leave every number as it is, or only lower it: another order, more wrong answers, rows that failed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steelyard_evaluation.report.comparison.reports import Comparison, ScoredReport, compare
from steelyard_evaluation.report.results import Results
from steelyard_evaluation.report.rubrics.text import ExactMatch, TokenF1
from steelyard_evaluation.report.scoring import summarise

Row = tuple[str, float | None]
"""The status of a row and its score."""
REDUCERS = ("mean", "majority", "best", "pass@1")
RIGHT, WRONG, FAILED, LEFT_OUT = ("scored", 1.0), ("scored", 0.0), ("failed", 0.0), ("left out", None)
HALF = ("scored", 0.5)


def make_scores(questions: Sequence[Sequence[Row]], clusters: bool = False) -> pa.Table:
    """Scores of questions that were each asked several times, in groups and, if asked for, clusters."""
    rows = [
        {
            "_index_": index,
            "_replication_": f"r{time}",
            "score": score,
            "label": "x",
            "prediction": None if status == "failed" else f"worth {score}",
            "correct": None if score is None else score == 1,
            "status": status,
            "group:kind": f"k{index % 2}",
            **({"_cluster_": index // 2} if clusters else {}),
        }
        for index, times in enumerate(questions)
        for time, (status, score) in enumerate(times)
    ]
    fields: list[tuple[str, pa.DataType]] = [
        ("_index_", pa.int64()),
        ("_replication_", pa.string()),
        ("score", pa.float64()),
        ("label", pa.string()),
        ("prediction", pa.string()),
        ("correct", pa.bool_()),
        ("status", pa.string()),
        ("group:kind", pa.string()),
        *([("_cluster_", pa.int64())] if clusters else []),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def results_of(scores: pa.Table, graded: bool) -> Results:
    return summarise(TokenF1() if graded else ExactMatch(), scores, REDUCERS)


def shares(results: Results) -> dict[str, float]:
    """The shares that may only fall by silence: the number itself, over replications, and of each group."""
    values = {metric.name: metric.estimate.value for metric in results.metrics if metric.unit == "share"}
    for group in (results.numbers.get("groups") or {}).get("kind", ()):
        values[f"kind {group['value']}"] = group["estimate"].value
    return {name: value for name, value in values.items() if value is not None}


def questions(*kinds: Row) -> st.SearchStrategy[list[list[Row]]]:
    """Questions that are asked one to four times, all as often."""
    return st.integers(1, 4).flatmap(lambda times: st.lists(_asked(times, kinds), min_size=1, max_size=7))


def _asked(times: int, kinds: Sequence[Row]) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.sampled_from(kinds), min_size=times, max_size=times)


def few(check: Callable[..., None], *drawn: st.SearchStrategy[Any]) -> Callable[[], None]:
    """The check of ten cases, for every change."""
    return settings(max_examples=10, deadline=None)(given(*drawn)(check))


def many(check: Callable[..., None], *drawn: st.SearchStrategy[Any]) -> Callable[[], None]:
    """The check of a thousand cases, for the long form."""
    drawing = settings(max_examples=1000, deadline=None)(given(*drawn)(check))
    marked: Callable[[], None] = pytest.mark.soak(drawing)
    return marked


def check_the_order_of_the_rows_changes_no_number(rows: list[list[Row]], clusters: bool, chance: Any) -> None:
    scores = make_scores(rows, clusters)
    order = list(range(scores.num_rows))
    chance.shuffle(order)
    one, other = results_of(scores, graded=True), results_of(scores.take(order), graded=True)
    assert (one.counts, one.bounds) == (other.counts, other.bounds)
    for before, now in zip(one.metrics, other.metrics, strict=True):
        for part in ("value", "low", "high", "error", "n"):
            assert getattr(now.estimate, part) == pytest.approx(getattr(before.estimate, part), abs=1e-12), (
                before.name
            )


def check_k_wrong_answers_more_lower_the_share_by_k_of_n(rows: list[list[Row]], data: st.DataObject) -> None:
    places = [(q, k) for q, times in enumerate(rows) for k, row in enumerate(times) if row == RIGHT]
    assume(places)
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True, min_size=1))
    worse = [
        [WRONG if (q, k) in chosen else row for k, row in enumerate(times)] for q, times in enumerate(rows)
    ]
    before, now = (results_of(make_scores(scores), graded=False) for scores in (rows, worse))
    assert before.counts is not None
    lost = len(chosen) / before.counts.denominator
    value = before.metrics[0].estimate.value
    assert value is not None
    assert now.metrics[0].estimate.value == pytest.approx(value - lost)
    assert before.counts == now.counts


def check_rows_that_fail_raise_no_share(rows: list[list[Row]], graded: bool, data: st.DataObject) -> None:
    """A vote of the majority rose where a wrong answer fell silent."""
    if not graded:
        rows = [[WRONG if row == HALF else row for row in times] for times in rows]
    places = [(q, k) for q, times in enumerate(rows) for k in range(len(times))]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True, min_size=1))
    failing = [
        [FAILED if (q, k) in chosen else row for k, row in enumerate(times)] for q, times in enumerate(rows)
    ]
    before, now = (shares(results_of(make_scores(scores), graded)) for scores in (rows, failing))
    for name, value in now.items():
        assert value <= before.get(name, 1.0) + 1e-12, name


def check_rows_that_fail_make_no_comparison_better(rows: list[list[Row]], data: st.DataObject) -> None:
    places = [(q, k) for q, times in enumerate(rows) for k, row in enumerate(times) if row != LEFT_OUT]
    assume(places)
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True))
    failing = [
        [FAILED if (q, k) in chosen else row for k, row in enumerate(times)] for q, times in enumerate(rows)
    ]
    one, other = (ScoredReport("r", (), "", make_scores(scores)) for scores in (rows, failing))
    comparison = compare(one, other)
    assert isinstance(comparison, Comparison)
    assert (comparison.difference.value or 0.0) <= 1e-12
    assert comparison.p_value.p is not None
    assert np.isfinite(comparison.p_value.p)


ORDER = questions(RIGHT, WRONG, HALF, FAILED, LEFT_OUT), st.booleans(), st.randoms()
LOSS = questions(RIGHT, WRONG, FAILED, LEFT_OUT), st.data()
SILENCE = questions(RIGHT, WRONG, HALF, FAILED), st.booleans(), st.data()

test_the_order_of_the_rows_changes_no_number = few(check_the_order_of_the_rows_changes_no_number, *ORDER)
test_k_wrong_answers_more_lower_the_share_by_k_of_n = few(
    check_k_wrong_answers_more_lower_the_share_by_k_of_n, *LOSS
)
test_rows_that_fail_raise_no_share = few(check_rows_that_fail_raise_no_share, *SILENCE)
test_rows_that_fail_make_no_comparison_better = few(check_rows_that_fail_make_no_comparison_better, *LOSS)

test_many_orders_change_no_number = many(check_the_order_of_the_rows_changes_no_number, *ORDER)
test_many_wrong_answers_lower_the_share = many(check_k_wrong_answers_more_lower_the_share_by_k_of_n, *LOSS)
test_many_rows_that_fail_raise_no_share = many(check_rows_that_fail_raise_no_share, *SILENCE)
test_many_that_fail_make_no_comparison_better = many(check_rows_that_fail_make_no_comparison_better, *LOSS)
