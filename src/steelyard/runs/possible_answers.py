"""Rubrics and the answers that an endpoint can give: a mismatch is known before answers are paid for.

`scores.check_rubrics` calls `check_field`; `collect.check_request` calls `check_choices`. Rubrics are imported late.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from steelyard.errors import UsageError
from steelyard.evaluation.openai import ANSWER
from steelyard.evaluation.rows import to_rows
from steelyard.evaluation.shape import INDEX
from steelyard.runs.prompts.inputs import selected_batches
from steelyard.runs.resolve import ResolvedRequest
from steelyard_common.types import JsonValue

if TYPE_CHECKING:
    from steelyard.report.results import Rubric

_FIELDS = (*(field.name for field in ANSWER), "verdicts")
_SHOWN = 4


def check_field(rubric: "Rubric", reference: str) -> None:
    """Raise UsageError for a rubric that reads a field which no answer of an endpoint has."""
    field = getattr(rubric, "field", None)
    if isinstance(field, str) and field not in _FIELDS:
        mark = "&" if "?" in reference else "?"
        raise UsageError(
            f"--rubric {reference}: reads the field {field!r} of an answer, which has {', '.join(_FIELDS)}. "
            f"To read the text: '{reference}{mark}field=text'"
        )


def check_choices(resolved: ResolvedRequest) -> None:
    """Raise UsageError if the endpoint is asked for one of several texts, and none of them can be a target."""
    choices = choices_of(resolved.request.prompt.sampling)
    if not choices or not resolved.request.rubrics:
        return
    from steelyard.report.results import Answer
    from steelyard.report.rubrics import find_rubric
    from steelyard.report.rubrics.rows import NoTarget, targets
    from steelyard.report.rubrics.vocabularies import share_no_word

    for rubric in resolved.request.rubrics:
        made = find_rubric(rubric.reference)
        column = getattr(made, "target", None)
        if getattr(made, "compares", None) is None or not isinstance(column, str):
            continue
        labels: set[str] = set()
        for batch in selected_batches(resolved.rows, resolved.source):
            rows = to_rows(batch.drop_columns([INDEX]))
            with suppress(NoTarget):  # the check of targets says so
                labels |= {text for row in rows for text in targets(Answer(0, "", row, None), column)}
            if not share_no_word(labels, choices):
                break
        else:
            raise UsageError(
                f"--rubric {rubric.reference}: no answer could be right: the endpoint is asked for one of "
                f"{_listed(choices)}, and the targets are {_listed(sorted(labels))}"
            )


def choices_of(sampling: Mapping[str, JsonValue]) -> list[str]:
    """Return the texts to which the parameters of a request restrict an answer; none where they do not."""
    structured = sampling.get("structured_outputs")
    listed = structured.get("choice") if isinstance(structured, Mapping) else sampling.get("guided_choice")
    return [choice for choice in listed if isinstance(choice, str)] if isinstance(listed, list) else []


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")
