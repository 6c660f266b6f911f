"""Rubrics by their names and arguments; a wrong one is reported with what there is."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.rubrics import BadRubricArgument, NoSuchRubric, alias, find_rubric
from steelyard_evaluation.report.rubrics.classification import Classification

GROUP = "steelyard.rubrics"


def _points(*names: str) -> list[EntryPoint]:
    return [
        EntryPoint(name, "steelyard_evaluation.report.rubrics.classification:Classification", GROUP)
        for name in names
    ]


@pytest.mark.parametrize("name", ["classification.Classification", "classification"])
def test_the_built_in_rubric_is_found(name: str) -> None:
    assert find_rubric(name) == Classification()


def test_arguments_are_typed() -> None:
    assert find_rubric("classification.Classification?bins=15&field=said") == Classification(
        bins=15, field="said"
    )


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        ("classification.Classification?bin=3", "has no argument 'bin'; it takes: bins, target, field"),
        ("classification.Classification?bins=many", "argument bins: should be a valid integer"),
    ],
)
def test_bad_arguments_are_named(reference: str, fault: str) -> None:
    with pytest.raises(BadRubricArgument, match=fault):
        find_rubric(reference)


def test_an_unknown_rubric_names_those_there_are() -> None:
    with pytest.raises(
        NoSuchRubric,
        match=r"no rubric 'text\.Nothing'; installed: choice\.MultipleChoice, classification\.Classification",
    ):
        find_rubric("text.Nothing")


def test_an_ambiguous_alias_is_refused() -> None:
    with pytest.raises(NoSuchRubric, match=r"name one of: a\.Same, b\.Same"):
        find_rubric("same", _points("a.Same", "b.Same"))


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("import nothing_of_this", "ModuleNotFoundError: No module named 'nothing_of_this'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise ValueError('one\\ntwo')", "ValueError: one"),
        ("", "AttributeError: module 'failing_rubrics' has no attribute 'Brief'"),
    ],
)
def test_a_rubric_of_others_that_cannot_be_imported_is_named(
    tmp_path: Path, code: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_rubrics.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    # One that the import of another case has left.
    monkeypatch.delitem(sys.modules, "failing_rubrics", raising=False)
    point = EntryPoint("brief.Brief", "failing_rubrics:Brief", GROUP)
    with pytest.raises(UsageError) as raised:
        find_rubric("brief?most=5", [point])
    assert str(raised.value) == f"rubric brief.Brief: importing failing_rubrics failed: {line}"


def test_an_import_of_ours_that_fails_stays_as_it_is() -> None:
    """The command line names the extra that is missing."""
    point = EntryPoint("ours.Missing", "steelyard_evaluation.report.rubrics.missing:Missing", GROUP)
    with pytest.raises(ModuleNotFoundError):
        find_rubric("ours.Missing", [point])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text.ExactMatch", "exact-match"),
        ("text.BLEU", "bleu"),
        ("m.TopKAccuracy", "top-k-accuracy"),
        ("m.JSONSchema", "json-schema"),
        ("text.TokenF1", "token-f1"),
    ],
)
def test_aliases(name: str, expected: str) -> None:
    assert alias(name) == expected
