import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from steelyard.report.statistics import Estimate, bootstrap, holm, mean, proportion, resampled, wilson


def _hits(successes: int, n: int) -> NDArray[np.bool_]:
    return np.arange(n) < successes


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_wilson_is_scipys(case: tuple[int, int]) -> None:
    successes, n = case
    estimate = proportion(_hits(successes, n), np.arange(n))
    theirs = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert (estimate.method, estimate.n) == ("Wilson score", n)


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
    assert "clustered (100 clusters" in thrice.method
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
    assert estimate.low == pytest.approx(wilson(1.0, 20)[0])


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
    values = np.random.default_rng(2).normal(size=50)
    estimate = mean(values, np.arange(50))
    low, high = stats.t.interval(0.95, 49, loc=values.mean(), scale=stats.sem(values))
    assert (estimate.low, estimate.high) == pytest.approx((low, high))


def test_mean_of_even_clusters_is_that_of_the_cluster_means() -> None:
    values = np.random.default_rng(3).normal(size=(30, 4))
    estimate = mean(values.ravel(), np.repeat(np.arange(30), 4))
    means = values.mean(axis=1)
    low, high = stats.t.interval(0.95, 29, loc=means.mean(), scale=stats.sem(means))
    assert (estimate.low, estimate.high) == pytest.approx((low, high))


def test_bootstrap_agrees_with_scipys() -> None:
    chance = np.random.default_rng(4)
    values = chance.exponential(size=300)
    sums = np.stack([values, np.ones(300)], axis=1)
    low, high = bootstrap(sums, lambda s: s[:, :1] / s[:, 1:], seed=0, resamples=4000)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=4000, rng=chance)
    interval = theirs.confidence_interval
    assert (low[0], high[0]) == pytest.approx((interval.low, interval.high), abs=0.015)


def test_bootstrap_in_groups_keeps_the_width() -> None:
    values = np.random.default_rng(5).normal(size=25_000)
    low, high = bootstrap(
        np.stack([values, np.ones(25_000)], axis=1), lambda s: s[:, :1] / s[:, 1:], seed=0, resamples=500
    )
    assert (high[0] - low[0]) == pytest.approx(2 * 1.96 / np.sqrt(25_000), rel=0.12)


def test_bootstrap_is_seeded() -> None:
    sums = np.random.default_rng(6).random((50, 2))
    once, again = (bootstrap(sums, lambda s: s[:, :1] / s[:, 1:], seed=3, resamples=200) for _ in range(2))
    assert (once[0] == again[0]).all()
    assert (once[1] == again[1]).all()


def test_the_error_of_resampled_means_is_that_of_the_mean() -> None:
    values = np.random.default_rng(9).normal(size=400)
    sums = np.stack([values, np.ones(400)], axis=1)
    found = resampled(sums, lambda s: s[:, :1] / s[:, 1:], seed=0, resamples=3000)
    assert found.error[0] == pytest.approx(stats.sem(values), rel=0.04)
    assert (found.low, found.high) == bootstrap(sums, lambda s: s[:, :1] / s[:, 1:], seed=0, resamples=3000)


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


@pytest.mark.soak
@pytest.mark.parametrize(
    ("clusters", "size", "a", "b"), [(8, 50, 1.6, 0.4), (10, 30, 8, 2), (20, 10, 1, 1), (60, 5, 3, 1)]
)
def test_clustered_intervals_cover_whatever_the_clusters(
    clusters: int, size: int, a: float, b: float
) -> None:
    """Shares and means over thousands of evaluations of few large and many small clusters."""
    chance = np.random.default_rng(19)
    index, truth, held = np.repeat(np.arange(clusters), size), a / (a + b), [0, 0]
    for _ in range(4000):
        hits = chance.random(clusters * size) < np.repeat(chance.beta(a, b, clusters), size)
        for place, found in enumerate((proportion(hits, index), mean(hits.astype(np.float64), index))):
            held[place] += found.low <= truth <= found.high  # type: ignore[operator]
    assert 0.92 <= held[0] / 4000 <= 0.975
    assert 0.85 <= held[1] / 4000 <= 0.975  # the mean's is symmetric, which shares near 1 are not


@pytest.mark.soak
@pytest.mark.parametrize(("n", "share"), [(20, 0.5), (20, 0.9), (100, 0.02), (1000, 0.97)])
def test_wilsons_intervals_cover_on_average(n: int, share: float) -> None:
    k = np.arange(n + 1)
    held = [low <= share <= high for low, high in (wilson(each / n, n) for each in k.tolist())]
    assert 0.92 <= stats.binom.pmf(k, n, share)[held].sum() <= 0.99
