"""The paired difference, against formulas written out, scipy, and brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test, ttest_rel

from steelyard_evaluation.report.comparison import statistics as comparison_statistics
from steelyard_evaluation.report.comparison.statistics import (
    p_value,
    score_difference,
    share_difference,
    share_p_value,
)
from steelyard_evaluation.report.statistics.intervals import Integers


def integers(*values: int) -> Integers:
    return np.array(values, dtype=np.int64)


def bonett_price(n: int, worse: int, better: int) -> tuple[float, float]:
    """Return the interval as printed: Laplace estimates of the discordant shares in Wald's interval."""
    p12, p21 = (worse + 1) / (n + 2), (better + 1) / (n + 2)
    half = 1.959963984540054 * ((p12 + p21 - (p21 - p12) ** 2) / (n + 2)) ** 0.5
    return p21 - p12 - half, p21 - p12 + half


def discordant(n: int, worse: int, better: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([-1.0] * worse + [1.0] * better + [0.0] * (n - worse - better))


@pytest.mark.parametrize(
    ("n", "worse", "better"), [(10, 0, 0), (50, 3, 9), (50, 9, 3), (899, 12, 40), (4, 0, 1)]
)
def test_the_interval_is_that_of_bonett_and_price(n: int, worse: int, better: int) -> None:
    estimate = share_difference(discordant(n, worse, better))
    assert estimate.value == pytest.approx((better - worse) / n)
    assert (estimate.low, estimate.high) == pytest.approx(bonett_price(n, worse, better))


def test_a_gain_seen_in_one_cluster_is_not_known_to_be_small() -> None:
    """Intervals over five unequal clusters stayed below a gain of 30 points in 14 of 100 evaluations."""
    clusters = np.repeat(np.arange(5), (200, 100, 67, 50, 40))
    differences = np.where(np.arange(457) % 11 == 0, 1.0, 0.0)
    estimate = share_difference(differences, clusters)
    assert estimate.high is not None
    assert estimate.high > 0.4


def test_systems_that_agree_everywhere_are_not_known_to_be_equal() -> None:
    estimate = share_difference(discordant(100, 0, 0))
    assert estimate.value == 0
    assert estimate.low == -estimate.high < -0.02  # type: ignore[operator]


def test_with_many_questions_it_is_students_interval() -> None:
    chances = np.random.default_rng(7)
    a, b = chances.integers(0, 4, (2, 20_000)) / 3
    theirs = ttest_rel(b, a).confidence_interval(0.95)
    estimate = share_difference(b - a)
    assert (estimate.low, estimate.high) == pytest.approx((theirs.low, theirs.high), abs=2e-5)


def test_the_interval_holds_the_truth_nearly_always() -> None:
    """40 questions, answered by two systems whose answers hang together, 3 times each."""
    chances = np.random.default_rng(3)
    held = 0
    for _ in range(2000):
        hard = chances.random(40)
        first = (chances.random((3, 40)) < 0.9 - 0.4 * hard).mean(axis=0)
        second = (chances.random((3, 40)) < 1.0 - 0.4 * hard).mean(axis=0)
        estimate = share_difference(second - first)
        held += estimate.low <= 0.1 <= estimate.high  # type: ignore[operator]
    assert 0.94 < held / 2000 < 0.995


def test_repeating_the_same_answers_narrows_nothing() -> None:
    """The question is the unit: 1 of 1 and 5 of 5 say the same."""
    once = share_p_value(
        integers(1, 0, 1, 1, 1), integers(*[1] * 5), integers(0, 0, 0, 0, 1), integers(*[1] * 5)
    )
    often = share_p_value(
        integers(5, 0, 5, 5, 5), integers(*[5] * 5), integers(0, 0, 0, 0, 5), integers(*[5] * 5)
    )
    assert once.p == pytest.approx(often.p) == pytest.approx(0.25)


@pytest.mark.parametrize(("worse", "better"), [(1, 0), (3, 9), (12, 40), (20, 20), (0, 300)])
def test_single_answers_are_mcnemars_exact_test(worse: int, better: int) -> None:
    right = integers(*[1] * worse, *[0] * better, 1, 0)
    other = integers(*[0] * worse, *[1] * better, 1, 0)
    counts = np.ones_like(right)
    result = share_p_value(right, counts, other, counts)
    assert result.p == pytest.approx(binomtest(better, worse + better).pvalue, abs=1e-12)
    differ = "1 question differs" if worse + better == 1 else f"{worse + better} questions differ"
    assert result.method == f"McNemar's exact test ({differ})"


Question = st.tuples(st.integers(1, 4), st.integers(1, 3)).flatmap(
    lambda size: st.tuples(
        st.integers(0, size[0]), st.just(size[0]), st.integers(0, size[1]), st.just(size[1])
    )
)


@settings(deadline=None)
@given(st.lists(Question, min_size=1, max_size=8))
def test_several_answers_are_all_signs_counted(questions: list[tuple[int, int, int, int]]) -> None:
    columns = [integers(*column) for column in zip(*questions, strict=True)]
    steps = [12 * a // m - 12 * b // n for a, m, b, n in questions]
    sums = [
        abs(sum(s * d for s, d in zip(signs, steps, strict=True)))
        for signs in product((1, -1), repeat=len(steps))
    ]
    expected = sum(total >= abs(sum(steps)) for total in sums) / len(sums)
    assert share_p_value(columns[0], columns[1], columns[2], columns[3]).p == pytest.approx(
        expected, abs=1e-9
    )


def test_very_many_questions_take_the_normal_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    chances = np.random.default_rng(5)
    right, other = chances.integers(0, 3, (2, 3000))
    counts = np.full(3000, 2)
    exact = share_p_value(right, counts, other, counts)
    monkeypatch.setattr(comparison_statistics, "MOST_SUMS", 10)
    limit = share_p_value(right, counts, other, counts)
    assert limit.p == pytest.approx(exact.p, abs=0.02)
    assert (exact.method.split()[0], limit.method.split()[-1]) == ("exact", "approximation")


def test_no_difference_at_all_is_certainly_chance() -> None:
    one = integers(1, 0, 1)
    assert share_p_value(one, integers(1, 1, 1), one, integers(1, 1, 1)).p == 1


Numbers = st.lists(st.integers(-9, 9).map(lambda eighths: eighths / 8), min_size=1, max_size=9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(Numbers)
def test_few_numbers_are_all_signs_counted(values: list[float]) -> None:
    sums = [
        abs(sum(s * d for s, d in zip(signs, values, strict=True)))
        for signs in product((1, -1), repeat=len(values))
    ]
    expected = sum(total >= abs(sum(values)) for total in sums) / len(sums)
    assert p_value(np.array(values)).p == pytest.approx(expected, abs=1e-12)


def test_drawn_signs_are_scipys_permutation_test() -> None:
    values = np.random.default_rng(11).normal(0.15, 1, 300)
    result = p_value(values)
    theirs = permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=5000, rng=np.random.default_rng(1)
    )
    assert result.p == pytest.approx(theirs.pvalue, abs=0.015)
    assert result.method == "sign-flip permutation test (9,999 draws, seed 0; 300 questions differ)"
    assert p_value(values) == result


def test_very_many_numbers_are_students_test() -> None:
    a, b = np.random.default_rng(12).normal([[0.0], [0.03]], 1, (2, 5000))
    a[:100] = b[:100]
    result = p_value(b - a)
    theirs = ttest_rel(b, a)
    interval = theirs.confidence_interval(0.95)
    gap = score_difference(b - a, width=6.0)
    assert result.p == pytest.approx(theirs.pvalue)
    assert (gap.low, gap.high) == pytest.approx((interval.low, interval.high), rel=0.05)


def test_clusters_of_numbers_are_their_sums() -> None:
    """Copies of a question within a cluster say nothing new."""
    values = np.random.default_rng(13).normal(0.2, 1, 60)
    copied, clusters = np.repeat(values, 5), np.repeat(np.arange(60), 5)
    once, often = score_difference(values, width=4.0), score_difference(copied, clusters, 4.0)
    assert p_value(copied, clusters).p == pytest.approx(p_value(values).p)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert p_value(copied).p < p_value(values).p


def test_clusters_of_right_answers_change_sign_as_a_whole() -> None:
    """Three documents: the system is better on 3 of one, 2 of another, worse on 1 of the third."""
    right, other = integers(1, 1, 1, 1, 1, 0), integers(0, 0, 0, 0, 0, 1)
    one, clusters = np.ones_like(right), integers(0, 0, 0, 1, 1, 2)
    result = share_p_value(right, one, other, one, clusters)
    signs = [abs(3 * a + 2 * b - c) for a, b, c in product((1, -1), repeat=3)]
    assert result.p == pytest.approx(sum(total >= 4 for total in signs) / 8)
    assert result.method == "exact sign-flip permutation test (3 clusters differ)"
    assert share_p_value(right, one, other, one).method.startswith("McNemar's exact test")


def test_clusters_widen_the_interval_of_a_difference() -> None:
    steps = np.repeat([1.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0], 10)
    clusters = np.repeat(np.arange(10), 10)
    apart, together = share_difference(steps), share_difference(steps, clusters)
    assert together.value == apart.value == pytest.approx(0.2)
    assert together.high - together.low > 2 * (apart.high - apart.low)  # type: ignore[operator]
    assert share_difference(steps, np.arange(100)) == apart
    assert share_difference(steps, np.zeros(100, np.int64)).low is None


def test_the_clustered_interval_of_a_difference_holds_the_truth() -> None:
    """16 documents with 10 questions each: how much better a system is depends on the document."""
    chances = np.random.default_rng(17)
    held, clusters = 0, np.repeat(np.arange(16), 10)
    for _ in range(500):
        gain = np.repeat(chances.choice([-0.1, 0.3], 16), 10)
        first, second = chances.random(160) < 0.5, chances.random(160) < 0.5 + gain
        estimate = share_difference(second.astype(float) - first, clusters)
        held += estimate.low <= 0.1 <= estimate.high  # type: ignore[operator]
    assert 0.93 < held / 500 <= 0.998


@pytest.mark.soak
@pytest.mark.parametrize(("n", "gain", "agree"), [(50, 0.1, 0.5), (200, 0.05, 0.8), (1000, 0.0, 0.95)])
def test_paired_intervals_cover_and_tests_keep_their_size(n: int, gain: float, agree: float) -> None:
    """Two systems that share most of what they find hard."""
    chances = np.random.default_rng(23)
    held = alarms = 0
    for _ in range(3000):
        first = chances.random(n) < 0.5
        fresh = chances.random(n) < 0.5 + gain / (1 - agree)
        second = np.where(chances.random(n) < agree, first, fresh)
        estimate = share_difference(second.astype(float) - first)
        held += estimate.low <= gain <= estimate.high  # type: ignore[operator]
        one = np.ones(n, np.int64)
        alarms += share_p_value(second.astype(np.int64), one, first.astype(np.int64), one).p < 0.05
    assert 0.94 <= held / 3000 <= 0.985
    assert gain or alarms / 3000 <= 0.05


def test_numbers_of_answers_without_a_small_common_multiple_are_counted_as_fractions() -> None:
    counts = np.arange(1, 60, dtype=np.int64)
    right, other = np.maximum(counts - 1, 0), counts
    result = share_p_value(right, counts, other, counts)
    steps = right / counts - other / counts
    assert result == p_value(steps)
    assert result.p < 0.001
