"""The interval and the test of a mean on a scale, against exact formulas and draws."""

import numpy as np
import pytest

from steelyard_evaluation.report.statistics.bounded import estimate_bounded_mean, negative_chance
from steelyard_evaluation.report.statistics.intervals import clopper_pearson


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([1.0, -1.0], [5.0, 1.0]),
        ([0.3, -1.0], [10.0, 1.0]),
        ([0.1, -0.2, 0.5, -1.0], [5.0, 3.0, 2.0, 1.0]),
        ([0.02, -1.0], [300.0, 1.0]),
        ([1.0, -0.05], [1.0, 60.0]),
    ],
)
def test_the_chance_is_that_of_drawn_sums(values: list[float], counts: list[float]) -> None:
    draws = np.random.default_rng(0).gamma(counts, size=(400_000, len(counts))) @ np.array(values)
    chance = negative_chance(np.array(values), np.array(counts))
    assert chance == pytest.approx(float((draws <= 0).mean()), rel=0.05, abs=3e-4)


def test_values_of_one_sign_leave_no_doubt() -> None:
    assert negative_chance(np.array([1.0, 0.5]), np.ones(2)) == 0
    assert negative_chance(np.array([-1.0, 0.0]), np.ones(2)) == 1
    assert negative_chance(np.array([1.0, -1.0]), np.ones(2)) == pytest.approx(0.5)


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (3, 20), (19, 20), (20, 20), (250, 1000)])
def test_values_at_both_ends_have_the_exact_interval_of_a_share(hits: int, n: int) -> None:
    values = np.array([1.0] * hits + [0.0] * (n - hits))
    interval = estimate_bounded_mean(values, 0.0, 1.0)
    assert (interval.low, interval.high) == pytest.approx(clopper_pearson(hits / n, n), abs=0.004)


def test_the_other_way_round_it_is_the_opposite() -> None:
    values = np.random.default_rng(3).uniform(-0.2, 0.6, 50)
    one, other = estimate_bounded_mean(values, -1.0, 1.0), estimate_bounded_mean(-values, -1.0, 1.0)
    assert (one.low, one.high, one.p) == pytest.approx((-other.high, -other.low, other.p))


@pytest.mark.parametrize("gain", [0.0, 0.05, 0.09, 0.1, 0.12, 0.3])
def test_the_interval_leaves_out_zero_where_the_test_is_significant(gain: float) -> None:
    values = np.random.default_rng(5).normal(gain, 0.3, 60).clip(-1, 1)
    interval = estimate_bounded_mean(values, -1.0, 1.0)
    assert (interval.low > 0 or interval.high < 0) == (interval.p < 0.05)


def test_many_small_gains_do_not_rule_out_a_rare_loss() -> None:
    """A sign-flip test gives p < 0.001: 50 gains of one point. A loss of 99 points in one of 100 cancels them."""
    assert estimate_bounded_mean(np.full(50, 0.01), -1.0, 1.0).p > 0.5
    assert estimate_bounded_mean(np.full(2000, 0.01), -1.0, 1.0).p < 0.001
