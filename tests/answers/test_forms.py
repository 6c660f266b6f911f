"""Each form of an answer counts as right where it is, and nowhere else."""

from collections import Counter

import pytest

from tests.answers.forms import Form, forms

FORMS = list(forms())
NAMES = [f"{form.group}: {form.said} [{form.target}]" for form in FORMS]


def test_there_are_many_forms_and_each_stands_once() -> None:
    """Few forms read rightly would say little."""
    assert len(FORMS) >= 200
    assert min(Counter(form.kind for form in FORMS).values()) >= 100
    seen = Counter((form.kind, form.said, form.target, str(form.options)) for form in FORMS)
    assert [form for form, times in seen.items() if times > 1] == []


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_a_form_counts_as_what_it_is(form: Form) -> None:
    """An answer without a number or an option has a reason."""
    scored = form.scored()
    assert scored["correct"] is form.right
    assert (scored["prediction"] is None) == (scored["unread"] is not None)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_white_space_around_it_changes_nothing(form: Form) -> None:
    assert form.scored(f"\n  {form.said}\n\n") == form.scored()
