"""What a size can see, against statsmodels, and by trying."""

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.power import NormalIndPower, TTestPower

from steelyard.report.power import (
    detectable,
    detectable_discordance,
    detectable_mean,
    difference,
    power_line,
)
from steelyard.report.results import Metric
from steelyard.report.statistics import Estimate, mean, proportion


@pytest.mark.parametrize("n", [100, 1000, 30_000])
def test_unpaired_is_statsmodels(n: int) -> None:
    """Two groups of `n` with spread 1: its effect size is the difference in standard deviations."""
    values = np.tile([-1.0, 1.0], n // 2)
    found = detectable(mean(values, np.arange(n)))
    effect = NormalIndPower().solve_power(effect_size=None, nobs1=n, alpha=0.05, power=0.8)
    assert found is not None
    assert found.unpaired == pytest.approx(effect * values.std(ddof=1), rel=1e-4)


@pytest.mark.parametrize("n", [100, 1000])
def test_paired_is_statsmodels(n: int) -> None:
    differences = np.random.default_rng(1).normal(size=n)
    spread = float(differences.std(ddof=1))
    effect = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    assert detectable_mean(spread / np.sqrt(n)) == pytest.approx(effect * spread, rel=0.02)


def test_few_clusters_see_less() -> None:
    """About as the t test of their means, whose power statsmodels counts out."""
    values = np.random.default_rng(3).normal(size=12)
    apart = detectable(mean(values, np.arange(12)), 12)
    effect = TTestPower().solve_power(effect_size=None, nobs=12, alpha=0.05, power=0.8)
    assert apart is not None
    assert apart.paired == pytest.approx(effect * float(values.std(ddof=1)), rel=0.02)
    assert detectable(mean(values, np.zeros(12, np.int64)), 1) is None


@pytest.mark.parametrize(
    ("discordance", "least", "n"),
    [  # n by Connor's formula, written out with z of 1.95996 and 0.84162
        (0.2, 0.1, 155),
        (0.1, 0.05, 312),
        (0.3, 0.05, 940),
    ],
)
def test_discordance_is_connors_sample_size(discordance: float, least: float, n: int) -> None:
    by_hand = (1.959964 * discordance**0.5 + 0.841621 * (discordance - least**2) ** 0.5) ** 2 / least**2
    assert int(np.ceil(by_hand)) == n
    assert detectable_discordance(discordance, by_hand) == pytest.approx(least, rel=1e-5)


def test_mcnemars_test_finds_it_in_four_of_five_comparisons() -> None:
    """Exact power: over all numbers of discordant questions, and of those that are better."""
    n, discordance = 2000, 0.2
    least = detectable_discordance(discordance, n)
    assert least is not None
    better = (discordance + least) / 2 / discordance
    power = 0.0
    for m in range(320, 481):
        reject = 2 * binom.sf(np.arange(m + 1) - 1, m, 0.5) <= 0.05
        power += binom.pmf(m, n, discordance) * binom.pmf(np.arange(m + 1), m, better)[reject].sum()
    assert 0.77 < power < 0.82  # the exact test is a little stricter than its size


def test_systems_that_hardly_differ_cannot_be_told_apart() -> None:
    assert detectable_discordance(0.0, 1000) is None
    assert detectable_discordance(0.001, 1000) is None
    assert detectable_discordance(0.5, 1) is None


def test_repeating_the_same_answers_sees_no_more() -> None:
    hits = np.arange(100) < 70
    once = detectable(proportion(hits, np.arange(100)))
    often = detectable(proportion(np.tile(hits, 5), np.tile(np.arange(100), 5)))
    assert once is not None
    assert often is not None
    assert often.paired == pytest.approx(once.paired, rel=0.01)


def test_the_line_says_points() -> None:
    lead = Metric("accuracy", "Accuracy", proportion(np.arange(1000) < 500, np.arange(1000)))
    line = power_line(lead, 1000)
    assert line is not None
    assert line.startswith("This size, 1,000 questions, can see a difference of 4.4 points between systems")
    assert line.endswith("and of 6.3 points where the questions are others.")


def test_all_right_still_sees_something() -> None:
    found = detectable(proportion(np.ones(100, np.bool_), np.arange(100)))
    assert found is not None
    assert 0.01 < found.paired < 0.1


def test_without_an_interval_there_is_no_line() -> None:
    assert power_line(Metric("a", "A", Estimate(0.5, None, None, "one cluster", 3)), 3) is None


@pytest.mark.parametrize(
    ("size", "unit", "text"),
    [(0.021, "share", "2.1 points"), (0.01, "share", "1 point"), (1.2345, "number", "1.23")],
)
def test_sizes_read_well(size: float, unit: str, text: str) -> None:
    assert difference(size, unit) == text
