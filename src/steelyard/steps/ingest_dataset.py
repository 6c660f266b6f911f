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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard.schema.bounds import ENTITY_BYTES
from steelyard.schema.data_source import UPLOAD
from steelyard.schema.dataset import ROWS
from steelyard.schema.names import MANIFEST, SOURCE_CROISSANT
from steelyard.schema.resources import DatasetResourceSpec
from steelyard.schema.steps import SourceLimits, StepConfig
from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.progress import Progress
from steelyard.steps.source_files import digests_of, is_chosen
from steelyard.steps.tables import BadTable, Batches, Form, form_of, united
from steelyard.steps.volume import (
    VolumeConflict,
    VolumeFile,
    VolumeManifest,
    input_store,
    keep,
    opened,
    read_manifest,
    seal,
    spec_of,
)
from steelyard.storage.staging import UploadManifest
from steelyard.storage.store import ObjectMissing, Store

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
class Table:
    """A file of the data source that holds rows."""

    file: VolumeFile
    form: Form
    local: Path


async def main(config: StepConfig, log: Log) -> None:
    spec = spec_of(config, DatasetResourceSpec)
    await ingest(spec, log, config.limits or SourceLimits())


async def ingest(spec: DatasetResourceSpec, log: Log, limits: SourceLimits) -> None:
    """Make the dataset, unless an earlier attempt has."""
    source, output = (
        input_store(spec.storage.inputs, "source"),
        opened(spec.storage.output, "spec.storage.output"),
    )
    if await _is_sealed(output):
        return
    manifest = await _listed(source)
    if manifest is None:  # the data source was Ready: its files have been removed since
        raise StepFailed(
            "DataSourceMissing", f"the files of DataSource {spec.dataSource} are not there", permanent=True
        )
    chosen = _choose(spec, manifest)
    progress = Progress(output, "files", len(chosen) + 1)
    with tempfile.TemporaryDirectory() as folder:
        tables = []
        for number, (file, form) in enumerate(chosen):
            tables.append(Table(file, form, await _local(source, file, Path(folder, str(number)))))
            await progress.report(number + 1, file.path)
        rows = Path(folder, ROWS)
        schema, count = await asyncio.to_thread(_write, spec, tables, rows, limits)
        await _keep_croissant(source, output, manifest)
        await _keep(spec, output, rows, manifest, chosen, schema, count)
    await progress.report(len(chosen) + 1, "complete", last=True)
    log.info("the rows are kept", rows=count, files=len(chosen))


async def _listed(source: Store) -> VolumeManifest | None:
    """Return the files of the data source. The manifest of an upload has another form than that of a fetch."""
    try:
        return await read_manifest(source)
    except ValidationError:
        uploaded = UploadManifest.model_validate_json(await source.get(MANIFEST))
    files = [VolumeFile(path=file.path, size=file.size, sha256=file.sha256) for file in uploaded.files]
    return VolumeManifest(source={"kind": UPLOAD}, files=files)


def _choose(spec: DatasetResourceSpec, manifest: VolumeManifest) -> list[tuple[VolumeFile, Form]]:
    """Return the files that hold the rows, with their forms, sorted by path."""
    chosen = []
    for file in sorted(manifest.files, key=lambda file: file.path):
        if spec.files and not is_chosen(file.path, spec.files):
            continue
        if not spec.files and file.path.rpartition("/")[2] == CROISSANT:
            continue  # it describes the rows, and holds none
        form = form_of(file.path)
        if form is not None:
            chosen.append((file, form))
        elif spec.files:
            raise failed(
                f"{file.path}: is not a table: there are .csv, .tsv, .jsonl, .ndjson, .json and .parquet"
            )
    if not chosen:
        which = (
            f"matches {', '.join(spec.files)}" if spec.files else "is a table (CSV, JSON lines or Parquet)"
        )
        raise failed(f"no file of the data source {which}")
    return chosen


async def _local(source: Store, file: VolumeFile, folder: Path) -> Path:
    """Return a local copy of a file, whose name shows its format, after its digest was compared."""
    await asyncio.to_thread(folder.mkdir)
    local = folder / file.path.rpartition("/")[2]
    try:
        await source.download(file.path, local)
    except ObjectMissing as error:
        raise StepFailed(
            "DataSourceMissing", f"{file.path} of the data source is not there", permanent=True
        ) from error
    digests = await asyncio.to_thread(digests_of, local)
    if digests.sha256 != file.sha256:
        raise failed(
            f"{file.path} is not what was fetched: its SHA-256 is {digests.sha256} instead of {file.sha256}"
        )
    return local


def _write(
    spec: DatasetResourceSpec, tables: Sequence[Table], target: Path, limits: SourceLimits
) -> tuple[pa.Schema, int]:
    """Write the rows of all tables, and return their schema and number. Blocking."""
    try:
        united_schema = united([_schema(table) for table in tables])
    except BadTable as error:
        raise failed(str(error)) from error
    wanted = _wanted(spec, united_schema)
    numbered = INDEX in united_schema.names
    schema = wanted if INDEX in wanted.names else pa.schema([pa.field(INDEX, pa.int64()), *wanted])
    schema = pa.schema([pa.field(INDEX, pa.int64()) if field.name == INDEX else field for field in schema])
    numbers, count, size = _Numbers(), 0, 0
    with pq.ParquetWriter(target, schema) as writer:
        for table in tables:
            for batch in _rows(table, united_schema):
                size += batch.nbytes
                if size > limits.bytes:
                    raise failed(f"the rows take more than the {limits.bytes} bytes that are allowed")
                if numbered:
                    numbers.add(table.file.path, batch)
                else:
                    index = pa.array(np.arange(count, count + batch.num_rows, dtype=np.int64))
                    columns, names = [index, *batch.columns], [INDEX, *batch.schema.names]
                    batch = pa.RecordBatch.from_arrays(columns, names)  # noqa: PLW2901 - the same rows, numbered
                writer.write_batch(_cast(table, batch, schema), row_group_size=_GROUP_ROWS)
                count += batch.num_rows
    if not count:
        raise failed("the files hold no rows")
    numbers.check()
    return schema, count


def _schema(table: Table) -> pa.Schema:
    try:
        return table.form.schema(table.local)
    except BadTable as error:
        raise failed(f"{table.file.path}: is no {table.form.name}: {error}") from error


def _rows(table: Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        batches: Batches = table.form.batches(table.local, schema)
        for batch in batches:
            yield _cast(table, batch, schema)
    except BadTable as error:
        raise failed(f"{table.file.path}: {error}") from error


def _cast(table: Table, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch in a schema; columns that it lacks are null, columns that the schema lacks are left out."""
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        try:
            column = (
                pa.nulls(batch.num_rows, field.type)
                if place < 0
                else pc.cast(batch.column(place), field.type)
            )
        except pa.ArrowException as error:
            raise failed(
                f"{table.file.path}: column {field.name} cannot become {field.type}: {error}"
            ) from error
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _wanted(spec: DatasetResourceSpec, united_schema: pa.Schema) -> pa.Schema:
    """Return the schema that the dataset names, else that of the files."""
    if not spec.schema_.arrowSchema:
        return united_schema
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(spec.schema_.arrowSchema)))
    except (ValueError, pa.ArrowException) as error:
        raise failed(f"schema.arrowSchema: is not an Arrow schema: {error}") from error
    lacking = [name for name in schema.names if name not in (*united_schema.names, INDEX)]
    if lacking:
        raise failed(
            f"schema: the files have no column {', '.join(lacking)}; they have {', '.join(united_schema.names)}"
        )
    return schema


class _Numbers:
    """The row numbers that files bring along: each at most once."""

    def __init__(self) -> None:
        self._seen: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []

    def add(self, path: str, batch: pa.RecordBatch) -> None:
        column = batch.column(batch.schema.get_field_index(INDEX))
        if not pa.types.is_integer(column.type) or column.null_count:
            raise failed(f"{path}: column {INDEX} should be a whole number in every row")
        self._seen.append(column.cast(pa.int64()).to_numpy())

    def check(self) -> None:
        """Raise StepFailed for a number that two rows have."""
        if not self._seen:
            return
        values, counts = np.unique(np.concatenate(self._seen), return_counts=True)
        if (twice := values[counts > 1]).size:
            raise failed(f"column {INDEX}: two rows have the number {twice[0]}")


async def _keep(
    spec: DatasetResourceSpec,
    output: Store,
    rows: Path,
    manifest: VolumeManifest,
    chosen: Sequence[tuple[VolumeFile, Form]],
    schema: pa.Schema,
    count: int,
) -> None:
    digests, size = await asyncio.to_thread(lambda: (digests_of(rows), rows.stat().st_size))
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
        raise failed(str(error)) from error


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


def failed(message: str) -> StepFailed:
    """Return the failure of a dataset whose rows cannot be made: no other attempt could."""
    return StepFailed("IngestFailed", message, permanent=True)


if __name__ == "__main__":
    run_step(main, "ingest_dataset")
