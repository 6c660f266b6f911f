"""The rubric of classifications, compared with scikit-learn."""

import warnings
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from steelyard_common.types import Json
from steelyard_evaluation.report import scoring
from steelyard_evaluation.report.results import Answer, Results
from steelyard_evaluation.report.rubrics.classification import Classification, NoLabel
from steelyard_evaluation.report.rubrics.contract import KEYS
from steelyard_evaluation.report.statistics.intervals import Estimate

ROWS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["a", "b", "c", "d", "e", None])),
    min_size=1,
    max_size=60,
)


def make_scores(
    rows: Sequence[tuple[str, str | None]], replications: int = 1, sure: float | None = None
) -> pa.Table:
    """Scores of rows (label, prediction), each repeated."""
    rubric = Classification()
    schema = _schema(rubric)
    scored: list[Json] = []
    for replication in range(replications):
        for index, (label, said) in enumerate(rows):
            response: Json = {"label": said}
            if sure is not None:
                response["probabilities"] = {said: sure, "other": 1 - sure}
            answer = Answer(index, f"r{replication}", {"label": label}, None if said is None else [response])
            scored.append({"_index_": index, "_replication_": f"r{replication}", **rubric.score(answer)})
    return pa.Table.from_pylist(scored, schema)


def _schema(rubric: Classification) -> pa.Schema:
    return pa.schema([*(pa.field(*key) for key in KEYS), *rubric.scores])


def summarise(rows: Sequence[tuple[str, str | None]], replications: int = 1) -> Results:
    return Classification().summarise(make_scores(rows, replications))


def _metric(results: Results, name: str) -> Estimate:
    return next(metric.estimate for metric in results.metrics if metric.name == name)


@given(ROWS)
@settings(deadline=None, derandomize=True)
def test_agrees_with_scikit_learn(rows: Sequence[tuple[str, str | None]]) -> None:
    results = summarise(rows)
    true, said = zip(*rows, strict=True)
    said = tuple("(none)" if name is None else name for name in said)
    labels = sorted(set(true) | {name for name in said if name != "(none)"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", metrics._classification.UndefinedMetricWarning)
        theirs = metrics.precision_recall_fscore_support(true, said, labels=labels, zero_division=0)
        averages = {
            kind: metrics.precision_recall_fscore_support(
                true, said, labels=labels, average=kind, zero_division=0
            )
            for kind in ("macro", "weighted")
        }
    ours = results.numbers["perClass"]
    assert [row.label for row in ours] == labels
    for place, name in enumerate(("precision", "recall", "f1")):
        assert [getattr(row, name).value or 0 for row in ours] == pytest.approx(theirs[place])
        for kind, expected in averages.items():
            # Recall weighted by the classes' sizes is the accuracy, and has no name of its own.
            metric = "accuracy" if (name, kind) == ("recall", "weighted") else f"{name}_{kind}"
            assert _metric(results, metric).value == pytest.approx(expected[place])
    assert [row.support for row in ours] == list(theirs[3])
    assert _metric(results, "accuracy").value == pytest.approx(metrics.accuracy_score(true, said))
    matrix = metrics.confusion_matrix(true, said, labels=[*labels, "(none)"])[: len(labels), : len(labels)]
    assert (np.array(results.numbers["confusion"]["matrix"])[:, : len(labels)] == matrix).all()


@given(ROWS)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_every_interval_holds_its_value_and_stays_within_bounds(
    rows: Sequence[tuple[str, str | None]],
) -> None:
    results = summarise(rows, replications=2)
    estimates = [
        metric.estimate for metric in results.metrics if not metric.estimate.method.startswith("no ")
    ]
    for row in results.numbers["perClass"]:
        estimates += [row.precision, row.recall, row.f1]
    for estimate in estimates:
        if estimate.value is not None:
            assert estimate.low is not None
            assert estimate.high is not None
            assert 0 <= estimate.low <= estimate.value + 1e-12
            assert estimate.value - 1e-12 <= estimate.high <= 1


def test_no_error_is_not_certainty() -> None:
    results = summarise([("a", "a")] * 20 + [("b", "b")] * 20)
    for row in results.numbers["perClass"]:
        assert 0.8 < row.f1.low < 0.95
        assert row.f1.high == 1
    lows = [row.f1.low for row in results.numbers["perClass"]]
    macro = _metric(results, "f1_macro")
    # An error lowers the F1 of two classes, so that their doubts add up; two classes share all errors.
    assert macro.low == pytest.approx(np.mean(lows))
    assert macro.high == 1


def test_averages_of_rare_classes_cannot_be_had() -> None:
    macro = _metric(summarise([("a", "a")] * 20 + [("b", "b")] * 6 + [("b", "a")] * 3), "f1_macro")
    assert macro.value is not None
    assert (macro.low, macro.high) == (None, None)
    assert macro.method == "no interval: class b has 9 independent answers (10 of each class are needed)"


def test_the_error_of_averages_is_that_of_resampling() -> None:
    """The delta method against scikit-learn's scores of 400 resamples."""
    chance = np.random.default_rng(5)
    true = chance.choice(list("aab"), 900)
    said = np.where(chance.random(900) < 0.7, true, chance.choice(list("abc"), 900))
    results = summarise(list(zip(true.tolist(), said.tolist(), strict=True)))
    draws = chance.integers(0, 900, (400, 900))
    macro, weighted = [], []
    for draw in draws:
        _, _, scores, support = metrics.precision_recall_fscore_support(
            true[draw], said[draw], labels=list("abc"), zero_division=0
        )
        macro.append(np.mean(scores))
        weighted.append(np.average(scores, weights=support))
    assert _metric(results, "f1_macro").error == pytest.approx(np.std(macro), rel=0.1)
    assert _metric(results, "f1_weighted").error == pytest.approx(np.std(weighted), rel=0.1)


def test_a_missing_answer_is_wrong_and_is_said() -> None:
    results = summarise([("a", "a"), ("a", None), ("b", "b"), ("b", "b")])
    assert results.headline.startswith("Of 4 rows, 75.0 % were answered right (95 % interval 19.4 to 99.4 %)")
    assert "1 row got no answer; it counts as wrong." in results.limits
    assert results.numbers["confusion"]["matrix"] == [[1, 0, 1], [0, 2, 0]]
    whole = scoring.summarise(
        Classification(), make_scores([("a", "a"), ("a", None), ("b", "b"), ("b", "b")])
    )
    assert _metric(whole, "answered").value == 0.75


@pytest.mark.parametrize(
    ("label", "said", "right"),
    [
        (3, "3", True),
        (3.0, 3, True),
        (True, "true", True),
        ("b", "B", False),
        (0, False, False),
        (1, None, False),
    ],
)
def test_labels_are_compared_as_text(label: object, said: object, right: bool) -> None:
    assert Classification().score(Answer(0, "r", {"label": label}, [{"label": said}]))["correct"] is right


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        (None, "no label"),
        ([], "no label"),
        (["a", "b"], r"several labels: \[\"a\", \"b\"\]; one is compared"),
    ],
)
def test_a_dataset_without_a_label_cannot_be_scored(label: object, fault: str) -> None:
    with pytest.raises(NoLabel, match=f"row 7 of the dataset has {fault}"):
        Classification().score(Answer(7, "r", {"label": label}, [{"label": 1}]))


@pytest.mark.parametrize("label", [["a"], ["a", None], {"text": ["a"]}])
def test_a_list_of_one_label_is_that_label(label: object) -> None:
    scored = Classification().score(Answer(7, "r", {"label": label}, [{"label": "a"}]))
    assert (scored["label"], scored["correct"]) == ("a", True)


def test_calibration_agrees_with_scikit_learn() -> None:
    chance = np.random.default_rng(0)
    certainty = chance.uniform(0.5, 1, size=400)
    right = chance.random(400) < certainty
    rubric = Classification()
    rows = []
    for index, (share, hit) in enumerate(zip(certainty.tolist(), right.tolist(), strict=True)):
        response = {"label": 1, "probabilities": {"1": share, "0": 1 - share}}
        answer = Answer(index, "r", {"label": int(hit)}, [response])
        rows.append({"_index_": index, "_replication_": "r", **rubric.score(answer)})
    results = rubric.summarise(pa.Table.from_pylist(rows, _schema(rubric)))
    brier = metrics.brier_score_loss(right, certainty)
    assert _metric(results, "brier").value == pytest.approx(2 * brier)  # ours sums over both classes
    bins = results.numbers["calibration"].bins
    assert sum(b.count for b in bins) == 400
    gaps = [b.count / 400 * abs(b.accuracy.value - b.confidence) for b in bins if b.count]
    assert results.numbers["calibration"].plug_in == pytest.approx(sum(gaps))
    edges = np.linspace(0, 1, 11)
    assert [b.count for b in bins] == np.histogram(certainty, edges)[0].tolist()


@pytest.mark.parametrize("shares", [{"x": 0.9}, {"a": 7.0}, {"a": None}, {}])
def test_unusable_probabilities_are_left_out(shares: Json) -> None:
    scored = Classification().score(Answer(0, "r", {"label": "a"}, [{"label": "a", "probabilities": shares}]))
    assert (scored["correct"], scored["probability"], scored["brier"]) == (True, None, None)


def test_classes_stand_in_the_order_of_numbers() -> None:
    results = summarise([("10", "9"), ("9", "10"), ("2", "2"), ("x", "x")])
    assert results.numbers["confusion"]["labels"] == ["2", "9", "10", "x"]


def test_probabilities_of_very_many_classes_are_not_kept() -> None:
    for size, kept in ((100, True), (101, False)):
        shares = {str(k): 1 / size for k in range(size)}
        scored = Classification().score(Answer(0, "r", {"label": 1}, [{"label": 1, "probabilities": shares}]))
        assert (scored["probabilities"] is not None) is kept
        assert scored["probability"] == pytest.approx(1 / size)


def test_a_model_that_writes_freely_costs_no_memory() -> None:
    rows = [("a" if k % 2 else "b", f"text {k}" if k % 3 else "a") for k in range(3000)]
    results = summarise(rows)
    assert results.numbers["confusion"]["labels"] == ["(other text)", "a", "b"]
    assert (
        "2,000 different predictions are no label of the dataset; they are shown as (other text)."
        in results.limits
    )
    assert _metric(results, "accuracy").value == pytest.approx(1 / 6)


def test_very_many_labels_have_no_figures_of_their_own() -> None:
    results = summarise([(str(k), str(k)) for k in range(2001)])
    assert [metric.name for metric in results.metrics] == ["accuracy"]
    assert results.limits[-1] == "The dataset has 2,001 labels: too many for figures of each."


def test_other_columns_and_loose_labels() -> None:
    rubric = Classification(target="answer", field="text", normalise=True)
    assert rubric.columns == ("answer",)
    assert rubric.score(Answer(0, "r", {"answer": "positive"}, [{"text": " Positive."}]))["correct"] is True
    with pytest.raises(NoLabel, match="row 2 of the dataset has no answer"):
        rubric.score(Answer(2, "r", {"answer": None}, [{"text": "x"}]))


def test_curves_are_of_the_answers_with_probabilities() -> None:
    rubric = Classification()
    answers = [
        Answer(0, "r", {"label": "a"}, [{"label": "a", "probabilities": {"a": 0.75, "b": 0.25}}]),
        Answer(1, "r", {"label": "b"}, [{"label": "b", "probabilities": {"b": 1.0}}]),
        Answer(2, "r", {"label": "b"}, [{"label": "a", "probabilities": {"a": 0.5, "b": 0.5}}]),
        Answer(3, "r", {"label": "c"}, [{"label": "a"}]),
        Answer(4, "r", {"label": "a"}, None),
    ]
    rows = [{"_index_": a.index, "_replication_": "r", **rubric.score(a)} for a in answers]
    results = rubric.summarise(pa.Table.from_pylist(rows, _schema(rubric)))
    numbers = results.numbers["ranking"]
    assert numbers.rows == 3
    assert [row.label for row in numbers.classes] == ["a", "b"]
    assert _metric(results, "roc_auc_macro").value == 1
    assert [figure.title for figure in results.figures[-2:]] == [
        "ROC curves",
        "Precision-recall curves",
    ]
