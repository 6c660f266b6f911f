"""Confidence intervals of shares and means, compared with scipy and with simulations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from steelyard_evaluation.report.statistics.clusters import sum_clusters
from steelyard_evaluation.report.statistics.intervals import (
    NO_SCALE,
    Estimate,
    clopper_pearson,
    holm,
    mean,
    proportion,
    share_interval,
    wilson,
)


def _hits(successes: int, n: int) -> NDArray[np.bool_]:
    return np.arange(n) < successes


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(deadline=None, derandomize=True)
def test_a_share_has_scipys_interval(case: tuple[int, int]) -> None:
    """Wilson's, and where fewer than 15 are right or wrong that of Clopper and Pearson."""
    successes, n = case
    estimate = proportion(_hits(successes, n), np.arange(n))
    few = min(successes, n - successes) < 15
    theirs = stats.binomtest(successes, n).proportion_ci(method="exact" if few else "wilson")
    assert (estimate.low, estimate.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert estimate.method == ("Clopper-Pearson interval (exact)" if few else "Wilson score interval")
    assert estimate.n == n


def test_a_share_is_covered_wherever_the_truth_lies() -> None:
    """Counted out, not drawn: also near the ends of the intervals, where Wilson's holds the truth in 84 of 100."""
    for n in (10, 23, 150):
        k = np.arange(n + 1)
        bounds = np.array([share_interval(hits / n, n)[:2] for hits in k.tolist()])
        ends = bounds[(bounds > 0) & (bounds < 1)]
        for share in np.concatenate([ends - 1e-9, ends + 1e-9, [0.001, 0.999]]):
            held = (bounds[:, 0] <= share) & (share <= bounds[:, 1])
            assert stats.binom.pmf(k, n, share)[held].sum() > 0.93


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17:857-872, table I, method 3 (score, no continuity correction)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_is_newcombes_table(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes / n, n) == pytest.approx((low, high), abs=5e-5)


def test_repeating_the_same_answers_narrows_nothing() -> None:
    hits, index = _hits(70, 100), np.arange(100)
    once = proportion(hits, index)
    thrice = proportion(np.tile(hits, 3), np.tile(index, 3))
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), rel=0.01)
    assert thrice.high - thrice.low >= once.high - once.low  # type: ignore[operator]
    assert "cluster jackknife (100 clusters" in thrice.method
    assert thrice.n == 300


def test_independent_replications_narrow_the_interval() -> None:
    chance = np.random.default_rng(1)
    index = np.tile(np.arange(400), 4)
    estimate = proportion(chance.random(1600) < 0.5, index)
    once = wilson(0.5, 400)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.high - estimate.low < 0.6 * (once[1] - once[0])


def test_all_right_is_not_certain() -> None:
    estimate = proportion(np.ones(40, dtype=bool), np.repeat(np.arange(20), 2))
    assert estimate.high == 1.0
    assert estimate.low == pytest.approx(stats.binomtest(20, 20).proportion_ci().low)


def test_the_clustered_interval_covers_as_often_as_it_says() -> None:
    """Answers to one question agree (a question is easy or hard).

    Of 600 evaluations about 95 % must hold the truth, 0.8.
    """
    chance = np.random.default_rng(7)
    index = np.repeat(np.arange(120), 4)
    covered = 0
    for _ in range(600):
        ease = chance.beta(1.6, 0.4, size=120)  # mean 0.8, strongly correlated within a question
        estimate = proportion(chance.random(480) < np.repeat(ease, 4), index)
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 0.8 <= estimate.high
    assert 0.93 <= covered / 600 <= 0.97


def test_mean_of_single_values_is_students() -> None:
    """Use many values; the two more at the ends make hardly a difference."""
    values = np.random.default_rng(2).normal(size=5000)
    estimate = mean(values, np.arange(5000), (-4.0, 4.0))
    low, high = stats.t.interval(0.95, 4999, loc=values.mean(), scale=stats.sem(values))
    assert estimate.error == pytest.approx(stats.sem(values))
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-3)


def test_a_mean_on_a_scale_is_students_with_one_value_more_at_either_end() -> None:
    values = np.random.default_rng(2).beta(5, 1, size=20)
    estimate = mean(values, np.arange(20), (0.0, 1.0))
    more = np.append(values, [0.0, 1.0])
    half = stats.t.ppf(0.975, 19) * stats.sem(more)
    assert estimate.low == pytest.approx(more.mean() - half)
    assert estimate.high == pytest.approx(min(1.0, more.mean() + half))
    twice = mean(3 * values - 1, np.arange(20), (-1.0, 2.0))
    assert twice.low == pytest.approx(3 * (more.mean() - half) - 1)


def test_grades_of_nothing_or_all_are_a_share() -> None:
    grades = np.array([0.0] * 8 + [1.0] * 152)
    theirs = stats.binomtest(152, 160).proportion_ci(method="exact")
    estimate = mean(grades, np.arange(160), (0.0, 1.0))
    assert (estimate.low, estimate.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("n", [49, 1000])
@pytest.mark.parametrize("scale", [None, (0.0, 10.0)])
def test_a_mean_without_a_scale_has_no_interval(n: int, scale: tuple[float, float] | None) -> None:
    """A rare large value may be missing from any sample. A scale that does not hold all values is ignored."""
    estimate = mean(np.arange(float(n)), np.arange(n), scale)
    assert (estimate.value, estimate.low, estimate.high) == ((n - 1) / 2, None, None)
    assert estimate.method == f"no interval: {NO_SCALE}"
    assert estimate.error is not None


def test_the_error_of_unequal_clusters_is_the_jackknifes() -> None:
    """Against leaving out each cluster in turn, written out; statsmodels has no such variance."""
    chance = np.random.default_rng(4)
    clusters = np.repeat(np.arange(12), np.arange(1, 13) ** 2)
    values = chance.normal(size=clusters.size) + chance.normal(size=12)[clusters]
    without = np.array([values[clusters != left].mean() for left in range(12)])
    sums = sum_clusters(values, clusters)
    assert sums.error == pytest.approx(np.sqrt(11 / 12 * ((without - values.mean()) ** 2).sum()))
    assert sums.equivalent == pytest.approx(clusters.size**2 / (np.arange(1, 13) ** 4).sum())


def test_a_few_misses_in_a_few_clusters_are_no_small_spread() -> None:
    """Hardly a cluster of the rarer kind was seen: each counts as one value."""
    hits = np.ones(400, np.bool_)
    hits[[7, 130]] = False
    estimate = proportion(hits, np.repeat(np.arange(40), 10))
    assert (estimate.low, estimate.high) == pytest.approx(clopper_pearson(0.995, 40))


def test_mean_of_even_clusters_is_that_of_the_cluster_means() -> None:
    values = np.random.default_rng(3).normal(size=(60, 4))
    estimate = mean(values.ravel(), np.repeat(np.arange(60), 4))
    assert estimate.error == pytest.approx(stats.sem(values.mean(axis=1)))


def test_nothing_has_no_interval() -> None:
    nothing = Estimate(None, None, None, "no rows", 0)
    assert proportion(np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64)) == nothing
    assert mean(np.zeros(0), np.zeros(0, dtype=np.int64)) == nothing
    assert mean(np.ones(3), np.zeros(3, dtype=np.int64)).low is None


@pytest.mark.parametrize(
    "ps",
    [[0.04, 0.03, 0.02, 0.02, 0.0, 1.0, 0.5, 0.7], (np.random.default_rng(8).random(200) ** 4).tolist()],
    ids=["ties and ends", "many"],
)
def test_holm_is_statsmodels(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1].tolist())


def test_unequal_clusters_count_as_one_value_sooner() -> None:
    """Intervals over 500 clusters, worth 37 of one size, held the true value in 92 of 100 evaluations."""
    sizes = np.maximum(1, np.round(200 / np.arange(1, 501))).astype(np.int64)
    clusters = np.repeat(np.arange(500), sizes)
    estimate = proportion(np.arange(clusters.size) % 10 < 7, clusters)
    assert estimate.low is not None
    assert estimate.low < 0.56
