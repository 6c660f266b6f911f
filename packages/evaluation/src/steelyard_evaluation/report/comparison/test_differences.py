"""The interval and the p value of a paired difference never contradict each other, and neither claims too much."""

import numpy as np
import pytest

from steelyard_evaluation.report.comparison.differences import Shares, estimate_difference
from steelyard_evaluation.report.statistics.agreement import make_consistent
from steelyard_evaluation.report.statistics.intervals import Estimate, Integers


def _shares(rng: np.random.Generator, answers: Integers) -> Shares:
    return Shares(rng.binomial(answers, rng.choice([0.3, 0.5, 0.9])).astype(np.int64), answers)


@pytest.mark.parametrize("times", [(1, 1), (1, 5), (3, 3), (2, 7)])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("n", [6, 8, 12, 40])
def test_shares_never_contradict(times: tuple[int, int], clustered: bool, n: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        system, baseline = (_shares(rng, np.full(n, number)) for number in times)
        steps = system.right / system.answers - baseline.right / baseline.answers
        clusters = np.sort(rng.integers(0, max(2, n // 3), n)) if clustered else None
        estimate, test = estimate_difference(steps, clusters, 1.0, (system, baseline))
        if estimate.low is None or estimate.high is None or test.p is None:
            continue
        assert (estimate.low > 0 or estimate.high < 0) == (test.p < 0.05), (estimate, test)


@pytest.mark.parametrize("clustered", [False, True])
def test_scores_never_contradict(clustered: bool) -> None:
    rng = np.random.default_rng(2)
    for gain in np.linspace(0, 0.5, 60):
        steps = rng.normal(gain, 0.3, 30).clip(-1, 1)
        clusters = np.arange(30) // 2 if clustered else None
        estimate, test = estimate_difference(steps, clusters, 1.0)
        assert estimate.low is not None
        assert estimate.high is not None
        assert test.p is not None
        assert (estimate.low > 0 or estimate.high < 0) == (test.p < 0.05), (estimate, test)


@pytest.mark.parametrize("q", [0.01, 0.1], ids=["rare losses", "losses"])
def test_equal_means_are_seldom_called_different(q: float) -> None:
    """Small gains on most questions, great losses on few: a sign-flip test found a difference in 60 of 100."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(400):
        steps = np.where(rng.random(50) < q, -0.9, 0.9 * q / (1 - q))
        test = estimate_difference(steps, None, 1.0)[1]
        alarms += test.p is not None and test.p < 0.05
    assert alarms / 400 <= 0.05


def test_one_answer_against_many_keeps_the_level() -> None:
    """Both systems are right in 95 of 100 answers; the sign-flip test found a difference in 34 of 100."""
    rng = np.random.default_rng(4)
    alarms = 0
    for _ in range(400):
        one = Shares((rng.random(10) < 0.95).astype(np.int64), np.ones(10, np.int64))
        many = Shares(rng.binomial(9, 0.95, 10).astype(np.int64), np.full(10, 9))
        steps = many.right / many.answers - one.right / one.answers
        test = estimate_difference(steps, None, 1.0, (many, one))[1]
        alarms += test.p is not None and test.p < 0.05
    assert alarms / 400 <= 0.05


@pytest.mark.parametrize(
    ("bounds", "p", "exact", "agreement"),
    [
        ((0.01, 0.19), 0.2, False, (0.0, 0.19, 0.2)),
        ((0.01, 0.19), 0.2, True, (0.0, 0.19, 0.2)),
        ((-0.01, 0.21), 0.01, True, (-0.01, 0.21, pytest.approx(0.075, abs=1e-3))),
        ((0.05, 0.15), 1e-9, True, (0.05, 0.15, 1e-9)),
        ((0.05, 0.15), 1e-9, False, (0.05, 0.15, pytest.approx(8.9e-5, rel=0.01))),
        ((None, None), 0.3, False, (None, None, 0.3)),
    ],
)
def test_the_more_careful_one_decides(
    bounds: tuple[float | None, float | None], p: float, exact: bool, agreement: object
) -> None:
    assert make_consistent(Estimate(0.1, *bounds, "", 9), p, exact=exact) == agreement
