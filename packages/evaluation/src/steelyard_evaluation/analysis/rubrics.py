"""Methods that are a rubric: every answer of the input `predictions` scored by the row of `task_data` that it answers.

A rubric is one of ours (`docs/rubrics.md`), or has `apply(task_data, predictions)`, as those of dyff-audit.
"""

import dataclasses
import os
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from steelyard_evaluation.analysis.applied import AppliedRubric, has_apply
from steelyard_evaluation.analysis.context import AnalysisContext
from steelyard_evaluation.analysis.errors import AnalysisFailed, method_missing
from steelyard_evaluation.analysis.importing import find
from steelyard_evaluation.analysis.tables import PART, parse_declared_schema, write_rows
from steelyard_evaluation.analysis.workspace import STORAGE_ROOT
from steelyard_evaluation.report.answers import Questions, make_view, read_answers
from steelyard_evaluation.report.results import Rubric
from steelyard_evaluation.report.rubrics import GROUP, find_rubric
from steelyard_evaluation.report.rubrics.find import list_installed
from steelyard_evaluation.report.status import COLUMN as STATUS
from steelyard_evaluation.report.status import with_resolved_status
from steelyard_schema.method import ForeignMethod

TASK_DATA, PREDICTIONS = "task_data", "predictions"
_ORIGINALS = "dyff.audit.scoring."
"""Package in which dyff-audit searches for rubrics of short names."""


def find_rubrics(reference: str) -> tuple[EntryPoint, ...]:
    """Return the installed rubrics and the class of the modules that `reference` names by its full name.

    Raises AnalysisFailed where there is neither.
    """
    name = reference.partition("?")[0]
    there = list_installed()
    if any(point.name == name for point in there):
        return there
    if "." not in name:
        return there
    kind = _rubric_class(name)
    place = f"{kind.__module__}:{kind.__qualname__}" if isinstance(kind, type) else ""
    if has_apply(kind) and place:
        if STORAGE_ROOT not in os.environ:
            raise method_missing(
                f"rubric {name!r}: scores all rows by `apply`, which only the step of a report does"
            )
        return (*there, AppliedRubric(name, place, GROUP))
    if not dataclasses.is_dataclass(kind) or not callable(getattr(kind, "score", None)):
        raise method_missing(f"rubric {name!r}: should be a dataclass with the methods of a rubric")
    module, _, member = name.rpartition(".")
    return (*there, EntryPoint(name, f"{module}:{member}", GROUP))


def _rubric_class(name: str) -> Any:
    """Return the class of this name, which may be the short one of a rubric of dyff-audit. Raises AnalysisFailed."""
    try:
        return find(name, "rubric")
    except AnalysisFailed as error:
        try:
            return find(_ORIGINALS + name, "rubric")
        except (AnalysisFailed, ImportError):
            raise error from None


def run_rubric(context: AnalysisContext, method: ForeignMethod, name: str) -> None:
    """Score every row of the predictions, and write the columns that the measurement declares."""
    if method.output.measurement is None:
        raise AnalysisFailed("BadRequest", "spec.method.output: should be a measurement, for a rubric")
    for keyword in (TASK_DATA, PREDICTIONS):
        if keyword not in context.inputs:
            raise AnalysisFailed(
                "BadRequest", f"spec.inputs: a rubric needs the input {keyword}, which is missing"
            )
    schema = parse_declared_schema(method.output.measurement.schema_.arrowSchema)
    rows = _apply_rubric(context, name)
    if rows is None:
        arguments = "&".join(
            f"{quote(key, '')}={quote(value, '')}" for key, value in context.arguments.items()
        )
        rows = _score_answers(context, find_rubric(f"{name}?{arguments}", find_rubrics(name)), schema)
    print(f"wrote {write_rows(rows, schema, context.output / PART)} rows", flush=True)


def _apply_rubric(context: AnalysisContext, name: str) -> Any:
    """Return the rows of a rubric with `apply`; None for one of ours."""
    if any(point.name == name for point in list_installed()):
        return None
    kind = _rubric_class(name)
    if not callable(getattr(kind, "apply", None)):
        return None
    if context.arguments:
        print(f"warning: arguments: rubric {name} takes none", flush=True)
    return kind().apply(context.dataset(TASK_DATA), context.dataset(PREDICTIONS))


def _score_answers(context: AnalysisContext, rubric: Rubric, schema: pa.Schema) -> Iterator[pa.Table]:
    identity = make_view(None)
    questions = Questions(sorted(context.folder(TASK_DATA).glob("*.parquet")), rubric.columns, identity)
    own = [field for field in rubric.scores if field.name != STATUS]
    keys = [("_index_", pa.int64()), ("_replication_", pa.string()), (STATUS, pa.string())]
    whole = pa.schema([*(pa.field(name, kind) for name, kind in keys), *own])
    if missing := [name for name in schema.names if name not in whole.names]:
        raise method_missing(
            f"the rubric has no column {', '.join(missing)}, which the measurement declares; "
            f"it has {', '.join(whole.names)}"
        )
    for path in sorted(context.folder(PREDICTIONS).glob("*.parquet")):
        for answers in read_answers(path, questions, identity):
            rows = [
                {
                    "_index_": answer.index,
                    "_replication_": answer.replication,
                    **with_resolved_status(rubric, answer, rubric.score(answer)),
                }
                for answer in answers
            ]
            yield pa.Table.from_pylist(rows, whole).select(schema.names)
