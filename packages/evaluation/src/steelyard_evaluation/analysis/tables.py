"""Rows of a measurement: read as the inputs of methods are, written with the schema that the method declares."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from steelyard_common.bounded_schema import read_schema
from steelyard_evaluation.analysis.errors import AnalysisFailed, output_invalid

_GROUP_ROWS = 65_536
_GROUP_BYTES = 64 << 20
"""Rows and bytes that are collected before they are written: a method may yield one row at a time."""
PART = "part-0.parquet"


def open_dataset(folder: Path) -> ds.Dataset:
    """Open the Parquet files of a folder as one dataset; names that begin with a dot are left out."""
    return ds.dataset(str(folder), partitioning="hive", format="parquet", ignore_prefixes=["."])


def parse_declared_schema(text: str) -> pa.Schema:
    """Return the schema that a method declares for its measurement. Raises AnalysisFailed."""
    try:
        return read_schema(text)
    except pa.ArrowInvalid as error:
        field = "spec.method.output.measurement.schema.arrowSchema"
        raise AnalysisFailed(
            "BadRequest", f"{field}: should be an Arrow schema in base64: {error}"
        ) from error


def write_rows(rows: object, schema: pa.Schema, path: Path) -> int:
    """Write what a method returns, in pieces; return the number of rows. Raises AnalysisFailed for rows that do not
    fit the schema; errors of the method itself pass.
    """
    written = 0
    with pq.ParquetWriter(path, schema) as writer:
        waiting: list[pa.Table] = []
        for table in _tables(rows):
            waiting.append(fit_table(table, schema))
            written += table.num_rows
            if (
                sum(t.num_rows for t in waiting) >= _GROUP_ROWS
                or sum(t.nbytes for t in waiting) >= _GROUP_BYTES
            ):
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return written


def fit_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with the columns and types of the schema. Raises AnalysisFailed, which names the column."""
    there, expected = table.column_names, schema.names
    if sorted(there) != sorted(expected):
        missing = [name for name in expected if name not in there]
        more = [name for name in there if name not in expected]
        what = "; ".join(
            [
                *([f"missing: {', '.join(missing)}"] if missing else []),
                *([f"not declared: {', '.join(more)}"] if more else []),
            ]
        )
        raise output_invalid(
            f"the measurement has the columns {', '.join(there)}, but the method declares {', '.join(expected)}: "
            f"{what or 'a name is there twice'}"
        )
    return pa.table([_column(table.column(field.name), field) for field in schema], schema=schema)


def _column(column: "pa.ChunkedArray[Any]", field: "pa.Field[Any]") -> "pa.ChunkedArray[Any]":
    if column.type.equals(field.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise output_invalid(
            f"column {field.name} of the measurement is {column.type}; the method declares {field.type}: {error}"
        ) from error


def _tables(rows: object) -> Iterator[pa.Table]:
    pieces: Iterable[object] = [rows] if isinstance(rows, pa.RecordBatch | pa.Table) else _iterable(rows)
    for piece in pieces:
        if isinstance(piece, pa.RecordBatch):
            yield pa.Table.from_batches([piece])
        elif isinstance(piece, pa.Table):
            yield piece
        else:
            raise output_invalid(
                f"the method yields {type(piece).__name__}; it should yield pyarrow.RecordBatch or pyarrow.Table"
            )


def _iterable(rows: object) -> Iterable[object]:
    if isinstance(rows, Iterable):
        return rows
    raise output_invalid(
        f"the method returns {type(rows).__name__}; it should return or yield pyarrow.RecordBatch or pyarrow.Table"
    )
