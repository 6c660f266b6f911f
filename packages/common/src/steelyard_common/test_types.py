"""Readers of fields that a document may leave out, or fill with something else."""

from datetime import date
from typing import Any

import pytest

from steelyard_common.types import LONGEST_VALUE, copy_value, mapping, sequence, shorten, value_text

EMPTY: list[Any] = [None, "", 0, False, [], {}]


def test_what_stands_at_a_path_is_read() -> None:
    labels, containers = {"app": "demo"}, [{"name": "main"}]
    pod = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    assert mapping(pod, "metadata", "labels") is labels
    assert sequence(pod, "spec", "containers") is containers
    assert mapping(pod) is pod


def test_a_tuple_reads_as_a_list() -> None:
    assert sequence({"args": ("a", "b")}, "args") == ["a", "b"]


@pytest.mark.parametrize("document", [None, {}, {"spec": {}}, {"spec": None}])
def test_absent_fields_read_as_empty(document: Any) -> None:
    assert mapping(document, "spec", "template") == {}
    assert sequence(document, "spec", "containers") == []


@pytest.mark.parametrize("empty", EMPTY)
def test_whatever_is_empty_reads_as_empty(empty: Any) -> None:
    assert mapping({"spec": empty}, "spec") == mapping({"spec": empty}, "spec", "template") == {}
    assert sequence({"items": empty}, "items") == []


@pytest.mark.parametrize("wrong", ["all", 7, True, ["item"]])
def test_what_is_no_object_does_not_pass_for_an_empty_one(wrong: Any) -> None:
    for path in (("resources", "limits"), ("resources",)):
        with pytest.raises(TypeError, match=r"resources(\.limits)? has to be an object, not "):
            mapping({"resources": wrong}, *path)
    with pytest.raises(TypeError, match="spec has to be an object, not "):
        sequence({"spec": wrong}, "spec", "containers")


@pytest.mark.parametrize("wrong", ["all", 7, True, {"name": "value"}])
def test_what_is_no_list_does_not_pass_for_an_empty_one(wrong: Any) -> None:
    with pytest.raises(TypeError, match="items has to be a list, not "):
        sequence({"items": wrong}, "items")


def test_a_copy_shares_nothing_that_can_change() -> None:
    document = {"spec": {"args": ["a", {"b": None}], "count": 2**70, "on": True}}
    copy = copy_value(document)
    assert copy == document
    copy["spec"]["args"][1]["b"] = "changed"
    copy["spec"]["args"].append("more")
    assert document == {"spec": {"args": ["a", {"b": None}], "count": 2**70, "on": True}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        (True, "true"),
        (None, "null"),
        (0.5, "0.5"),
        ({"a": None, "b": ["é", False]}, '{"a": null, "b": ["é", false]}'),
        ([{date(2026, 1, 1): 1}], "[{datetime.date(2026, 1, 1): 1}]"),
        ("x" * 300, "'" + "x" * (LONGEST_VALUE - 1) + "…"),
    ],
)
def test_a_message_shows_a_value_as_its_document_does(value: Any, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(("text", "short"), [("12345", "12345"), ("123456", "1234…"), ("", "")])
def test_a_long_text_is_cut_to_a_number_of_characters(text: str, short: str) -> None:
    assert shorten(text, 5) == short
