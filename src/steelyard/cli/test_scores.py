"""Tests of the table of scores."""

from types import SimpleNamespace
from typing import Any

from steelyard.cli.scores import _scores_of, _table
from steelyard.schema.score import Score

SCORE = {
    "name": "accuracy",
    "title": "Accuracy",
    "summary": "Share of right answers.",
    "metadata": {"refs": {"method": "1" * 32}},
    "analysis": "2" * 32,
    "quantity": 0.93,
    "quantityString": "93 %",
    "text": "93 of 100 answers are right.",
    "id": "3" * 32,
}


def test_a_score_is_a_line() -> None:
    heading, line = _table([Score.parse(SCORE)]).splitlines()
    assert heading.split("  ")[0] == "SAFETY CASE"
    assert " ".join(line.split()) == "22222222 accuracy 93 % Accuracy 93 of 100 answers are right."


def test_no_scores_are_a_sentence() -> None:
    assert _table([]) == "no safety case that matches has scores"


def test_scores_of_named_safety_cases_are_asked_of_each_since_queries_leave_out_what_is_public() -> None:
    there = {"a" * 32: [Score.parse(SCORE)], "b" * 32: [], "c" * 32: [Score.parse(SCORE | {"id": "4" * 32})]}
    client: Any = SimpleNamespace(safetycases=SimpleNamespace(scores=there.__getitem__))
    assert [score.id for score in _scores_of(client, list(there))] == ["3" * 32, "4" * 32]
