"""docs/tasks.md has the reference of task files as the models say it, and every example is a task."""

from pathlib import Path

import pytest

from steelyard_evaluation.runs.tasks import load_task
from steelyard_evaluation.runs.tasks.reference import PAGE, in_page
from tests.source import ROOT

EXAMPLES = sorted((ROOT / "examples" / "tasks").glob("*.yaml"))


def test_the_reference_in_the_docs_is_what_the_models_say() -> None:
    page = (ROOT / PAGE).read_text()
    assert in_page(page) == page, "python -m steelyard_evaluation.runs.tasks.reference writes it anew"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_task(path: Path) -> None:
    request = load_task(path)
    assert request.rubrics
    assert Path(request.source.location).stem == path.stem


def test_there_are_five_examples() -> None:
    assert len(EXAMPLES) == 5
