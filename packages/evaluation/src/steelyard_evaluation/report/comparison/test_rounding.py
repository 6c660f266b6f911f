"""Differences are zero where numbers are equal as fractions, in every comparison; floating-point sums may differ."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from steelyard_evaluation.report.comparison.reports import Comparison, ScoredReport, compare
from steelyard_evaluation.report.comparison.statistics import p_value, score_difference, share_difference
from steelyard_evaluation.report.statistics.clusters import sum_clusters
from steelyard_evaluation.report.statistics.groups import difference_from_rest
from steelyard_evaluation.report.statistics.intervals import Floats, mean, proportion

QUESTIONS = 40
SCORES = np.round(np.random.default_rng(0).uniform(0.01, 0.99, QUESTIONS), 2)


def report(scores: Floats, times: int, cluster: bool = False) -> ScoredReport:
    """Return a report whose system was asked each question so many times and always answered alike."""
    rows = QUESTIONS * times
    columns = {
        "_index_": pa.array(np.repeat(np.arange(QUESTIONS), times)),
        "_replication_": pa.array([str(number % times) for number in range(rows)]),
        "label": pa.array(["a"] * rows),
        "prediction": pa.array(["b"] * rows),
        "correct": pa.array([False] * rows),
        "score": pa.array(np.repeat(scores, times)),
    }
    if cluster:
        columns["_cluster_"] = pa.array(np.repeat(np.arange(QUESTIONS) // 4, times))
    return ScoredReport("r", ("d",), "", pa.table(columns), (0.0, 1.0))


@pytest.mark.parametrize("cluster", [False, True], ids=["questions", "clusters"])
@pytest.mark.parametrize("times", [3, 5, 7, 49])
def test_the_same_answers_asked_several_times_are_no_difference(times: int, cluster: bool) -> None:
    once, often = report(SCORES, 1, cluster), report(SCORES, times, cluster)
    for baseline, system in ((once, often), (often, once)):
        comparison = compare(baseline, system)
        assert isinstance(comparison, Comparison)
        assert {change.kind: change.total for change in comparison.changes} == {
            "worse": 0,
            "better": 0,
            "otherwise": 0,
        }
        assert (comparison.differ, comparison.difference.value, comparison.p_value.p) == (0, 0.0, 1.0)


THIRDS = np.tile([0.1, 0.2, -0.3], QUESTIONS)
"""Gains and losses that cancel within each cluster; as floating-point numbers they sum to 2.8e-17."""
CLUSTERS = np.repeat(np.arange(QUESTIONS), 3)
NO_DIFFERENCE: dict[str, Callable[[], float | None]] = {
    "p value of clusters": lambda: 1 - p_value(THIRDS, CLUSTERS).p,
    "difference of scores": lambda: score_difference(THIRDS, CLUSTERS, 1.0).value,
    "difference of shares": lambda: share_difference(THIRDS, CLUSTERS).value,
    "error of clusters": lambda: sum_clusters(THIRDS, CLUSTERS).error,
    "error of equal clusters": lambda: sum_clusters(np.full(120, 0.1), np.repeat(np.arange(3), 40)).error,
    "group and rest": lambda: (
        difference_from_rest(np.full(200, 0.1), np.arange(200) < 70, np.arange(200), None)[0].value
    ),
    "p value of a group": lambda: difference_from_rest(
        np.full(200, 0.1), np.arange(200) < 70, np.arange(200) // 3, None
    )[1],
}


@pytest.mark.parametrize("kind", NO_DIFFERENCE)
def test_what_cancels_is_zero(kind: str) -> None:
    assert not NO_DIFFERENCE[kind]()


def test_a_small_difference_stays_one() -> None:
    comparison = compare(report(SCORES, 1), report(SCORES + 1e-9, 3))
    assert isinstance(comparison, Comparison)
    assert comparison.differ == QUESTIONS
    assert comparison.difference.value == pytest.approx(1e-9, rel=1e-3)


@pytest.mark.parametrize("times", [3, 49])
def test_an_error_of_rounding_is_no_error(times: int) -> None:
    """Each question has one right answer of several: no spread is seen, so a question counts as one answer."""
    hits = np.tile(np.arange(times) == 0, QUESTIONS)
    clusters = np.repeat(np.arange(QUESTIONS), times)
    assert proportion(hits, clusters).method.endswith(
        f"({QUESTIONS} clusters, effective sample size {QUESTIONS:.1f})"
    )
    assert mean(np.full(120, 0.1), clusters[:120], (0.0, 1.0)).error == 0
