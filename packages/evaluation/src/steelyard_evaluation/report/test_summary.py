"""Summaries of scores: shares, means, and answers that are missing."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from steelyard_evaluation.report.statistics.intervals import clopper_pearson
from steelyard_evaluation.report.summary import ScoreKind, summarise_scores


def make_scores(values: Sequence[float | None], said: Sequence[str | None] = ()) -> pa.Table:
    return pa.table(
        {
            "_index_": pa.array(range(len(values)), pa.int64()),
            "prediction": pa.array(said or ["x"] * len(values), pa.string()),
            "score": pa.array(values, pa.float64()),
            "correct": pa.array([value == 1 for value in values]),
        }
    )


def test_right_and_wrong_is_a_share() -> None:
    results = summarise_scores(make_scores([1.0] * 7 + [0.0] * 3), ScoreKind("exact_match", "Exact match"))
    lead = results.metrics[0]
    assert (lead.name, lead.estimate.value) == ("exact_match", 0.7)
    assert (lead.estimate.low, lead.estimate.high) == pytest.approx(clopper_pearson(0.7, 10))
    assert lead.estimate.error == pytest.approx(np.sqrt(0.7 * 0.3 / 10))
    assert results.headline == "Of 10 answers, 70.0 % were right (95 % interval 34.8 to 93.3 %)."
    assert len(results.metrics) == 1


def test_one_is_one() -> None:
    one = make_scores([1.0])
    what = ScoreKind("exact_match", "Exact match")
    assert summarise_scores(one, what).headline.startswith("Of 1 answer, 100 % were right")
    mean = ScoreKind("length", "Length", binary=False)
    assert summarise_scores(one, mean).headline.startswith("Length of 1 answer: ")


def test_silence_is_reported() -> None:
    results = summarise_scores(make_scores([1.0, 0.0], ["x", None]), ScoreKind("m", "M"))
    assert results.headline.startswith("Of 2 rows, 50.0 % were answered right")
    assert results.limits[-1] == "1 row got no answer; it counts as wrong."


def test_a_mean_of_shares_stays_between_nothing_and_all() -> None:
    lead = summarise_scores(make_scores([0.99] * 5 + [0.2]), ScoreKind("f1", "F1", binary=False)).metrics[0]
    assert lead.estimate.value == pytest.approx(0.8583333)
    assert lead.estimate.high == 1.0
    perfect = summarise_scores(make_scores([1.0] * 10), ScoreKind("f1", "F1", binary=False)).metrics[0]
    assert perfect.estimate.low == pytest.approx(clopper_pearson(1.0, 10)[0])


def test_numbers_are_sent_as_numbers() -> None:
    scores = make_scores([2.0, 4.0, 3.0, 3.0] * 20)
    results = summarise_scores(scores, ScoreKind("n", "Length", "number", binary=False, scale=(0.0, 5.0)))
    assert results.headline == "Length of 80 answers: 3.000 on average (95 % interval 2.810 to 3.166)."
    unscaled = summarise_scores(scores, ScoreKind("n", "Length", "number", binary=False))
    assert unscaled.headline == "Length of 80 answers: 3.000 on average (95 % interval unknown)."
    assert results.figures == ()


def test_what_has_no_score_is_left_out() -> None:
    results = summarise_scores(make_scores([0.5, None, 0.7]), ScoreKind("f", "F", binary=False))
    assert results.metrics[0].estimate.n == 2
    assert results.metrics[0].estimate.value == pytest.approx(0.6)


def test_clusters_are_named() -> None:
    column = pa.field("_cluster_", pa.int64(), metadata={"column": "document"})
    scores = make_scores([1.0, 1.0, 0.0, 0.0]).append_column(column, pa.array([0, 0, 1, 1]))
    results = summarise_scores(scores, ScoreKind("m", "M"))
    assert (
        "Confidence intervals treat questions with the same document as one cluster (2 clusters)."
        in results.limits
    )
    assert "cluster jackknife (2 clusters" in results.metrics[0].estimate.method


def test_the_headline_can_be_the_rubrics_own() -> None:
    what = ScoreKind("m", "M", headline=lambda lead: f"{lead.n} rows were looked at.")
    assert summarise_scores(make_scores([1.0]), what).headline == "1 rows were looked at."
