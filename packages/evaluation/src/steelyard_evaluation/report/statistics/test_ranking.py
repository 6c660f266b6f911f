"""Statistics of rankings, compared with scikit-learn, scipy and simulations."""

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri, stdtrit
from scipy.stats import rankdata
from sklearn import metrics

from steelyard_evaluation.report.page.ranking_figures import pr_figure, roc_figure
from steelyard_evaluation.report.statistics.intervals import Floats, Integers, share_interval
from steelyard_evaluation.report.statistics.ranking import (
    FEWEST_OF_A_SIDE,
    Ranking,
    probability_matrix,
    ranking,
    ranks,
    to_pairs,
)

LABELS = ("a", "b", "c")
ROWS = st.lists(st.tuples(st.sampled_from(range(3)), *[st.integers(0, 8)] * 3), min_size=2, max_size=40)


def _of(truth: Integers, shares: Floats, clusters: Integers | None = None) -> Ranking:
    result = ranking(LABELS, truth, shares, np.arange(truth.size) if clusters is None else clusters)
    assert result is not None
    return result


def _delong(positive: Floats, negative: Floats) -> float:
    """DeLong's variance of the area, as the paper writes it: pair by pair."""
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    sides = wins.mean(axis=1), wins.mean(axis=0)
    return float(sum(np.var(side, ddof=1) / side.size for side in sides))


@given(ROWS)
@settings(deadline=None, derandomize=True)
def test_agrees_with_scikit_learn(rows: list[tuple[int, ...]]) -> None:
    truth, shares = np.array([row[0] for row in rows]), np.array([row[1:] for row in rows]) / 8
    result = ranking(LABELS, truth, shares, np.arange(truth.size))
    present = [k for k in range(3) if 0 < (truth == k).sum() < truth.size]
    assert (result is None) == (not present)
    if result is None:
        return
    rocs = [metrics.roc_auc_score(truth == k, shares[:, k]) for k in present]
    prs = [metrics.average_precision_score(truth == k, shares[:, k]) for k in present]
    assert [row.roc_auc.value for row in result.classes] == pytest.approx(rocs)
    assert [row.pr_auc.value for row in result.classes] == pytest.approx(prs)
    assert result.roc_auc.value == pytest.approx(np.mean(rocs))
    assert result.pr_auc.value == pytest.approx(np.mean(prs))
    for k, row in zip(present, result.classes, strict=True):
        x, y, _ = metrics.roc_curve(truth == k, shares[:, k], drop_intermediate=False)
        assert row.roc.x == pytest.approx(x, abs=1e-6)
        assert row.roc.y == pytest.approx(y, abs=1e-6)
        precision, recall, _ = metrics.precision_recall_curve(truth == k, shares[:, k])
        assert row.pr.x == pytest.approx(recall[::-1], abs=1e-6)
        assert row.pr.y == pytest.approx(precision[::-1], abs=1e-6)
        for estimate in (row.roc_auc, row.pr_auc, result.roc_auc, result.pr_auc):
            if estimate.low is None or estimate.high is None:
                assert min(min((truth == k).sum(), (truth != k).sum()) for k in present) < FEWEST_OF_A_SIDE
                continue
            assert 0 <= estimate.low <= (estimate.value or 0) <= estimate.high <= 1


@given(st.lists(st.floats(0, 1), max_size=30))
@settings(deadline=None, derandomize=True)
def test_ranks_are_scipys(values: list[float]) -> None:
    assert ranks(np.array(values)).tolist() == rankdata(values).tolist()


def test_the_error_is_delongs() -> None:
    chance = np.random.default_rng(3)
    truth = chance.integers(0, 2, size=80)
    shares = (truth[:, None] == np.arange(2)) * 0.3 + chance.integers(0, 9, size=(80, 2)) / 9
    for k, row in enumerate(_of(truth, shares).classes):
        variance = _delong(shares[truth == k, k], shares[truth != k, k])
        assert row.roc_auc.error == pytest.approx(np.sqrt(variance))
        # The interval is Student's with one more answer at both ends on each side, which is wider than DeLong's.
        assert row.roc_auc.low is not None
        assert row.roc_auc.high is not None
        delong = 2 * ndtri(0.975) * np.sqrt(variance)
        assert delong < row.roc_auc.high - row.roc_auc.low < 1.3 * delong


def test_repeating_the_same_answers_narrows_nothing() -> None:
    chance = np.random.default_rng(4)
    truth = chance.integers(0, 2, size=60)
    shares = (truth[:, None] == np.arange(2)) * 0.3 + chance.random((60, 2))
    once = _of(truth, shares)
    often = _of(np.tile(truth, 5), np.tile(shares, (5, 1)), np.tile(np.arange(60), 5))
    assert often.roc_auc.value == pytest.approx(once.roc_auc.value)
    assert often.roc_auc.error == pytest.approx(once.roc_auc.error)
    assert often.pr_auc.error == pytest.approx(once.pr_auc.error)
    assert often.pr_auc.low is not None
    assert once.pr_auc.low is not None
    assert often.pr_auc.low <= once.pr_auc.low + 1e-12


def test_few_answers_of_a_class_have_no_interval() -> None:
    """Intervals of an area held the true value in 83 of 100 evaluations with three answers of the class."""
    truth = np.repeat([0, 1], (40, 9))
    area = _of(truth, np.random.default_rng(1).random((49, 2))).classes[1].roc_auc
    assert (area.low, area.high) == (None, None)
    assert area.method == "no interval: a class or the rest has 9 independent answers (10 are needed)"


def test_the_error_of_average_precision_is_that_of_resampling() -> None:
    """The binomial error, which looks at the class alone, is too small where few rows are of the rest."""
    chance = np.random.default_rng(8)
    truth = np.repeat([1, 0], (2000, 100))
    score = truth * 0.3 + chance.normal(size=truth.size)
    areas = []
    for _ in range(300):
        rows = chance.integers(0, truth.size, size=truth.size)
        areas.append(metrics.average_precision_score(truth[rows], score[rows]))
    error = _of(truth, np.column_stack([-score, score])).classes[1].pr_auc.error
    assert error == pytest.approx(np.std(areas), rel=0.15)


def test_clusters_of_different_sizes_count_as_fewer() -> None:
    """One document with half of the rows: DeLong's error over clusters held the true value in 77 of 100 evaluations."""
    clusters = np.concatenate([np.zeros(100, dtype=np.int64), np.arange(1, 101)])
    truth = np.tile([0, 1], 100)
    area = _of(truth, np.random.default_rng(1).random((200, 2)), clusters).classes[1].roc_auc
    assert area.low is None
    assert "4 independent answers" in area.method


def test_the_intervals_cover_as_often_as_they_say() -> None:
    chance = np.random.default_rng(5)
    inside = np.zeros(2)
    tries, size = 400, 60
    expected = 0.7602499389065233  # of two normal distributions one standard deviation apart
    for _ in range(tries):
        truth = np.repeat([0, 1], size // 2)
        score = truth + chance.normal(size=size)
        result = _of(truth, np.column_stack([-score, score]))
        area, pr = result.classes[1].roc_auc, result.classes[1].pr_auc
        inside[0] += (area.low or 0) <= expected <= (area.high or 0)
        inside[1] += (pr.low or 0) <= 0.7525 <= (pr.high or 0)  # of 4,000,000 rows
    shares = inside / tries
    assert shares[0] > 0.92
    assert shares[1] > 0.92


def test_no_error_is_not_certainty() -> None:
    result = _of(np.repeat([0, 1], (22, 20)), np.array([[0.9, 0.1]] * 22 + [[0.2, 0.8]] * 20))
    assert result.roc_auc.value == 1
    sides = [np.append(np.ones(size), [0.0, 1.0]) for size in (22, 20)]
    error = np.hypot(*(side.std(ddof=1) / np.sqrt(side.size) for side in sides))
    centre = 1 - sum(1 - side.mean() for side in sides)
    assert result.roc_auc.low == pytest.approx(centre - stdtrit(19, 0.975) * error)
    assert result.pr_auc.low == pytest.approx(share_interval(1, 20)[0])


def test_one_class_alone_has_no_curve() -> None:
    assert ranking(LABELS, np.zeros(4, dtype=np.int64), np.ones((4, 3)), np.arange(4)) is None


PAIRS: Any = pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())]))


@pytest.mark.parametrize("kind", [PAIRS, pa.map_(pa.string(), pa.float64())], ids=["pairs", "an earlier map"])
def test_pairs_become_a_matrix(kind: Any) -> None:
    chunks: list[Any] = [[[("b", 0.5), ("a", 0.25), ("elsewhere", 0.25)], []], [[("c", 1.0)]]]
    rows = [[to_pairs(row) for row in chunk] for chunk in chunks] if kind is PAIRS else chunks
    column: Any = pa.chunked_array(rows, kind)
    assert probability_matrix(column, LABELS).tolist() == [[0.25, 0.5, 0], [0, 0, 0], [0, 0, 1]]
    assert probability_matrix(column.slice(1), LABELS).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_figures_say_the_areas_in_words() -> None:
    chance = np.random.default_rng(6)
    truth = chance.integers(0, 3, size=5000)
    result = _of(truth, (truth[:, None] == np.arange(3)) + chance.random((5000, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roc, pr = roc_figure(result), pr_figure(result)
    assert "ROC curves of 3 classes, each against the rest, in 5,000 answers." in roc.summary
    assert "(average precision)" in pr.summary
    assert len(roc.svg) < 20_000
    assert max(len(row.roc.x) for row in result.classes) == 200
