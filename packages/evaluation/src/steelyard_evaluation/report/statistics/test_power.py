"""Tests of detectable differences, against statsmodels and by simulation."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, fisher_exact
from statsmodels.stats.power import NormalIndPower, TTestPower

from steelyard_evaluation.report.comparison.differences import estimate_difference
from steelyard_evaluation.report.results import Metric
from steelyard_evaluation.report.statistics.clusters import TAIL, Z_TAIL
from steelyard_evaluation.report.statistics.exact_power import (
    POWER,
    Z_POWER,
    least_discordant,
    least_paired,
    least_unpaired,
)
from steelyard_evaluation.report.statistics.intervals import Estimate, mean, proportion
from steelyard_evaluation.report.statistics.power import (
    detectable,
    difference,
    least_mean,
    power_line,
)


def test_the_quantiles_that_are_written_down_are_scipys() -> None:
    assert (ndtri(TAIL), ndtri(POWER)) == (Z_TAIL, Z_POWER)


@pytest.mark.parametrize(("n", "more"), [(100, 0.1), (1000, 0.02), (30_000, 0.002)])
def test_unpaired_is_statsmodels_with_one_more_at_each_end(n: int, more: float) -> None:
    """Two groups of `n` with spread 1: its effect size is the difference in standard deviations."""
    values = np.tile([-1.0, 1.0], n // 2)
    minimum = detectable(mean(values, np.arange(n), (-2.0, 2.0)), n, scale=(-2.0, 2.0))
    effect = NormalIndPower().solve_power(effect_size=None, nobs1=n, alpha=0.05, power=0.8)
    assert minimum is not None
    assert minimum.unpaired is not None
    assert 1 <= minimum.unpaired / (effect * values.std(ddof=1)) < 1 + more


@pytest.mark.parametrize(("n", "more"), [(100, 0.25), (1000, 0.1), (10_000, 0.03)])
def test_paired_is_statsmodels_for_many_questions(n: int, more: float) -> None:
    """The interval holds whatever the distribution, so that fewer questions detect less than by the t test."""
    differences = np.clip(np.random.default_rng(1).normal(scale=0.3, size=n), -1, 1)
    spread = float(differences.std(ddof=1))
    effect = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    least = least_mean(differences, spread / float(np.sqrt(n)), 1.0)
    assert least is not None
    assert 0.99 < least / (effect * spread) < 1 + more


@pytest.mark.parametrize("n", [12, 24, 100])
@pytest.mark.parametrize("clustered", [False, True], ids=["questions", "clusters"])
def test_a_difference_of_scores_is_found_in_four_of_five_comparisons(n: int, clustered: bool) -> None:
    """Simulated by the test that a comparison makes; scores of two systems correlate by a half."""
    rng, times, detected = np.random.default_rng(n), 150, 0
    quantiles = np.quantile(rng.beta(2, 1, 100_000), (np.arange(n) + 0.5) / n)
    clusters = np.arange(n) if clustered else None
    scale = (0.0, 1.0)
    least = detectable(mean(quantiles, np.arange(n), scale), n, n if clustered else None, scale=scale)
    assert least is not None
    for _ in range(times):
        draws = rng.beta(2, 1, (3, n))
        picked = rng.random((2, n)) < np.sqrt(0.5)
        steps = np.where(picked[0], draws[0], draws[1]) - np.where(picked[1], draws[0], draws[2])
        moved = np.clip(steps + least.paired, -1, 1)
        detected += (estimate_difference(moved, clusters, 1.0)[1].p or 1.0) < 0.05
    assert detected / times > 0.68


def test_few_clusters_see_less() -> None:
    """Compare with the t test of the cluster means, whose power statsmodels computes."""
    values = np.random.default_rng(3).normal(size=12)
    apart = detectable(mean(values, np.arange(12), (-5.0, 5.0)), 12, 12, scale=(-5.0, 5.0))
    effect = TTestPower().solve_power(effect_size=None, nobs=12, alpha=0.05, power=0.8)
    assert apart is not None
    assert apart.paired > effect * float(values.std(ddof=1))
    assert detectable(mean(values, np.zeros(12, np.int64)), 12, 1, scale=(-5.0, 5.0)) is None


def _power(n: int, worse: float, better: float) -> float:
    """Power by scipy's binomial test, summed over all outcomes."""
    discordance, power = worse + better, 0.0
    for differ in range(1, n + 1):
        chance = binom.pmf(differ, n, discordance)
        if chance > 1e-9:
            k = np.arange(differ + 1)
            reject = np.minimum(1, 2 * binom.cdf(np.minimum(k, differ - k), differ, 0.5)) <= 0.05
            power += chance * binom.pmf(k, differ, better / discordance)[reject].sum()
    return power


@pytest.mark.parametrize(("n", "discordance"), [(60, 0.4), (200, 0.2), (2000, 0.05)])
def test_mcnemars_test_finds_it_in_four_of_five_comparisons(n: int, discordance: float) -> None:
    least = least_discordant(n, discordance)
    assert least is not None
    assert _power(n, (discordance - least) / 2, (discordance + least) / 2) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("n", "share"), [(100, 0.95), (100, 0.5), (400, 0.95), (400, 0.2)])
def test_the_least_difference_to_this_share_is_found_in_four_of_five(n: int, share: float) -> None:
    """Two systems whose right answers correlate by 0.5, the one nearer to a half than the other."""
    least = least_paired(n, share, 0.5)
    assert least is not None
    other = share - least if share >= 0.5 else share + least
    both = share * other + 0.5 * np.sqrt(share * (1 - share) * other * (1 - other))
    both = min(both, share, other)
    assert _power(n, share - both, other - both) == pytest.approx(0.8, abs=0.01)


def test_other_questions_need_what_fishers_exact_test_needs() -> None:
    """Power by trying, over 500 pairs of evaluations."""
    least = least_unpaired(100, 0.9)
    assert least is not None
    chance = np.random.default_rng(8)
    first, second = chance.binomial(100, 0.9, 500), chance.binomial(100, 0.9 - least, 500)
    minima = {
        pair: fisher_exact([[pair[0], 100 - pair[0]], [pair[1], 100 - pair[1]]]).pvalue
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    }
    power = np.mean([minima[pair] < 0.05 for pair in zip(first.tolist(), second.tolist(), strict=True)])
    assert 0.74 < power < 0.86


def test_systems_that_hardly_differ_cannot_be_distinguished() -> None:
    assert least_discordant(1000, 0.0) is None
    assert least_discordant(1000, 0.001) is None
    assert least_discordant(1, 0.5) is None


def test_too_few_clusters_find_nothing() -> None:
    """Five clusters have 32 choices of signs, and 2 are the rarest: p is never below 5 %."""
    lead = Metric("accuracy", "Accuracy", proportion(np.arange(50) < 25, np.repeat(np.arange(5), 10)))
    line = power_line(lead, 50, 5, binary=True)
    assert line == "50 questions cannot detect any difference with 80 % power at a significance level of 5 %."


def test_repeating_the_same_answers_sees_no_more() -> None:
    hits, scale = np.arange(100) < 70, (0.0, 1.0)
    once = detectable(proportion(hits, np.arange(100)), 100, binary=True, scale=scale)
    answers = proportion(np.tile(hits, 5), np.tile(np.arange(100), 5))
    often = detectable(answers, 100, binary=True, scale=scale)
    assert once is not None
    assert often is not None
    assert often.paired == pytest.approx(once.paired, rel=0.1)
    line = power_line(Metric("accuracy", "Accuracy", answers), 100, binary=True)
    assert line is not None
    assert "by the standard error" in line


def test_the_line_says_points() -> None:
    lead = Metric("accuracy", "Accuracy", proportion(np.arange(1000) < 500, np.arange(1000)))
    line = power_line(lead, 1000, binary=True)
    assert line is not None
    assert line.startswith("1,000 questions can detect a difference of 4.5 points between systems")
    assert line.endswith("and of 6.4 points between systems asked different ones.")


def test_all_right_still_sees_something() -> None:
    every = proportion(np.ones(100, np.bool_), np.arange(100))
    minimum = detectable(every, 100, binary=True, scale=(0.0, 1.0))
    assert minimum is not None
    assert 0.01 < minimum.paired < 0.1


def test_without_an_interval_there_is_no_line() -> None:
    assert power_line(Metric("a", "A", Estimate(0.5, None, None, "one cluster", 3)), 3) is None


@pytest.mark.parametrize(
    ("size", "unit", "text"),
    [
        (0.021, "share", "2.1 points"),
        (0.0004, "share", "less than 0.1 points"),
        (0.01, "share", "1 point"),
        (1.2345, "number", "1.234"),
    ],
)
def test_sizes_read_well(size: float, unit: str, text: str) -> None:
    assert difference(size, unit) == text
