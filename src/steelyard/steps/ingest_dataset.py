"""The step that makes a dataset of the files of a data source: one Parquet file, with the digests of all that went in.

`python -m steelyard.steps.ingest_dataset --config FILE`, as the `<name>-run-aN` Job of a Dataset. The manifest is
written last; the same files give the same rows, so that an attempt that was cut off is simply done again.
"""

import asyncio
import base64
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.progress import Progress
from steelyard.steps.source_files import digest_file, is_chosen
from steelyard.steps.volume import (
    VolumeConflict,
    VolumeFile,
    VolumeManifest,
    input_store,
    keep,
    open_field_store,
    read_manifest,
    read_spec,
    seal,
)
from steelyard_common.bounded_schema import read_schema
from steelyard_evaluation.engine.rows import BadColumn, cast, is_json, json_texts, row_numbers, to_rows
from steelyard_evaluation.engine.table_files import ENDINGS, BadTable, Format, find_form
from steelyard_evaluation.engine.tables import Table, open_table, unite
from steelyard_evaluation.storage.checked import check_digest, without_checks
from steelyard_evaluation.storage.staging import UploadManifest
from steelyard_evaluation.storage.store import ObjectMissing, Store
from steelyard_schema.bounds import ENTITY_BYTES
from steelyard_schema.data_source import UPLOAD
from steelyard_schema.dataset import ROWS
from steelyard_schema.names import MANIFEST, SOURCE_CROISSANT
from steelyard_schema.resources import DatasetResourceSpec
from steelyard_schema.steps import SourceLimits, StepConfig

INDEX = "_index_"
CROISSANT = "croissant.json"
_GROUP_ROWS = 65_536


class RowsFile(VolumeFile):
    """The file of the rows, with the digest by which clients of the published API check a download."""

    md5: str


class DatasetManifest(BaseModel):
    """Origin, content and digests of a dataset that was made from a data source."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schemaVersion: str = "0.1"  # noqa: N815 - as everywhere in our JSON
    dataSource: str  # noqa: N815
    source: dict[str, str]
    inputs: list[VolumeFile]
    arrowSchema: str  # noqa: N815
    rows: int
    files: list[RowsFile]


@dataclass(frozen=True)
class Source:
    """A file of the data source that holds rows."""

    path: str
    table: Table


async def main(config: StepConfig, log: Log) -> None:
    spec = read_spec(config, DatasetResourceSpec)
    await ingest(spec, log, config.limits or SourceLimits())


async def ingest(spec: DatasetResourceSpec, log: Log, limits: SourceLimits) -> None:
    """Make the dataset, unless an earlier attempt has."""
    source, output = (
        input_store(spec.storage.inputs, "source"),
        open_field_store(spec.storage.output, "spec.storage.output"),
    )
    if await _is_sealed(output):
        return
    manifest = await _list_files(source)
    if manifest is None:  # the data source was Ready: its files have been removed since
        raise StepFailed(
            "DataSourceMissing", f"the files of DataSource {spec.dataSource} are not there", permanent=True
        )
    chosen = _choose(spec, manifest)
    progress = Progress(output, "files", len(chosen) + 1)
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for number, (file, form) in enumerate(chosen):
            local = await _local(source, file, Path(folder, str(number)))
            sources.append(await asyncio.to_thread(_open, file.path, local, form))
            await progress.report(number + 1, file.path)
        rows = Path(folder, ROWS)
        schema, count = await asyncio.to_thread(_write, spec, sources, rows, limits)
        await _keep_croissant(source, output, manifest)
        await _keep(spec, output, rows, manifest, chosen, schema, count)
    await progress.report(len(chosen) + 1, "complete", last=True)
    log.info("the rows are kept", rows=count, files=len(chosen))


async def _list_files(source: Store) -> VolumeManifest | None:
    """Return the files of the data source. The manifest of an upload has another form than that of a fetch."""
    try:
        return await read_manifest(source)
    except ValidationError:
        uploaded = UploadManifest.model_validate_json(await source.get(MANIFEST))
    files = [VolumeFile(path=file.path, size=file.size, sha256=file.sha256) for file in uploaded.files]
    return VolumeManifest(source={"kind": UPLOAD}, files=files)


def _choose(spec: DatasetResourceSpec, manifest: VolumeManifest) -> list[tuple[VolumeFile, Format]]:
    """Return the files that hold the rows, with their forms, sorted by path."""
    chosen = []
    for file in sorted(manifest.files, key=lambda file: file.path):
        if spec.files and not is_chosen(file.path, spec.files):
            continue
        if not spec.files and file.path.rpartition("/")[2] == CROISSANT:
            continue  # it describes the rows, and holds none
        form = find_form(file.path)
        if form is not None:
            chosen.append((file, form))
        elif spec.files:
            raise fail(f"{file.path}: is not a table by the end of its name: there are {ENDINGS}")
    if not chosen:
        which = (
            f"matches {', '.join(spec.files)}"
            if spec.files
            else "is a table (CSV, JSON lines, Parquet or Arrow)"
        )
        raise fail(f"no file of the data source {which}")
    return chosen


async def _local(source: Store, file: VolumeFile, folder: Path) -> Path:
    """Return a local copy of a file, whose name shows its format, after its digest was compared."""
    await asyncio.to_thread(folder.mkdir)
    local = folder / file.path.rpartition("/")[2]
    try:
        await without_checks(source).download(file.path, local)
    except ObjectMissing as error:
        raise StepFailed(
            "DataSourceMissing", f"{file.path} of the data source is not there", permanent=True
        ) from error
    digests = await asyncio.to_thread(digest_file, local)
    check_digest(source, file.path, digests.sha256, file.sha256)
    return local


def _open(path: str, local: Path, form: Format) -> Source:
    try:
        return Source(path, open_table(local, form))
    except BadTable as error:
        raise fail(f"{path}: {error}") from error


def _write(
    spec: DatasetResourceSpec, sources: Sequence[Source], target: Path, limits: SourceLimits
) -> tuple[pa.Schema, int]:
    """Write the rows of all files, and return their schema and number. Blocking."""
    try:
        united_schema, tables = unite([source.table for source in sources])
    except BadTable as error:
        raise fail(str(error)) from error
    sources = [Source(source.path, table) for source, table in zip(sources, tables, strict=True)]
    wanted = _choose_schema(spec, united_schema)
    numbered = INDEX in united_schema.names
    schema = wanted if INDEX in wanted.names else pa.schema([pa.field(INDEX, pa.int64()), *wanted])
    schema = pa.schema([pa.field(INDEX, pa.int64()) if field.name == INDEX else field for field in schema])
    numbers, count, size = _Numbers(), 0, 0
    with pq.ParquetWriter(target, schema) as writer:
        for source in sources:
            for batch in _rows(source, united_schema):
                size += batch.nbytes
                if size > limits.bytes:
                    raise fail(f"the rows take more than the {limits.bytes} bytes that are allowed")
                if numbered:
                    numbers.add(source.path, batch)
                else:
                    index = pa.array(np.arange(count, count + batch.num_rows, dtype=np.int64))
                    # The other fields stay as they are, with the mark of those whose texts are JSON.
                    batch = batch.add_column(0, INDEX, index)  # noqa: PLW2901 - the same rows, numbered
                writer.write_batch(_cast(source, batch, schema), row_group_size=_GROUP_ROWS)
                count += batch.num_rows
    if not count:
        raise fail("the files hold no rows")
    numbers.check()
    return schema, count


def _rows(source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        for batch in source.table.batches():
            yield _cast(source, batch, schema)
    except BadTable as error:
        raise fail(f"{source.path}: {error}") from error


def _cast(source: Source, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch in a schema; columns that it lacks are null, columns that the schema lacks are left out."""
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        # A schema that the dataset names may want objects where the file's are not all alike.
        if place >= 0 and is_json(batch.schema.field(place)) and not pa.types.is_string(field.type):
            columns.append(_objects(source, batch.column(place), field))
            continue
        try:
            if place < 0:
                column = pa.nulls(batch.num_rows, field.type)
            elif is_json(field) and not is_json(batch.schema.field(place)):
                column = json_texts(row[field.name] for row in to_rows(batch.select([place])))
            else:
                column = cast(batch.column(place), field)
        except (pa.ArrowException, ValueError) as error:
            raise fail(f"{source.path}: column {field.name} cannot become {field.type}: {error}") from error
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _objects(source: Source, texts: "pa.Array[Any]", field: "pa.Field[Any]") -> "pa.Array[Any]":
    try:
        values = [None if text is None else orjson.loads(text) for text in texts.to_pylist()]
        column: pa.Array[Any] = pa.array(values, field.type)
        return column
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise fail(f"{source.path}: column {field.name} cannot become {field.type}: {error}") from error


def _choose_schema(spec: DatasetResourceSpec, united_schema: pa.Schema) -> pa.Schema:
    """Return the schema that the dataset names, else that of the files."""
    if not spec.schema_.arrowSchema:
        return united_schema
    try:
        schema = read_schema(spec.schema_.arrowSchema)
    except pa.ArrowInvalid as error:
        raise fail(f"schema.arrowSchema: is not an Arrow schema: {error}") from error
    there = {*united_schema.names, INDEX}
    lacking = [name for name in schema.names if name not in there]
    if lacking:
        raise fail(
            f"schema: the files have no column {', '.join(lacking)}; they have {', '.join(united_schema.names)}"
        )
    return schema


class _Numbers:
    """The row numbers that files bring along: each at most once."""

    def __init__(self) -> None:
        self._seen: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []

    def add(self, path: str, batch: pa.RecordBatch) -> None:
        column = batch.column(batch.schema.get_field_index(INDEX))
        try:
            self._seen.append(row_numbers(column).to_numpy())
        except BadColumn as error:
            raise fail(f"{path}: column {INDEX} {error}") from error

    def check(self) -> None:
        """Raise StepFailed for a number that two rows have."""
        if not self._seen:
            return
        values, counts = np.unique(np.concatenate(self._seen), return_counts=True)
        if (twice := values[counts > 1]).size:
            raise fail(f"column {INDEX}: two rows have the number {twice[0]}")


async def _keep(
    spec: DatasetResourceSpec,
    output: Store,
    rows: Path,
    manifest: VolumeManifest,
    chosen: Sequence[tuple[VolumeFile, Format]],
    schema: pa.Schema,
    count: int,
) -> None:
    digests, size = await asyncio.to_thread(lambda: (digest_file(rows), rows.stat().st_size))
    made = DatasetManifest(
        dataSource=spec.dataSource,
        source=manifest.source,
        inputs=[file for file, _ in chosen],
        arrowSchema=base64.b64encode(schema.serialize().to_pybytes()).decode(),
        rows=count,
        files=[RowsFile(path=ROWS, size=size, sha256=digests.sha256, md5=digests.md5)],
    )
    try:
        # The same files give the same rows: what an earlier attempt has put there is as good.
        await keep(output, ROWS, rows)
        await seal(output, made)
    except VolumeConflict as error:
        raise fail(str(error)) from error


async def _keep_croissant(source: Store, output: Store, manifest: VolumeManifest) -> None:
    """Keep the description that the data source holds, as it came; the API reads it when a dataset takes it over."""
    files = [file for file in manifest.files if file.path.rpartition("/")[2] == CROISSANT]
    # One at the root describes the whole; one that is too large, no request could have brought either. Without a file,
    # the hub may have written one.
    file = min(files, key=lambda file: file.path.count("/"), default=None)
    if file is not None and file.size > ENTITY_BYTES:
        return
    with suppress(ObjectMissing):
        await output.put(SOURCE_CROISSANT, await source.get(file.path if file else SOURCE_CROISSANT))


async def _is_sealed(output: Store) -> bool:
    try:
        await output.head(MANIFEST)
    except ObjectMissing:
        return False
    return True


def fail(message: str) -> StepFailed:
    """Return the failure of a dataset whose rows cannot be made: no other attempt could."""
    return StepFailed("IngestFailed", message, permanent=True)


if __name__ == "__main__":
    run_step(main, "ingest_dataset")
