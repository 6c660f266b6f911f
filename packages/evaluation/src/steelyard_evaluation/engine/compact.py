"""Many parts into few large files, by way of one scratch file at a time."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.manifest import FileEntry

GROUP_BYTES = 16 << 20
"""Rows are gathered to about this size before they become a row group."""


class Compactor:
    """Writes batches into `part-<n>.parquet` in a scratch folder. Blocking.

    What it writes depends on the batches alone, so that a repeated verification makes the same files.
    """

    def __init__(self, schema: pa.Schema, scratch: Path, file_bytes: int) -> None:
        self._schema = schema
        self._scratch = scratch
        self._file_bytes = file_bytes
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._completed: list[Path] = []
        self.entries: list[FileEntry] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        # The parts' schema may carry metadata; the files all have the interface's.
        self._gathered.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._gathered_bytes += batch.nbytes
        # Parts are small: written as they come, each would be a row group of its own, and readers pay for
        # every group.
        if self._gathered_bytes >= min(GROUP_BYTES, self._file_bytes):
            self._write_group()
            if self._path.stat().st_size >= self._file_bytes:
                self._close_file()

    def take_completed(self) -> Sequence[Path]:
        """The files finished since the last call."""
        completed, self._completed = self._completed, []
        return completed

    def close(self) -> Sequence[Path]:
        """The last files. An output without rows is one empty file: readers need its schema."""
        if self._gathered or (self._writer is None and not self.entries):
            self._write_group()
        if self._writer is not None:
            self._close_file()
        return self.take_completed()

    @property
    def _path(self) -> Path:
        return self._scratch / layout.part_file_name(len(self.entries))

    def _write_group(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        table = pa.Table.from_batches(self._gathered, schema=self._schema)
        # Arrow refuses a row group of no rows, which an output without rows would ask for.
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._rows += table.num_rows
        self._gathered, self._gathered_bytes = [], 0

    def _close_file(self) -> None:
        path = self._path
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        digest = hashlib.sha256()
        # The digest is of the bytes on disk, not of those that were handed to the writer: it vouches for what
        # was read back.
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        entry = FileEntry(
            path=path.name, size=path.stat().st_size, sha256=digest.hexdigest(), rows=self._rows
        )
        self.entries.append(entry)
        self._completed.append(path)
        self._rows = 0
