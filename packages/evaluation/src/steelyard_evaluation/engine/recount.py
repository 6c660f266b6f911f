"""Counts a verified output again: its files against the dataset's rows times the replications.

A manifest is a file like any other, and a person who drops rows can edit it. `verify`, reports and the check of a
report call this, so that "every row is there once" is counted each time and never only read.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.bounded_parquet import batches, open_parquet
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.indexes import ABSENT, IndexMap
from steelyard_evaluation.engine.manifest import FileEntry, Manifest, RowCounts
from steelyard_evaluation.engine.resume import positions
from steelyard_evaluation.engine.rowset import RowSet
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSES
from steelyard_evaluation.engine.source import Source, is_data
from steelyard_evaluation.storage.checked import DigestMismatch, check_record, get_document
from steelyard_evaluation.storage.store import ObjectMissing, Store, sync_reader


@dataclass(frozen=True)
class Recount:
    """The rows that are there, and every way in which they are not as the manifest says: one sentence each."""

    rows: RowCounts
    questions: int
    """Rows of the dataset."""
    faults: tuple[str, ...]
    stray: tuple[str, ...] = ()
    """Files of rows among the outputs that the manifest does not name: they are never read."""


async def recount(manifest: Manifest, dataset: Store, output: Store) -> Recount:
    """Count from the files alone. EvaluationFailed for files that cannot be read as rows."""
    listed, verified = ({entry.path for entry in entries} for entries in (manifest.inputs, manifest.files))
    faults = [
        f"the dataset has the file {info.key}, which the manifest does not name"
        async for info in dataset.list()
        if is_data(info.key) and info.key not in listed
    ]
    try:
        faults += _otherwise_recorded(manifest, await _identity(output))
    except DigestMismatch as error:
        faults.append(error.public)
    counted = await asyncio.to_thread(_count, manifest, dataset, output)
    stray = [info.key async for info in output.list("part-") if info.key not in verified]
    return Recount(counted.rows, counted.questions, (*faults, *counted.faults), tuple(stray))


async def check_complete(manifest: Manifest, dataset: Store, output: Store) -> None:
    """EvaluationFailed (OutputInvalid) where the output is not what its manifest says."""
    faults = (await recount(manifest, dataset, output)).faults
    if faults:
        more = f"; and {len(faults) - 1} more" if len(faults) > 1 else ""
        raise EvaluationFailed("OutputInvalid", f"{layout.MANIFEST}: {faults[0]}{more}", permanent=True)


async def _identity(output: Store) -> dict[str, JsonValue]:
    """Return the request by the run's record; nothing where there is no record. Raises DigestMismatch."""
    try:
        run = await get_document(output, layout.RUN)
    # Outputs of earlier versions have no record; that one is missing is no fault of the rows.
    except ObjectMissing:
        return {}
    identity = check_record(run, output.url, layout.RUN).get("identity", {})
    return identity if isinstance(identity, dict) else {}


def _otherwise_recorded(manifest: Manifest, identity: dict[str, JsonValue]) -> Iterator[str]:
    """The record was written before the first call: what it says was asked outranks the manifest."""
    times = identity.get("replications")
    if isinstance(times, int) and times != len(manifest.replications):
        yield (
            f"{layout.RUN} says that each row was asked {times} times; "
            f"the manifest says {len(manifest.replications)}"
        )
    recorded = identity.get("inputs")
    if isinstance(recorded, list) and recorded != [entry.model_dump() for entry in manifest.inputs]:
        yield f"{layout.RUN} names other files of the dataset than the manifest"


@dataclass
class _Recount:
    rows: RowCounts
    questions: int
    faults: list[str]


def _count(manifest: Manifest, dataset: Store, output: Store) -> _Recount:
    inputs, faults = _measure(dataset, manifest.inputs)
    source = Source(dataset, inputs)
    indexes = IndexMap(source)
    seen = RowSet(source.rows * len(manifest.replications))
    errors = doubles = 0
    for entry in manifest.files:
        rows = 0
        for batch, unanswered in _batches(output, entry.path):
            places = positions(batch, indexes, tuple(manifest.replications))
            strange = places == ABSENT
            if strange.any():
                faults.append(f"{entry.path}: {_first(batch, strange)} was not asked")
                places = places[~strange]
            doubles += int(np.count_nonzero(~seen.add_new(places)))
            errors += unanswered
            rows += batch.num_rows
        if rows != entry.rows:
            faults.append(f"{entry.path}: holds {rows} rows; the manifest says {entry.rows}")
    missing = seen.total - len(seen)
    counted = RowCounts(
        total=seen.total, present=len(seen), errors=errors, missing=missing, duplicates=doubles
    )
    times = len(manifest.replications)
    expectation = (
        f"the dataset has {source.rows} rows, asked {times} {'time' if times == 1 else 'times'} each"
    )
    faults += _differing(counted, manifest.rows, expectation)
    return _Recount(counted, source.rows, faults)


def _differing(counted: RowCounts, said: RowCounts, expectation: str) -> Iterator[str]:
    if counted.total != said.total:
        yield f"{expectation}, which is {counted.total} rows in all; the manifest says {said.total}"
    for what, rows, claimed in (
        ("rows are there", counted.present, said.present),
        ("rows are missing", counted.missing, said.missing),
        ("rows have no answer", counted.errors, said.errors),
    ):
        if rows != claimed:
            yield f"{expectation}: {rows} {what}; the manifest says {claimed}"
    if counted.duplicates not in {0, said.duplicates}:  # those that were left out are in no file
        yield f"{counted.duplicates} rows stand twice; the manifest says {said.duplicates}"


def _measure(store: Store, entries: Sequence[FileEntry]) -> tuple[tuple[FileEntry, ...], list[str]]:
    """The dataset's files with the rows that they hold, whatever the manifest says of them."""
    measured, faults = [], []
    for entry in entries:
        with _open(store, entry.path) as (_, file):
            rows = file.metadata.num_rows
        if rows != entry.rows:
            faults.append(f"{entry.path} of the dataset holds {rows} rows; the manifest says {entry.rows}")
        # The total follows from what the files hold: a manifest that names fewer rows than there are would
        # hide missing ones.
        measured.append(entry.model_copy(update={"rows": rows}))
    return tuple(measured), faults


def _batches(store: Store, path: str) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Each row's index and replication, and how many have no responses: of those one column inside is enough."""
    with _open(store, path) as (reader, file):
        # Answers can be megabytes each; one leaf of the struct says as well whether there is one.
        leaves = [file.schema.column(number).path for number in range(len(file.schema))]
        answer = next((leaf for leaf in leaves if leaf.split(".")[0] == RESPONSES), None)
        if answer is None or not {INDEX, REPLICATION} <= set(leaves):
            raise _unreadable(path, f"should have the columns {INDEX}, {REPLICATION} and {RESPONSES}")
        for batch in batches(reader, 65536, [INDEX, REPLICATION, answer]):
            if batch.column(INDEX).null_count or batch.column(REPLICATION).null_count:
                raise _unreadable(path, f"has rows without {INDEX} or {REPLICATION}")
            yield batch, batch.column(RESPONSES).null_count


@contextmanager
def _open(store: Store, path: str) -> Iterator[tuple[Any, pq.ParquetFile]]:
    """A reader of a store, and the Parquet file that it reads. EvaluationFailed says what is missing or damaged."""
    try:
        with sync_reader(store, path) as reader:
            yield reader, open_parquet(reader)
    except ObjectMissing as error:
        raise _unreadable(path, "is missing") from error
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, f"cannot be read as Parquet: {error}") from error


def _first(batch: pa.RecordBatch, which: Any) -> str:
    (row,) = batch.slice(int(which.argmax()), 1).select([INDEX, REPLICATION]).to_pylist()
    return f"the row {row[INDEX]} of replication {row[REPLICATION]}"


def _unreadable(path: str, what: str) -> EvaluationFailed:
    return EvaluationFailed("OutputInvalid", f"{path}: {what}", permanent=True)
