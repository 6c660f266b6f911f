"""Intervals of lm-eval's numbers, of tasks and of groups."""

import numpy as np
import pytest

from steelyard_evaluation.runs.lm_eval.intervals import by_standard_error, mean_of_tasks


def test_tasks_that_count_the_same_are_as_sure_as_the_smallest() -> None:
    """A hundred times as many documents of one task make the mean of both no surer than twenty of each."""
    small, large = np.array([1.0] * 9 + [0.0]), np.array([1.0] * 900 + [0.0] * 100)
    estimate = mean_of_tasks([small, large], [np.arange(10), 10 + np.arange(1000)])
    assert estimate.value == pytest.approx(0.9)
    assert estimate.low is not None
    assert estimate.low < 0.81


def test_tasks_of_one_size_are_one_share() -> None:
    hits = [np.tile([1.0, 0.0], 50), np.tile([1.0, 1.0, 1.0, 0.0], 25)]
    estimate = mean_of_tasks(hits, [np.arange(100), 100 + np.arange(100)])
    assert estimate.value == pytest.approx(0.625)
    assert estimate.error == pytest.approx(float(np.sqrt(0.625 * 0.375 / 199)))


@pytest.mark.parametrize(
    ("metric", "error", "clusters", "reason"),
    [
        ("mcc", 0.1, np.arange(5000), "mcc holds the true value too seldom"),
        ("perplexity", 0.1, np.arange(5000), "perplexity holds the true value too seldom"),
        ("bleu", None, np.arange(5000), "reports no standard error"),
        ("bleu", 0.1, np.arange(5000) // 2, "knows nothing of clusters"),
        ("bleu", 0.1, np.arange(999), "999 documents are too few"),
    ],
)
def test_a_metric_without_a_tested_interval_has_none(
    metric: str, error: float | None, clusters: np.ndarray[tuple[int], np.dtype[np.int64]], reason: str
) -> None:
    estimate = by_standard_error(metric, 5.0, error, clusters)
    assert (estimate.value, estimate.low, estimate.high) == (5.0, None, None)
    assert reason in estimate.method
