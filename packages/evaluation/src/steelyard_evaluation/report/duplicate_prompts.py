"""Questions with the same prompt: `report` notes how many there are, because they count as independent ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.bounded_parquet import open_parquet, read_table
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.statistics.intervals import Integers
from steelyard_evaluation.report.wording import count_noun

PROMPTS = ("prompt", "messages")
"""Columns that hold a whole prompt; without one of them, questions are alike if all their columns are."""


def duplicates_note(dataset: Sequence[Path], asked: Integers) -> str | None:
    """Return a sentence about questions that have the prompt of another one; None where there are none."""
    names = open_parquet(dataset[0]).schema_arrow.names
    columns = next(
        ([name] for name in PROMPTS if name in names), [name for name in names if name != "_index_"]
    )
    if not columns or "_index_" not in names:
        return None
    table = pa.concat_tables([read_table(path, ["_index_", *columns]) for path in dataset])
    table = table.filter(pc.is_in(table["_index_"], value_set=pa.array(asked).unique()))
    texts = pa.table({name: _as_texts(table[name]) for name in columns})
    repeated = texts.num_rows - texts.group_by(columns).aggregate([]).num_rows
    if not repeated:
        return None
    have = "has" if repeated == 1 else "have"
    return (
        f"{count_noun(repeated, 'question')} of {texts.num_rows:,} {have} the prompt of an earlier question. They "
        "count as independent, so that intervals may be too narrow; --cluster-by names a column that holds them "
        "together."
    )


def _as_texts(column: "pa.ChunkedArray[Any]") -> Any:
    """Return the values in a form that can be compared: lists and objects as texts."""
    if pa.types.is_nested(column.type):
        return pa.array([to_text(value) for value in column.to_pylist()], pa.string())
    return column
