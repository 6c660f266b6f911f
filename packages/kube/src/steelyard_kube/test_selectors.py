"""Selectors: what they select, and which texts are refused."""

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import ApiError
from steelyard_kube.selectors import matcher, parse_fields, parse_labels

POD: Json = {"metadata": {"name": "p", "labels": {"app": "a", "rank": "2"}}, "spec": {"hostNetwork": True}}


@pytest.mark.parametrize(
    ("labels", "selected"),
    [
        ("", True), ("app=a", True), ("app==a", True), ("app!=a", False), ("none!=a", True), ("app", True),
        ("!app", False), ("! none", True), ("app in (a, b)", True), ("app notin (b)", True),
        ("none notin (b)", True), ("app in ()", False), ("none in ()", False), ("app in (,a)", True),
        ("rank>1", True), ("rank > 1, rank < 3", True), ("rank>2", False), ("app>1", False), ("none<1", False),
        ("app=", False), ("in=x", False),
    ],
)  # fmt: skip
def test_labels(labels: str, selected: bool) -> None:
    assert matcher(labels, "")(POD) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a b=c", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_texts_that_are_no_label_selectors(text: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_labels(text)
    assert str(refused.value.message) == message


@pytest.mark.parametrize(
    ("fields", "selected"),
    [
        ("metadata.name=p", True), ("metadata.name=p,", True), (",", True), ("=", True), ("metadata.name!=p", False),
        ("spec.hostNetwork=true", True), ("spec.nodeName=", True), (r"metadata.name=p\,q", False),
    ],
)  # fmt: skip
def test_fields(fields: str, selected: bool) -> None:
    assert matcher("", fields)(POD) is selected


def test_texts_that_are_no_field_selectors() -> None:
    with pytest.raises(ApiError, match="invalid selector: 'a=b,c>d'; can't understand 'c>d'"):
        parse_fields("a=b,c>d")
