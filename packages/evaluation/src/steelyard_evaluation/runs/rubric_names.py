"""Checks of rubrics by their names, before the first call and without importing them, which is slow."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.request import RubricSpec, RunRequest
from steelyard_schema.rubric_names import GROUP, alias, list_names

VERDICT = "judge.Verdict"
"""The rubric that reads what judges said."""


def check_names(rubrics: Sequence[RubricSpec]) -> None:
    """Raise NoSuchRubric for an unknown name, with the message of the code that would look it up later."""
    for rubric in rubrics:
        if rubric.reference.partition("?")[0] not in _names():
            from steelyard_evaluation.report.rubrics import find_rubric

            find_rubric(rubric.reference)


@cache  # reading all distributions takes 20 ms; a name that came later is found by the code that looks it up
def _names() -> frozenset[str]:
    return list_names(entry_points(group=GROUP).names)


def reads_verdicts(rubrics: Sequence[RubricSpec]) -> bool:
    return any(rubric.reference.partition("?")[0] in {VERDICT, alias(VERDICT)} for rubric in rubrics)


def check_verdicts(request: RunRequest) -> None:
    """UsageError for a rubric of verdicts where no judge gives any."""
    if reads_verdicts(request.rubrics) and not request.judges:
        raise UsageError("--rubric verdict: reads what judges say; name one with --judge-model")
