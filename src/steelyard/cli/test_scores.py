"""Tests of the table of scores, and of the main scores of lists."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard.cli.scores import MOST_REPORTS, _list_scores, _table, main_scores, score_lines
from steelyard.client.errors import TransferFailed
from steelyard_schema.score import Score

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
    assert [score.id for score in _list_scores(client, list(there))] == ["3" * 32, "4" * 32]


def test_a_report_s_main_score_is_its_first_metric_or_says_why_it_is_not_shown() -> None:
    metrics = [{"title": "Accuracy", "value": 0.825}, {"title": "Kappa", "value": 0.7}]
    there = {"a": {"headline": "", "metrics": metrics}, "b": {"headline": "", "metrics": []}}
    asked: list[str] = []

    def download(id: str, folder: str, *, paths: list[str]) -> list[Path]:
        asked.append(id)
        if id not in there:
            raise TransferFailed("report.json: is gone")
        (file,) = (Path(folder) / path for path in paths)
        file.write_text(json.dumps(there[id]))
        return [file]

    client: Any = SimpleNamespace(reports=SimpleNamespace(download=download))
    assert main_scores(client, "reports", ["a", "b", "c"]) == {
        "a": "Accuracy: 0.825",
        "b": "",
        "c": "cannot be read",
    }
    asked.clear()
    scores = main_scores(client, "reports", ["a"] * (MOST_REPORTS - 1) + ["b", "left"])
    assert scores["left"] == "not read"
    assert len(asked) == MOST_REPORTS


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b" " * (33 << 20) + b"{}", "has more than 33554432 bytes"),
        (b'{"metrics": [' + b"[]," * 300_000 + b"[]]}", "has more than 250000 lists and objects"),
        (b"{", "does not hold the numbers"),
        (b"[" * 5000 + b"]" * 5000, "does not hold the numbers"),
        (b"[]", "does not hold the numbers"),
        (b'{"metrics": [{"title": "Accuracy"}]}', "does not hold the numbers"),
        (b'{"metrics": [{"title": "Accuracy", "value": "all"}]}', "does not hold the numbers"),
        (b'{"metrics": "none"}', "does not hold the numbers"),
    ],
    ids=["bytes", "lists", "cut off", "deep", "a list", "no value", "a text for a number", "no list"],
)
def test_a_report_json_that_is_none_or_too_large_is_said_to_be(content: bytes, fault: str) -> None:
    def download(id: str, folder: str, *, paths: list[str]) -> list[Path]:
        (Path(folder) / paths[0]).write_bytes(content)
        return [Path(folder) / paths[0]]

    client: Any = SimpleNamespace(reports=SimpleNamespace(download=download))
    (line,) = score_lines(client, "reports", "a")
    assert line.startswith("cannot be read: report.json ")
    assert fault in line
    assert main_scores(client, "reports", ["a"]) == {"a": "cannot be read"}


def test_lists_of_other_kinds_ask_for_no_scores() -> None:
    client: Any = None
    assert main_scores(client, "models", ["a"]) == {}
