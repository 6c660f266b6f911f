"""Output of entities in every form."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from steelyard.cli.connection import make_filters, parse_label
from steelyard.cli.output import check_form, describe, display_name, log_line, render, table
from steelyard.cli.scores import metric_lines, score_lines
from steelyard.client.errors import TransferFailed
from steelyard_common.errors import UsageError
from steelyard_common.types import Json

NOW = datetime(2030, 1, 1, 0, 5, tzinfo=UTC)
MODEL = {
    "id": "a" * 32,
    "name": "mine",
    "kind": "Model",
    "account": "acme",
    "status": "Created",
    "reason": "QuotaLimit",
    "message": "Global quota exceeded",
    "creationTime": "2030-01-01T00:00:00Z",
    "labels": {"team": "red"},
}


def test_a_table_says_why_an_entity_waits() -> None:
    head, row = render([MODEL], "table", "models", single=False, now=NOW).splitlines()
    assert head.split() == ["ID", "NAME", "STATUS", "AGE", "WHY"]
    assert row.split(maxsplit=4) == ["a" * 32, "mine", "Created", "5m", "QuotaLimit: Global quota exceeded"]
    assert render([], "table", "models", single=False, now=NOW) == "nothing found"


def test_a_table_says_what_an_entity_is_about() -> None:
    case = {
        "id": "c" * 32,
        "name": "judged",
        "scope": {"dataset": "d" * 32, "inferenceService": "e" * 32},
        "annotations": [{"key": "steelyard/name-inferenceService", "value": "digits"}],
        "status": "Complete",
    }
    service = {"id": "e" * 32, "name": "served", "model": {"id": "f" * 32, "name": "small"}}
    asked = {"id": "b" * 32, "dataset": "d" * 32, "inferenceSession": {"inferenceService": service}}
    head, first, second = table([case, asked], NOW, {"c" * 32: "93 %"}).splitlines()
    assert head.split() == ["ID", "NAME", "DATASET", "MODEL", "SCORE", "STATUS", "AGE", "WHY"]
    assert first.split() == ["c" * 32, "judged", "dddddddd", "digits", "93", "%", "Complete"]
    assert second.split() == ["b" * 32, "dddddddd", "small"]


def test_a_description_shows_the_scores() -> None:
    metric = {"name": "accuracy", "title": "Accuracy", "value": 0.825, "low": 0.7281, "high": 0.8922}
    lines = metric_lines({"headline": "Of 80 rows, 82.5 % were right.", "metrics": [metric]})
    shown = describe(MODEL, "reports", NOW, scores=lines)
    assert (
        "Scores:   Of 80 rows, 82.5 % were right.\n          Accuracy: 0.825 (95 % interval 0.7281 to 0.8922)"
        in shown
    )


def test_scores_that_cannot_be_read_do_not_hide_the_entity() -> None:
    def download(*_: object, **__: object) -> None:
        raise TransferFailed("report.json: is gone")

    client: Any = SimpleNamespace(reports=SimpleNamespace(download=download))
    assert score_lines(client, "reports", "r") == ["cannot be read: report.json: is gone"]


def test_programs_get_json_yaml_and_names() -> None:
    assert json.loads(render([MODEL], "json", "models", single=True, now=NOW)) == MODEL
    assert json.loads(render([MODEL], "json", "models", single=False, now=NOW)) == [MODEL]
    assert yaml.safe_load(render([MODEL], "yaml", "models", single=True, now=NOW)) == MODEL
    assert render([MODEL, MODEL], "name", "models", single=False, now=NOW) == "\n".join(
        [f"models/{'a' * 32}"] * 2
    )


def test_a_description_says_everything_once() -> None:
    text = describe(MODEL, "models", NOW)
    assert "Why:      QuotaLimit: Global quota exceeded" in text
    assert "Labels:   team=red" in text
    assert text.count("mine") == 1


def test_a_description_of_a_method_that_failed_names_the_command_that_prints_its_traceback() -> None:
    failed = {"id": "b" * 32, "status": "Failed", "reason": "MethodFailed", "message": "KeyError: 'kind'"}
    text = describe(failed, "safetycases", NOW)
    assert (
        f"Why:      MethodFailed: KeyError: 'kind'\nMore:     steelyard logs safetycases {'b' * 32}" in text
    )
    assert "More:" not in describe(failed | {"reason": "OutputInvalid"}, "safetycases", NOW)


def test_a_description_shows_an_encoded_schema_in_part_and_a_message_whole() -> None:
    text = describe(MODEL | {"schema": {"arrowSchema": ["A" * 500]}, "note": "a word " * 50}, "models", NOW)
    assert f"- {'A' * 60}... (500 characters)" in text
    assert text.count("a word") == 50


def test_a_form_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="--output xml: should be table, json, yaml or name"):
        check_form("xml")


def test_filters_go_out_as_the_api_has_them() -> None:
    assert make_filters(["team=red"], ["status=Failed", "dataset=a,b"]) == {
        "status": "Failed",
        "labels": {"team": "red"},
        "query": '{"dataset": ["a", "b"]}',
    }
    with pytest.raises(UsageError, match="--where status"):
        make_filters([], ["status"])
    with pytest.raises(UsageError, match="--label team: should be key=value"):
        make_filters(["team"], [])


def test_a_label_is_set_or_taken_away() -> None:
    assert (parse_label("a=b"), parse_label("a-"), parse_label("a=")) == (("a", "b"), ("a", None), ("a", ""))
    with pytest.raises(UsageError, match="key=value"):
        parse_label("a")


@pytest.mark.parametrize(
    ("entity", "name"),
    [
        ({"name": "mine", "documentation": {"title": "T"}}, "mine"),
        ({"documentation": {"title": "Fairness"}, "metadata": {}}, "Fairness"),
        ({"documentation": {"title": "old"}, "metadata": {"documentation": {"title": "Edited"}}}, "Edited"),
        ({"metadata": {"documentation": {"title": None}}}, ""),
        ({"content": {"page": {"title": "Paris 1900"}}}, "Paris 1900"),
        ({"kind": "Report", "rubric": "text.Exact", "documentation": {"title": "Week 3"}}, "Week 3"),
        ({"kind": "Report", "rubric": "text.Exact?lower=true"}, "text.Exact?lower=true"),
        (
            {
                "kind": "Evaluation",
                "dataset": "d" * 32,
                "annotations": [{"key": "steelyard/name-dataset", "value": "digits"}],
                "inferenceSession": {"inferenceService": {"name": "small"}},
            },
            "small on digits",
        ),
        ({"kind": "Evaluation", "dataset": "d" * 32}, "dddddddd"),
        ({}, ""),
    ],
)
def test_what_has_no_name_is_called_by_its_title_or_by_what_it_is_made_of(entity: Json, name: str) -> None:
    assert display_name(entity) == name
    assert name in render([{"id": "a", **entity}], "table", "usecases", single=False, now=NOW)


STEP = {
    "time": "2030-01-01T00:00:00.5+00:00",
    "level": "info",
    "step": "evaluation_client",
    "message": "rows read",
}


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (STEP, "T evaluation_client: rows read"),
        ({**STEP, "rows": 5, "of": "a b"}, "T evaluation_client: rows read rows=5 of=a b"),
        ({**STEP, "level": "error", "message": "no room"}, "T evaluation_client: error: no room"),
        ({"question": 1}, 'T {"question": 1}'),
        ("a server's own line", "T a server's own line"),
        ("[1]", "T [1]"),
        ("", "T "),
    ],
)
def test_a_line_of_a_step_is_printed_as_a_sentence_with_one_time(message: Json | str, line: str) -> None:
    text = message if isinstance(message, str) else json.dumps(message)
    assert log_line("T", text) == line
