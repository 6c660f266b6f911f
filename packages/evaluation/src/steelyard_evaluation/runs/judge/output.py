"""RUN/judged/: a run's output with the verdicts of its judges, in the layout of an output, so that whatever reads one
reads the other.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard_common.bounded_parquet import batches
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.manifest import FileEntry, Manifest
from steelyard_evaluation.engine.record import read_servers
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSES
from steelyard_evaluation.runs.folder import Run, RunFolder
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.judge.verdicts import VERDICT, Verdicts
from steelyard_evaluation.runs.request import RunRequest, canonical
from steelyard_evaluation.runs.rubric_names import reads_verdicts
from steelyard_evaluation.storage.checked import add_digest
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.files import FileStore

JUDGED = "judged"
VERDICTS = "verdicts"
BATCH = 4096


def find_judged_output(folder: RunFolder, request: RunRequest) -> FileStore:
    """Return the output that the rubrics of `request` score: the one with verdicts where one of them reads verdicts."""
    store = FileStore(folder.path.absolute() / JUDGED)
    return (
        store
        if reads_verdicts(request.rubrics) and (store.root / layout.MANIFEST).exists()
        else folder.outputs
    )


async def write_judged(
    run: Run, specs: Sequence[JudgeSpec], verdicts: Sequence[Verdicts], store: FileStore | None = None
) -> Manifest:
    """The whole of it; the manifest comes last and makes it count. The same verdicts give the same bytes."""
    store = store or FileStore(run.folder.path.absolute() / JUDGED)
    # First: from here on until the manifest is written again, no reader takes the files for whole.
    await store.delete(layout.MANIFEST)
    entries: list[FileEntry] = []
    with tempfile.TemporaryDirectory(prefix="steelyard-judged-") as scratch:
        for number, path in enumerate(run.files):
            name = layout.part_file_name(number)
            entry = await asyncio.to_thread(_with_verdicts, run, path, verdicts, Path(scratch) / name)
            await store.put_file(name, Path(scratch) / name)
            entries.append(entry)
    kept = {entry.path for entry in entries}
    # An earlier run of the judges may have had more files; a reader that lists the folder would count rows
    # twice.
    for key in [info.key async for info in store.list("part-") if info.key not in kept]:
        await store.delete(key)
    record = {**run.record, "judges": [_record(run, spec) for spec in specs]}
    await store.put(layout.RUN, orjson.dumps(add_digest(record), option=orjson.OPT_INDENT_2))
    for key, server in (await read_servers(run.folder.outputs)).items():
        await store.put(key, server)
    parts = [entry.path for entry in run.manifest.files]
    manifest = run.manifest.model_copy(
        update={"files": entries, "parts": parts, "leftOut": [], "records": []}
    )
    await store.put(layout.MANIFEST, manifest.model_dump_json(indent=2).encode())
    return manifest


def _record(run: Run, spec: JudgeSpec) -> dict[str, JsonValue]:
    """The judge's settings, and the digest of the manifest of its own run."""
    manifest = run.folder.judge(spec.name).manifest.read_bytes()
    settings: dict[str, JsonValue] = orjson.loads(canonical(spec.__dict__))
    del settings["prices"]  # no verdict depends on them
    return {**settings, "manifestSha256": hashlib.sha256(manifest).hexdigest()}


def _with_verdicts(run: Run, source: Path, verdicts: Sequence[Verdicts], target: Path) -> FileEntry:
    numbers = {name: number for number, name in enumerate(run.manifest.replications)}
    writer: pq.ParquetWriter | None = None
    rows = 0
    try:
        for batch in batches(source, BATCH):
            table = _join_verdicts(batch, numbers, verdicts)
            if writer is None:
                writer = pq.ParquetWriter(target, table.schema, compression="zstd")
            writer.write_batch(table)
            rows += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return FileEntry(path=target.name, size=target.stat().st_size, sha256=file_sha256(target), rows=rows)


def _join_verdicts(
    batch: pa.RecordBatch, numbers: dict[str, int], judges: Sequence[Verdicts]
) -> pa.RecordBatch:
    """The rows with a list of verdicts in the first response of each."""
    indexes = batch.column(INDEX).to_numpy()
    replications = np.asarray(
        [numbers[str(name)] for name in batch.column(REPLICATION).to_pylist()], dtype=np.int64
    )
    column: Any = batch.column(RESPONSES)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    # `flatten` leaves out what null lists hide, so the offsets are made again from the lengths.
    starts = _offsets(lengths)
    values: Any = column.flatten()
    answered = np.flatnonzero(lengths)
    verdicts = _interleave(
        [of_judge.select(indexes[answered], replications[answered]) for of_judge in judges]
    )
    # A row with several responses was judged by its first one: the others have an empty list.
    counts = np.zeros(len(values), dtype=np.int32)
    counts[starts.to_numpy()[answered]] = len(judges)
    listed: Any = pa.ListArray.from_arrays(_offsets(counts), verdicts)
    fields = [*values.type, pa.field(VERDICTS, listed.type)]
    structs = pa.StructArray.from_arrays([*values.flatten(), listed], fields=fields)
    responses = pa.ListArray.from_arrays(starts, structs, mask=column.is_null())
    return batch.set_column(batch.schema.get_field_index(RESPONSES), RESPONSES, responses)


def _offsets(lengths: Any) -> Any:
    """The offsets at which lists begin, and the end of the last one."""
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _interleave(arrays: "Sequence[pa.StructArray]") -> Any:
    """Answer by answer, the verdict of every judge in their order."""
    count = len(arrays[0])
    order = np.arange(count * len(arrays)).reshape(len(arrays), count).T.reshape(-1)
    whole: Any = pa.concat_arrays(list(arrays))
    assert whole.type == VERDICT
    return whole.take(pa.array(order))
