"""Groups against scipy, and as the page shows them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ttest_ind

from steelyard_evaluation.report.results import Metric
from steelyard_evaluation.report.statistics.groups import (
    difference_from_rest,
    group_figure,
    group_numbers,
    group_scores,
    group_table,
)
from steelyard_evaluation.report.statistics.intervals import NO_SCALE, Estimate

LEAD = Metric("accuracy", "Accuracy", Estimate(0.5, 0.4, 0.6, "test", 10))
NUMBER = Metric("chars", "Length", Estimate(0.5, 0.4, 0.6, "test", 10), "number")


def make_scores(
    groups: Mapping[str | None, Sequence[float | None]], cluster: list[int] | None = None
) -> pa.Table:
    rows = [(name, score) for name, values in groups.items() for score in values]
    columns = {
        "_index_": pa.array(range(len(rows)), pa.int64()),
        "score": pa.array([score for _, score in rows], pa.float64()),
        "correct": pa.array([score == 1 for _, score in rows]),
        "group:subject": pa.array([name for name, _ in rows], pa.string()),
    }
    return pa.table(columns | ({"_cluster_": pa.array(cluster, pa.int64())} if cluster else {}))


def test_numbers_differ_by_welchs_test() -> None:
    chance = np.random.default_rng(1)
    values = np.concatenate([chance.normal(0.3, 1, 60), chance.normal(0, 2, 200)]).clip(-5, 5)
    inside = np.arange(260) < 60
    estimate, p = difference_from_rest(values, inside, np.arange(260), (-5.0, 5.0))
    ends = [-5.0, 5.0]  # one more at either end on each side
    theirs = ttest_ind(np.append(values[inside], ends), np.append(values[~inside], ends), equal_var=False)
    interval = theirs.confidence_interval(0.95)
    assert p == pytest.approx(theirs.pvalue)
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))


def test_shares_are_agresti_and_caffos() -> None:
    """The same with one success and one failure more on each side."""
    hits = np.array([1.0] * 8 + [0.0] * 2 + [1.0] * 30 + [0.0] * 20)
    inside = np.arange(60) < 10
    estimate, p = difference_from_rest(hits, inside, np.arange(60), (0.0, 1.0))
    here, rest = [1.0] * 9 + [0.0] * 3, [1.0] * 31 + [0.0] * 21
    theirs = ttest_ind(here, rest, equal_var=False)
    assert estimate.value == pytest.approx(0.8 - 0.6)
    assert p == pytest.approx(theirs.pvalue)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))


def test_even_clusters_are_their_means() -> None:
    values = np.random.default_rng(2).normal(size=(120, 4))
    inside = np.repeat(np.arange(120) < 52, 4)
    _, p = difference_from_rest(values.ravel(), inside, np.repeat(np.arange(120), 4), (-5.0, 5.0))
    means, ends = values.mean(axis=1), [-5.0, 5.0]
    theirs = ttest_ind(np.append(means[:52], ends), np.append(means[52:], ends), equal_var=False)
    assert p == pytest.approx(theirs.pvalue)


def test_an_answer_without_a_score_is_not_a_wrong_one() -> None:
    groups = group_scores(make_scores({"a": [1.0, None], "b": [1.0, 0.0]}), "subject", LEAD, True)
    assert [(group.estimate.value, group.estimate.n) for group in groups.groups] == [(1.0, 1), (0.5, 2)]


def test_three_that_are_all_right_are_no_discovery() -> None:
    groups = group_scores(
        make_scores({"few": [1.0] * 3, "rest": [1.0, 1.0, 0.0] * 60}), "subject", LEAD, True
    )
    few = groups.groups[0]
    assert few.value == "few"
    assert few.p is not None
    assert few.p > 0.3


def test_one_group_has_nothing_to_compare_with() -> None:
    only = group_scores(make_scores({"all": [1.0, 0.0]}), "subject", LEAD, True)
    assert (only.groups[0].difference.value, only.groups[0].p, only.groups[0].p_holm) == (None, None, None)
    assert group_figure(only, LEAD) is None
    assert group_table(only, LEAD).rows[0][3:] == ("–", "–")


def test_values_are_in_order_and_none_is_last() -> None:
    groups = group_scores(
        make_scores({"10": [1.0], None: [0.0], "b": [1.0], "9": [0.0]}), "subject", LEAD, True
    )
    assert [group.value for group in groups.groups] == ["9", "10", "b", "(none)"]


def test_questions_count_once_however_often_they_were_asked() -> None:
    scores = make_scores({"a": [1.0, 0.0], "b": [1.0, 1.0]})
    twice = pa.concat_tables([scores, scores])
    assert [group.questions for group in group_scores(twice, "subject", LEAD, True).groups] == [2, 2]


def test_the_table_says_what_differs() -> None:
    groups = group_scores(
        make_scores({"easy": [1.0] * 90 + [0.0] * 10, "hard": [1.0, 0.0] * 50}), "subject", LEAD, True
    )
    table = group_table(groups, LEAD)
    assert table.columns == ("subject", "Questions", "Accuracy", "Difference from the rest", "p (Holm)")
    assert table.rows[0][0] == "easy"
    assert str(table.rows[0][3]).startswith("+40.0 (+")
    assert table.rows[0][4] == "<0.001"
    assert [group["value"] for group in group_numbers(groups)] == ["easy", "hard"]
    assert group_figure(groups, LEAD) is not None


def test_few_numbers_without_a_scale_have_no_interval() -> None:
    estimate, p = difference_from_rest(np.arange(20.0), np.arange(20) < 9, np.arange(20), None)
    assert (estimate.low, estimate.high, p) == (None, None, None)
    assert estimate.method == f"no interval: {NO_SCALE}"


def test_clusters_of_one_large_one_count_as_few() -> None:
    clusters = np.concatenate([np.zeros(500, dtype=np.int64), np.arange(1, 300)])
    inside = (clusters == 0) | (clusters < 100)
    values = np.random.default_rng(1).normal(size=799).clip(-3, 3)
    estimate, _ = difference_from_rest(values, inside, clusters, (-3.0, 3.0))
    apart, _ = difference_from_rest(values, inside, np.arange(799), (-3.0, 3.0))
    widths = [one.high - one.low for one in (estimate, apart) if one.low is not None and one.high is not None]
    assert widths[0] > 5 * widths[1]


def test_numbers_have_no_per_cent() -> None:
    groups = group_scores(
        make_scores({"a": [12.0, 14.0, 13.0] * 20, "b": [15.0, 17.0, 20.0] * 20}), "subject", NUMBER, False
    )
    table = group_table(groups, NUMBER)
    assert str(table.rows[0][2]).startswith("13.000")
    assert str(table.rows[0][3]).startswith("−4.333")
    assert group_figure(groups, NUMBER) is None


def test_of_very_many_groups_the_lowest_are_shown() -> None:
    groups = group_scores(
        make_scores({f"g{n}": [float(n % 2), 1.0] for n in range(80)}), "subject", LEAD, True
    )
    table = group_table(groups, LEAD)
    assert (len(table.rows), table.title) == (50, "By subject (the 50 lowest of 80)")
    assert len(group_numbers(groups)) == 80
