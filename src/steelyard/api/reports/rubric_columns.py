"""Columns of a dataset that rubrics of the platform read, checked when a report or a procedure is created.

Without it, a report with a wrong column, or a target that no answer can meet, would fail after its evaluation is paid
for. The API imports no rubric: a test compares the table with the rubrics themselves.
"""

from collections.abc import Mapping
from urllib.parse import unquote

from steelyard.api.datasets.columns import find_columns
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard_schema.columns import INDEX, missing, present
from steelyard_schema.dataset import Dataset
from steelyard_schema.rubric_names import alias

_TARGET = {"target": "target|answer|label"}
READ: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(
        ("text.ExactMatch", "text.NormalisedMatch", "text.Contains", "text.Regex", "text.TokenF1"), _TARGET
    ),
    **dict.fromkeys(("numeric.Close", "overlap.Bleu", "overlap.ChrF", "overlap.Rouge"), _TARGET),
    "choice.MultipleChoice": {**_TARGET, "choices": "choices|options|"},
    "classification.Classification": {"target": "label"},
    "structure.JsonSchema": {"column": "schema|json_schema"},
    "judge.Verdict": {"target": "target|answer|label|"},
}
"""Arguments of rubrics that name columns, with their defaults."""
FIXED: Mapping[str, tuple[str, ...]] = {"lm_eval.Task": ("prompt", "kind", "task", "document")}
"""Columns that a rubric always reads."""
_FULL = {alias(name): name for name in (*READ, *FIXED)}


def read_rubric_columns(reference: str) -> tuple[str, ...]:
    """Return the columns that a rubric reads, each with its alternatives; none where they are not known."""
    full, query = _full(reference), reference.partition("?")[2]
    pairs = (part.partition("=") for part in query.split("&") if part)
    given = {unquote(argument): unquote(value) for argument, _, value in pairs}
    # A schema that is given is not read from the rows, and a pattern without a group is compared with nothing.
    if (full == "structure.JsonSchema" and given.get("schema")) or (
        full == "text.Regex" and "group" not in given
    ):
        return ()
    return (*(given.get(name, default) for name, default in READ.get(full, {}).items()), *FIXED.get(full, ()))


async def check_rubric_columns(context: RequestContext, reference: str, dataset: Dataset, field: str) -> None:
    """Raise Invalid for a column that the dataset is known to lack, or a row that no answer could mend."""
    columns = read_rubric_columns(reference)
    there = await find_columns(context.api.platform.store, dataset) if columns else None
    if there is None:
        return
    for column in columns:
        if fault := missing(column, there, f"dataset {dataset.id}"):
            raise Invalid(f"{field}: {reference} {fault}", field=field)
    read = {name for column in columns if (name := present(column, there)) is not None}
    # The rows of a task of lm-eval are its own. A fault repeats values, which not everybody may see who sees columns.
    judged = INDEX in there and read and _full(reference) in READ
    if not (judged and context.access.allows("datasets", "data", dataset.account, dataset.id)):
        return
    if fault := await context.api.row_faults.find(dataset, reference, read):
        raise Invalid(f"{field}: {reference}, dataset {dataset.id}: {fault}", field=field)


def _full(reference: str) -> str:
    name = reference.partition("?")[0]
    return _FULL.get(name, name)
