"""A run's rows in one file, for other tools: question, answer and score, one line a row.

JSON lines and Parquet keep the nesting: `row`, `responses`, `error`, and the scores by rubric; CSV has a column for
each field, `row.prompt` or `response.text`, and nested values in it as JSON.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.bounded_parquet import read_table
from steelyard_common.durable import rename_durably
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.csv_lines import fraction_text
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSE_INDEX, RESPONSES
from steelyard_evaluation.report.row_scores import RowScores
from steelyard_evaluation.report.status import row_noun
from steelyard_evaluation.runs.folder import Run

_ERROR: dict[str, pa.DataType] = {
    "reason": pa.string(),
    "message": pa.string(),
    "status": pa.int32(),
    "body": pa.string(),
    "attempts": pa.int32(),
    "replica": pa.string(),
}
ERROR = pa.struct(list(pa.schema(_ERROR)))
Write = Callable[[Iterator[pa.RecordBatch], Path], int]


def export(run: Run, path: Path) -> int:
    """Write `path`, whole or not at all; how many rows it has. UsageError for a format that there is not."""
    write = _FORMATS.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"--output {path}: should end in {', '.join(_FORMATS)}")
    # Renamed when whole: a run that is stopped, or a full disk, leaves an earlier export as it was.
    scratch = path.with_name(f".#{path.name}")
    try:
        rows = write(export_batches(run), scratch)
        rename_durably(scratch, path)
    except OSError as error:
        raise UsageError(f"--output {path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return rows


def export_batches(run: Run) -> Iterator[pa.RecordBatch]:
    """The joined rows with their errors and scores, in the order of the output."""
    numbers = {name: number for number, name in enumerate(run.manifest.replications)}
    scores = {name: _Reader(path) for name, path in run.score_files.items()}
    for batch in run.batches():
        indexes: list[JsonValue] = batch.column(INDEX).to_pylist()
        names: list[JsonValue] = batch.column(REPLICATION).to_pylist()
        errors = [
            {field: run.row_errors.get((index, name), {}).get(field) for field in _ERROR} if missing else None
            for index, name, missing in zip(
                indexes, names, batch.column(RESPONSES).is_null().to_pylist(), strict=True
            )
        ]
        keys = pa.Table.from_batches([batch.select([INDEX, REPLICATION])])
        columns: dict[str, pa.Array[JsonValue]] = {
            "index": batch.column(INDEX),
            "replication": pa.array([numbers[name] for name in names], pa.int32()),
            "row": batch.column("row"),
            "responses": batch.column(RESPONSES),
            "error": pa.array(errors, ERROR),
        }
        columns |= {name: reader.take(keys) for name, reader in scores.items()}
        yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


class _Reader:
    """A file of scores next to the output."""

    def __init__(self, path: Path) -> None:
        self._path = path
        table = read_table(path)
        self._rows_have_scores = row_noun(table) == "question"
        self._row_scores = RowScores(table)

    def take(self, rows: pa.Table) -> "pa.Array[JsonValue]":
        table = self._row_scores.lookup(rows)
        # Scores of documents stand with one row of several; only scores per row must cover every row.
        if self._rows_have_scores and self._row_scores.missing:
            raise UsageError(f"{self._path}: is not of this output; score it again (steelyard eval score)")
        kept = table.drop_columns([INDEX, REPLICATION])
        # Arrow makes a struct of whole arrays only, not of chunked columns.
        columns: list[Any] = [_whole(column) for column in kept.columns]
        return pa.StructArray.from_arrays(columns, fields=list(kept.schema))


def _whole(column: Any) -> Any:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _jsonl(batches: Iterator[pa.RecordBatch], path: Path) -> int:
    rows = 0
    with path.open("wb") as file:
        for batch in batches:
            for row in to_rows(batch):
                file.write(orjson.dumps(row, default=_text, option=orjson.OPT_APPEND_NEWLINE))
            rows += batch.num_rows
    return rows


def _parquet(batches: Iterator[pa.RecordBatch], path: Path) -> int:
    rows = 0
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            # The schema is known with the first batch: rubrics and columns differ from run to run.
            if writer is None:
                writer = pq.ParquetWriter(path, batch.schema, compression="zstd")
            writer.write_batch(batch)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _csv(batches: Iterator[pa.RecordBatch], path: Path) -> int:
    rows = 0
    # The csv module writes its own line ends: with translation, line breaks inside a cell would change.
    with path.open("w", encoding="utf-8", newline="") as file:
        writer: _Csv | None = None
        for batch in batches:
            if writer is None:
                writer = _Csv(file, batch.schema)
            for row in to_rows(batch):
                writer.write(row)
            rows += batch.num_rows
    return rows


class _Csv:
    """Rows with a column for each field; of several responses the first."""

    def __init__(self, file: IO[str], schema: pa.Schema) -> None:
        self._writer = csv.writer(file)
        self._fields: dict[str, list[str]] = {}
        for column in schema:
            kind: Any = column.type
            if column.name == RESPONSES:
                self._fields["response"] = [
                    member.name for member in kind.value_type if member.name != RESPONSE_INDEX
                ]
            elif pa.types.is_struct(kind):
                self._fields[column.name] = [member.name for member in kind]
        heads = [f"{name}.{member}" for name, fields in self._fields.items() for member in fields]
        self._writer.writerow(["index", "replication", *heads])

    def write(self, row: Mapping[str, JsonValue]) -> None:
        parts = {**row, "response": (row[RESPONSES] or [None])[0]}
        cells = [
            (parts[name] or {}).get(member) for name, fields in self._fields.items() for member in fields
        ]
        self._writer.writerow([row["index"], row["replication"], *map(_cell, cells)])


def _cell(value: JsonValue) -> JsonValue:
    """Return a value in the text that the reader of CSV gives back as the same value."""
    match value:
        case dict() | list():
            return orjson.dumps(value, default=_text).decode()
        case bytes():
            return _text(value)
        case bool():
            return "true" if value else "false"
        case float():
            return fraction_text(value)
        case _:
            return value


def _text(value: JsonValue) -> str:
    """The text for what JSON has no form for: bytes in hex, times as ISO 8601."""
    return value.hex() if isinstance(value, bytes) else str(value)


_FORMATS: Mapping[str, Write] = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
