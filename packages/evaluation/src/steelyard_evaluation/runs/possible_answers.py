"""Rubrics and the answers that an endpoint can give: a mismatch is known before answers are paid for.

`scores.check_rubrics` calls `check_field`; `collect.check_request` calls `check_choices`. Rubrics are imported late.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.openai import ANSWER
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.runs.prompts.inputs import select_batches
from steelyard_evaluation.runs.resolve import ResolvedRequest

if TYPE_CHECKING:
    from steelyard_evaluation.report.results import Rubric

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
    choices = list_choices(resolved.request.prompt.sampling)
    if not choices or not resolved.request.rubrics:
        return
    from steelyard_evaluation.report.results import Answer
    from steelyard_evaluation.report.rubrics import find_rubric
    from steelyard_evaluation.report.rubrics.rows import NoTarget, targets
    from steelyard_evaluation.report.rubrics.vocabularies import share_no_word

    for rubric in resolved.request.rubrics:
        made = find_rubric(rubric.reference)
        column = getattr(made, "target", None)
        if getattr(made, "compares", None) is None or not isinstance(column, str):
            continue
        labels: set[str] = set()
        for batch in select_batches(resolved.rows, resolved.source):
            rows = to_rows(batch.drop_columns([INDEX]))
            with suppress(NoTarget):  # the check of targets says so
                labels |= {text for row in rows for text in targets(Answer(0, "", row, None), column)}
            if not share_no_word(labels, choices):
                break
        else:
            raise UsageError(
                f"--rubric {rubric.reference}: no answer could be right: the endpoint is asked for one of "
                f"{_join_texts(choices)}, and the targets are {_join_texts(sorted(labels))}"
            )


def list_choices(sampling: Mapping[str, JsonValue]) -> list[str]:
    """Return the texts to which the parameters of a request restrict an answer; none where they do not."""
    structured = sampling.get("structured_outputs")
    listed = structured.get("choice") if isinstance(structured, Mapping) else sampling.get("guided_choice")
    return [choice for choice in listed if isinstance(choice, str)] if isinstance(listed, list) else []


def _join_texts(texts: list[str]) -> str:
    return ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")
