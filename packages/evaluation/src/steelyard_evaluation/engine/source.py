"""The rows of a dataset, streamed from storage in constant memory.

A dataset is all `*.parquet` under its URL, in the order of their keys, without what begins with a dot. Every row has
an `_index_`; its *ordinal* is its place in that order.
"""

import asyncio
import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.bounded_parquet import Expands, batches, check, open_parquet
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.engine.rows import BadColumn, plain_schema, row_numbers, to_rows
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.storage.checked import DigestMismatch, check_digest, with_checks, without_checks
from steelyard_evaluation.storage.store import Store, display_name, sync_reader

BATCH_ROWS = 256
BATCH_BYTES = 4 << 20
_DIGEST_CHUNK = 1 << 20


@dataclass(frozen=True)
class Row:
    """One row of the dataset: `data` is what the service gets before any adapter."""

    ordinal: int
    index: int
    data: dict[str, JsonValue]


@dataclass(frozen=True)
class Source:
    """A dataset whose files have been listed and digested."""

    store: Store
    files: tuple[FileEntry, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def read(self, skip: "npt.NDArray[np.bool_] | None" = None) -> Iterator[list[Row]]:
        """Batches of rows; those whose ordinal is True in `skip` are never turned into Python objects.

        Blocking: the engine calls it in a thread.
        """
        for start, batch in self._batches(None):
            selected = np.arange(batch.num_rows)
            if skip is not None:
                selected = selected[~skip[start : start + batch.num_rows]]
            if len(selected):
                kept = batch if len(selected) == batch.num_rows else batch.take(selected)
                yield _rows(kept, selected + start)

    def indexes(self) -> Iterator[npt.NDArray[np.int64]]:
        """The `_index_` of every row, in batches and in order. Blocking."""
        for _, batch in self._batches([INDEX]):
            try:
                yield row_numbers(batch.column(0)).to_numpy()
            except BadColumn as error:
                raise EvaluationFailed(
                    "BadDataset", f"the dataset's {INDEX} {error}", permanent=True
                ) from error

    def _batches(self, columns: list[str] | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        ordinal = 0
        for file in self.files:
            with sync_reader(self.store, file.path) as reader:
                size = _batch_rows(open_parquet(reader).metadata) if columns is None else 65536
                for batch in batches(reader, size, columns):
                    yield ordinal, batch
                    ordinal += batch.num_rows


async def open_source(store: Store) -> Source:
    """List the dataset's files, digest them and check that they agree: EvaluationFailed says what is wrong."""
    keys = [info.key async for info in store.list() if is_data(info.key)]
    if not keys:
        raise EvaluationFailed(
            "InputMissing", f"there is no Parquet file under {display_name(store.url)}", permanent=False
        )
    known = await with_checks(store).digests()
    for key in keys if known else ():
        if key not in known:
            raise DigestMismatch(
                store.url, key, "was not kept with the dataset: its manifest does not name it"
            )
    # Their digests are computed here anyway, so that they are compared without reading the files once more.
    plain = without_checks(store)
    files = await asyncio.to_thread(lambda: tuple(_entry(plain, key, known.get(key)) for key in keys))
    return Source(plain, files)


def is_data(key: str) -> bool:
    """Return whether `key` is a file of the dataset: dot-files and dot-folders hold other things."""
    return key.endswith(".parquet") and not any(part.startswith(".") for part in key.split("/"))


def _entry(store: Store, key: str, expected: str | None) -> FileEntry:
    digest = hashlib.sha256()
    size = 0
    with sync_reader(store, key) as reader:
        # The whole file is read once before the first call, so that the record names exactly the bytes that
        # are asked.
        while chunk := reader.read(_DIGEST_CHUNK):
            digest.update(chunk)
            size += len(chunk)
        check_digest(store, key, digest.hexdigest(), expected)
        reader.seek(0)
        try:
            parquet = open_parquet(reader)
            check(reader, parquet, BATCH_ROWS)
        except Expands as error:
            raise EvaluationFailed("BadDataset", f"{key}: {error}", permanent=True) from error
        except (pa.ArrowException, OSError) as error:
            raise EvaluationFailed(
                "BadDataset", f"{key} is not a Parquet file: {error}", permanent=True
            ) from error
        if INDEX not in parquet.schema_arrow.names:
            raise EvaluationFailed("BadDataset", f"{key} has no column {INDEX}", permanent=True)
        try:
            plain_schema(parquet.schema_arrow)
        except BadColumn as error:
            raise EvaluationFailed("BadDataset", f"{key}: {error}", permanent=True) from error
        rows = parquet.metadata.num_rows
    return FileEntry(path=key, size=size, sha256=digest.hexdigest(), rows=rows)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Few enough rows that a batch stays small however large the rows are."""
    groups = range(metadata.num_row_groups)
    size = sum(metadata.row_group(number).total_byte_size for number in groups)
    per_row = max(1, size // max(1, metadata.num_rows))
    return max(1, min(BATCH_ROWS, BATCH_BYTES // per_row))


def _rows(batch: pa.RecordBatch, ordinals: "npt.NDArray[np.int64]") -> list[Row]:
    indexes: list[JsonValue] = batch.column(batch.schema.get_field_index(INDEX)).to_pylist()
    payload = batch.drop_columns([INDEX])
    # It raises where a map has a key twice: as an object it would lose one of the values.
    items = to_rows(payload)
    if any(_holds_binary(field.type) for field in payload.schema):
        items = [_json(item) for item in items]
    return [
        Row(int(ordinal), index, item) for ordinal, index, item in zip(ordinals, indexes, items, strict=True)
    ]


def _holds_binary(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return True
    if types.is_binary_view(kind):
        return True
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _holds_binary(kind.value_type)
    return any(_holds_binary(kind.field(number).type) for number in range(kind.num_fields))


def _json(value: JsonValue) -> JsonValue:
    """Binary values as base64, which is how the services expect them."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {key: _json(child) for key, child in value.items()}
        case list():
            return [_json(child) for child in value]
        case _:
            return value
