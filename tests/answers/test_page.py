"""docs/answer-forms.md and the table in docs/rubrics.md are what the data say; every difference has a reason."""

import json

import yaml

from tests.answers.forms import KINDS, forms, originals, outcome
from tests.answers.page import ORIGINALS, PAGE, RUBRICS, columns, page, reasons, with_summary


def test_the_page_is_what_the_forms_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python -m tests.answers.page"


def test_the_table_of_differences_is_what_the_forms_say() -> None:
    text = RUBRICS.read_text(encoding="utf-8")
    assert text == with_summary(text), "write it anew: python -m tests.answers.page"


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    by_key = {form.key: form for form in forms()}
    differences = {
        (name, outcome(by_key[key], reading))
        for kind in KINDS
        for name, readings in columns(kind).items()
        for key, reading in readings.items()
    }
    differences = {(name, result) for name, result in differences if result != "same"}
    assert differences == {(name, result) for name, by_outcome in reasons().items() for result in by_outcome}


def test_every_score_that_differs_has_a_reason_and_no_other() -> None:
    known = json.loads((ORIGINALS / "scores.json").read_text(encoding="utf-8"))
    why = yaml.safe_load((ORIGINALS / "reasons.yaml").read_text(encoding="utf-8"))
    differ = {(tool, name) for tool, names in known.items() for name, row in names.items() if row["differ"]}
    assert differ == {(tool, name) for tool, names in why.items() for name in names}
    assert all(sum(row["numbers"] for row in names.values()) >= 40 for names in known.values())


def test_every_tool_has_read_every_form_of_its_kind() -> None:
    for kind in KINDS:
        of_kind = {form.key for form in forms() if form.kind == kind}
        assert len(of_kind) == sum(form.kind == kind for form in forms())
        assert all(set(readings) == of_kind for readings in columns(kind).values())
    assert len(originals()) == 8
