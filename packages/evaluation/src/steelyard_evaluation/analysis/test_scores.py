"""Tests of recorded scores and curves against the published schema."""

import json
from pathlib import Path
from typing import Any

import pytest
from dyff.schema.platform import CurveData as PublishedCurve
from dyff.schema.platform import ScoreData as PublishedScore
from dyff.schema.platform import ScoreSpec as PublishedSpec

from steelyard_evaluation.analysis.errors import AnalysisFailed
from steelyard_evaluation.analysis.example import ACCURACY, CURVE, ID, METHOD, make_analysis
from steelyard_evaluation.analysis.scores import (
    MOST_BYTES,
    beyond_bounds,
    check_records,
    curve_data,
    record,
    score_data,
)
from steelyard_evaluation.analysis.workspace import CURVES, SCORES
from steelyard_schema.analysis import AnalysisFields

FIELDS = AnalysisFields.parse(make_analysis())
SCORE = score_data(ID, FIELDS, "accuracy", 0.5, "Half.").dump()
POINTS = {"threshold": [0.1, 0.9], "recall": [1.0, 0.5]}


def test_scores_have_the_form_of_the_published_schema(tmp_path: Path) -> None:
    record(tmp_path, SCORES, score_data(ID, FIELDS, "accuracy", 0.925, "Most."))
    record(tmp_path, CURVES, curve_data(ID, FIELDS, "recall", POINTS))
    records = check_records(tmp_path, ID, FIELDS)
    score = PublishedScore.model_validate(json.loads(records[SCORES])["scores"][0])
    assert score.quantityString == PublishedSpec(**ACCURACY).quantity_string(0.925) == "0.93"
    assert PublishedCurve.model_validate(json.loads(records[CURVES])["curves"][0]).points == POINTS


def test_what_the_published_schema_writes_is_accepted(tmp_path: Path) -> None:
    (tmp_path / ".dyff").mkdir()
    published = PublishedScore.model_validate(SCORE).model_dump(mode="json")
    (tmp_path / SCORES).write_text(json.dumps({"scores": [published]}))
    curve = PublishedCurve.model_validate(curve_data(ID, FIELDS, "recall", POINTS).dump())
    (tmp_path / CURVES).write_text(json.dumps({"curves": [curve.model_dump(mode="json")]}))
    records = check_records(tmp_path, ID, FIELDS)
    assert json.loads(records[SCORES]) == {"scores": [SCORE]}
    assert json.loads(records[CURVES])["curves"][0]["points"] == POINTS


@pytest.mark.parametrize(
    ("name", "quantity", "fault"),
    [
        ("other", 0.5, "'other' is no score of the method; it declares accuracy"),
        ("recall", 0.5, "'recall' is no score"),
        ("accuracy", float("nan"), "should be a finite number"),
    ],
)
def test_a_score_that_is_not_allowed_is_refused_where_it_is_made(
    name: str, quantity: float, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        score_data(ID, FIELDS, name, quantity, "text")


@pytest.mark.parametrize(
    ("points", "fault"),
    [
        ({"threshold": [0.1]}, "values of recall are missing"),
        (
            {**POINTS, "other": [1, 2]},
            "'other' is not a dimension of the curve; it declares threshold, recall",
        ),
        ({"threshold": [0.1], "recall": [0.5, 0.6]}, "as many values"),
        ({"threshold": [0.1], "recall": [float("inf")]}, r"recall\.recall: inf should be a finite number"),
    ],
)
def test_a_curve_that_is_not_allowed_is_refused_where_it_is_made(
    points: dict[str, list[float]], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        curve_data(ID, FIELDS, "recall", points)


def test_numbers_outside_of_their_bounds_are_taken_and_named(tmp_path: Path) -> None:
    record(tmp_path, SCORES, score_data(ID, FIELDS, "accuracy", 1.5, "Much."))
    points = {"threshold": [0.1, 0.5, 0.9], "recall": [-2, 0.5, 3]}
    record(tmp_path, CURVES, curve_data(ID, FIELDS, "recall", points))
    records = check_records(tmp_path, ID, FIELDS)
    assert json.loads(records[SCORES])["scores"][0]["quantity"] == 1.5
    assert list(beyond_bounds(FIELDS, records)) == [
        "score accuracy: 1.5 is more than 1.0, the maximum of accuracy",
        "curve recall.recall: -2.0 is less than 0.0, the minimum of recall",
        "curve recall.recall: 3.0 is more than 1.0, the maximum of recall",
    ]


def test_a_score_is_recorded_once(tmp_path: Path) -> None:
    score = score_data(ID, FIELDS, "accuracy", 0.5, "Half.")
    record(tmp_path, SCORES, score)
    with pytest.raises(ValueError, match="'accuracy' is recorded already"):
        record(tmp_path, SCORES, score)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", r"\.dyff/scores\.json: should be JSON"),
        ("[]", r'should be {"scores": \[…\]}'),
        ({"scores": [{**SCORE, "name": "other"}]}, r"scores\.0\.name: 'other' is no score of the method"),
        ({"scores": [SCORE, SCORE]}, "'accuracy' is there twice"),
        ({"scores": [{**SCORE, "quantity": "much"}]}, r"scores\.0\.quantity: .*'much'"),
        ({"scores": [{**SCORE, "text": "x" * 281}]}, r"scores\.0\.text: .*280"),
        ({"scores": [{**SCORE, "title": "Mine"}]}, r"scores\.0\.title: 'Mine' should be 'Accuracy'"),
        ({"scores": [{**SCORE, "analysis": "f" * 32}]}, rf"scores\.0\.analysis: 'f+' should be '{ID}'"),
        (
            {"scores": [{**SCORE, "metadata": {"refs": {"method": "f" * 32}}}]},
            rf"scores\.0\.metadata\.refs: .* should be .*{METHOD}",
        ),
        ({"scores": [CURVE]}, r"scores\.0\."),
        (" " * (MOST_BYTES + 1), f"at most {MOST_BYTES} are allowed"),
    ],
)
def test_a_file_of_scores_is_refused_with_the_field_at_fault(
    tmp_path: Path, content: Any, fault: str
) -> None:
    (tmp_path / ".dyff").mkdir()
    (tmp_path / SCORES).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(AnalysisFailed, match=fault) as failure:
        check_records(tmp_path, ID, FIELDS)
    assert failure.value.code == "OutputInvalid"
