"""Rubrics with `apply(task_data, predictions)`, as those of dyff-audit, in the form in which reports score.

`apply` sees all rows at once and yields a row of its own for each answer. A report takes these rows: the first column
of numbers is its score, the others become further metrics.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import types

from steelyard_common.types import Json
from steelyard_evaluation.analysis.errors import method_missing
from steelyard_evaluation.analysis.tables import open_dataset
from steelyard_evaluation.analysis.workspace import STORAGE_ROOT
from steelyard_evaluation.report.results import Answer, Metric, Results
from steelyard_evaluation.report.rubrics.rows import COLUMNS, schema, score_row
from steelyard_evaluation.report.status import COLUMN as STATUS
from steelyard_evaluation.report.summary import ScoreKind, summarise_scores

DATASET, EVALUATION = ".dataset", ".evaluation"
"""Folders of a report's workspace: no id of a module begins with a dot."""
_KEYS = ("_index_", "_replication_")
_TAKEN = {*_KEYS, STATUS, *(name for name, _ in COLUMNS)}


def has_apply(kind: object) -> bool:
    """Return whether a class is a rubric of the original form, and not one of ours."""
    return callable(getattr(kind, "apply", None)) and not callable(getattr(kind, "score", None))


class AppliedRubric(EntryPoint):
    """The entry point of a rubric with `apply`: what it loads scores by the rows that `apply` makes."""

    def load(self) -> Any:
        root = Path(os.environ[STORAGE_ROOT])
        return adapt_rubric(super().load(), root / DATASET, root / EVALUATION)


class _RubricRows:
    """The rows that a rubric has made of all answers."""

    def __init__(self, kind: Any, task_data: Path, predictions: Path) -> None:
        self._rubric, self._task_data, self._predictions = kind(), task_data, predictions
        self.name = f"{kind.__module__}.{kind.__qualname__}"
        fields = [field for field in self._rubric.schema if field.name not in _TAKEN]
        self.numbers = [field for field in fields if _is_number(field.type)]
        if not self.numbers:
            raise method_missing(f"rubric {self.name!r}: its schema has no column of numbers")
        self.schema = schema(*((field.name, field.type) for field in fields))

    @cached_property
    def rows(self) -> Mapping[tuple[int, str], Json]:
        """Row that the rubric has made for each answer."""
        task_data, predictions = open_dataset(self._task_data), open_dataset(self._predictions)
        batches = self._rubric.apply(task_data, predictions)
        return {tuple(row[key] for key in _KEYS): row for batch in batches for row in batch.to_pylist()}


def adapt_rubric(kind: Any, task_data: Path, predictions: Path) -> type[Any]:
    """Return a rubric, in the form of ours, that scores as one with `apply` does. Raises AnalysisFailed."""
    applied = _RubricRows(kind, task_data, predictions)
    lead, *others = applied.numbers

    @dataclass(frozen=True)
    class RubricAdapter:
        columns: ClassVar[tuple[str, ...]] = ()
        scores: ClassVar[pa.Schema] = applied.schema

        def score(self, answer: Answer) -> Json:
            row = applied.rows.get((answer.index, answer.replication))
            if row is None and answer.responses is not None:
                raise ValueError(f"{applied.name} has made no row for _index_ {answer.index}")
            made = row or {}
            value = made.get(lead.name)
            said = answer.responses[0].get("text") if answer.responses else None
            more = {name: made.get(name) for name in applied.schema.names if name not in _TAKEN}
            return {
                **score_row(float(value or 0), (), None if said is None else str(said), bool(value)),
                **more,
            }

        def summarise(self, scores: pa.Table) -> Results:
            results = summarise_scores(scores, _score_kind(lead))
            metrics = [*results.metrics, *(_metric(scores, field) for field in others)]
            return replace(results, metrics=tuple(metrics))

    return RubricAdapter


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _score_kind(field: "pa.Field[Any]") -> ScoreKind:
    binary = bool(types.is_boolean(field.type))
    return ScoreKind(field.name, field.name, "share" if binary else "number", binary=binary)


def _metric(scores: pa.Table, field: "pa.Field[Any]") -> Metric:
    values = scores[field.name].to_pylist()
    known = scores.filter(pa.array([value is not None for value in values]))
    numbers = [value for value in values if value is not None]
    for name, column in (
        ("score", pa.array([float(value) for value in numbers], pa.float64())),
        ("correct", pa.array([bool(value) for value in numbers], pa.bool_())),
    ):
        known = known.set_column(known.schema.get_field_index(name), name, column)
    return summarise_scores(known, _score_kind(field)).metrics[0]
