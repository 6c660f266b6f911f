"""The rubric of stored verdicts, and how far two judges agree."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from steelyard_common.types import Json
from steelyard_evaluation.report.page.failures import describe, wrong_questions
from steelyard_evaluation.report.results import Answer, Counts
from steelyard_evaluation.report.rubrics.contract import check_rubric
from steelyard_evaluation.report.rubrics.judge import NoVerdicts, Verdict, kappa_estimate
from steelyard_evaluation.report.scoring import summarise
from steelyard_evaluation.report.status import with_status


def answered(*said: str | None, text: str = "an answer", index: int = 0) -> Answer:
    """An answer with the verdicts of judges a, b, …"""
    worth = {"good": 1.0, "bad": 0.0, "fair": 0.5}
    verdicts = [
        {
            "judge": "abc"[number],
            "verdict": name,
            "score": worth.get(name or ""),
            "error": None if name else "?",
            "reason": f"{'abc'[number]} thinks so",
        }
        for number, name in enumerate(said)
    ]
    return Answer(index, "r0", {"target": "t"}, [{"text": text, "verdicts": verdicts}])


def table(rubric: Verdict, answers: list[Answer]) -> pa.Table:
    rows: list[Json] = [
        {"_index_": index, "_replication_": "r0", **rubric.score(answer)}
        for index, answer in enumerate(answers)
    ]
    return pa.Table.from_pylist(
        rows, pa.schema([("_index_", pa.int64()), ("_replication_", pa.string()), *rubric.scores])
    )


def test_it_keeps_what_every_rubric_promises() -> None:
    check_rubric(Verdict(), answered("good", "good"), answered("bad", "good"))


def test_an_answer_is_worth_what_the_first_judge_said() -> None:
    scored = Verdict().score(answered("fair", "good"))
    assert (scored["score"], scored["correct"], scored["second_verdict"]) == (0.5, False, "good")
    assert Verdict(threshold=0.5).score(answered("fair"))["correct"] is True
    assert Verdict(judge="b", second="a").score(answered("fair", "good"))["score"] == 1


def test_an_answer_without_a_verdict_has_no_score_and_is_counted() -> None:
    results = Verdict().summarise(table(Verdict(), [answered("good"), answered("bad"), answered(None)]))
    assert results.metrics[0].estimate.value == 0.5
    assert results.metrics[0].estimate.n == 2
    assert "Of 1 answer no verdict could be read: left out of every number." in results.limits


def test_without_a_second_judge_agreement_is_unknown_and_said_so() -> None:
    results = Verdict().summarise(table(Verdict(), [answered("good"), answered("bad")]))
    assert [metric.name for metric in results.metrics] == ["verdict"]
    assert any("No second judge" in line for line in results.limits)


def test_the_agreement_of_two_judges_is_reported() -> None:
    pairs = [("good", "good")] * 20 + [("bad", "bad")] * 15 + [("good", "bad")] * 5 + [("bad", "good")] * 10
    results = Verdict().summarise(table(Verdict(), [answered(*pair) for pair in pairs]))
    agreement, kappa = results.metrics[-2:]
    assert agreement.estimate.value == 0.7
    assert kappa.estimate.value == pytest.approx(0.4)  # Cohen 1960's arithmetic: (0.7 − 0.5) / (1 − 0.5)
    assert kappa.estimate.low is not None
    assert kappa.estimate.high is not None
    assert 0.09 < kappa.estimate.low < 0.4 < kappa.estimate.high < 0.7
    assert results.numbers["agreement"] == {"verdicts": ["bad", "good"], "matrix": [[15, 10], [5, 20]]}


def test_the_interval_of_kappa_is_close_to_that_of_fleiss_cohen_and_everitt() -> None:
    chance = np.random.default_rng(3)
    first = chance.integers(0, 3, 400)
    second = np.where(chance.random(400) < 0.7, first, chance.integers(0, 3, 400))
    counts = np.zeros((3, 3))
    np.add.at(counts, (first, second), 1)
    published = cohens_kappa(counts)
    ours = kappa_estimate(first, second, np.arange(400))
    assert ours.value == pytest.approx(published.kappa)
    assert ours.low == pytest.approx(published.kappa_low, abs=0.01)
    assert ours.high == pytest.approx(published.kappa_upp, abs=0.01)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40))
def test_kappa_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    first, second = np.asarray(pairs).T
    ours = kappa_estimate(first, second, np.arange(len(pairs)))
    if len({*first, *second}) < 2:
        assert ours.value is None
    else:
        assert ours.value == pytest.approx(cohen_kappa_score(first, second))


def test_rows_without_a_judgement_are_an_error_that_names_them() -> None:
    with pytest.raises(NoVerdicts, match="row 4"):
        Verdict().score(answered(index=4))
    with pytest.raises(NoVerdicts, match="no judge 'z' of the answer to row 0; there are: a"):
        Verdict(judge="z").score(answered("good"))


def test_judges_that_always_agreed_are_not_sure_to() -> None:
    codes = np.asarray([0, 1] * 20)
    estimate = kappa_estimate(codes, codes, np.arange(40))
    assert estimate.value == pytest.approx(1)
    assert estimate.high == 1
    assert estimate.low is not None
    exact = binomtest(40, 40).proportion_ci().low
    assert estimate.low == pytest.approx((exact - 0.5) / 0.5)


def test_few_answers_have_no_interval_of_kappa() -> None:
    estimate = kappa_estimate(np.asarray([0, 1] * 10), np.asarray([0, 1, 1, 1] * 5), np.arange(20))
    assert estimate.value == pytest.approx(0.5)
    assert (estimate.low, estimate.high) == (None, None)
    assert estimate.method == "no interval: 20 independent answers are too few (30 are needed)"


def test_two_judges_are_two_also_where_no_answer_has_a_verdict_of_both() -> None:
    """The report said that no second judge was asked."""
    answers = [answered("good", None), answered(None, "bad"), answered("bad", None)]
    results = summarise(Verdict(), table(Verdict(), answers))
    assert results.tables[-1].columns == ("Verdict", "a", "b")
    assert {row[0]: row[1:] for row in results.tables[-1].rows} == {
        "good": (1, 0),
        "bad": (1, 1),
        "could not be read": (1, 2),
    }
    assert results.counts == Counts(scored=2, failed=0, left_out=1)
    assert [(metric.name, metric.estimate.value, metric.estimate.n) for metric in results.metrics] == [
        ("verdict", 0.5, 2),
        ("second", 0.0, 1),
    ]
    assert any("of no answer could the verdicts of both be read" in limit for limit in results.limits)
    assert not any("No second judge" in limit for limit in results.limits)


def test_a_card_says_the_grade_and_the_reason_of_each_judge() -> None:
    scores = with_status(table(Verdict(), [answered("bad", "good")]))
    shown = describe(scores, wrong_questions(scores), 1, {0: {"prompt": "q"}}).shown
    assert shown[0].texts == (
        ("Grade", "bad, by a"),
        ("Reason", "a thinks so"),
        ("Second judge", "good, by b"),
        ("Reason", "b thinks so"),
        ("prompt", "q"),
    )


def test_the_share_of_pairs_that_the_order_decides_is_reported() -> None:
    answers = [answered("good"), answered("fair"), answered("bad")]
    for number, answer in enumerate(answers):
        answer.responses[0]["verdicts"][0] |= {"pairs": 2, "flips": number}  # type: ignore[index]
    results = Verdict().summarise(table(Verdict(), answers))
    assert [(metric.title, metric.estimate.value) for metric in results.metrics] == [
        ("Win rate", 0.5),
        ("Verdict changed with the order", pytest.approx(0.5)),
    ]
