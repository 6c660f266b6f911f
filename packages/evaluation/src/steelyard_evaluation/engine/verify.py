"""Verification: is every row there exactly once, in the right shape? Then the output becomes final.

Streams the parts once and compacts them into large files at the root; the manifest comes last and makes them count.
Whatever it is interrupted by, a second run ends with the same files and the same manifest.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from steelyard_common.bounded_parquet import batches, open_parquet
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.checkpoint import digests_of_parts, list_parts, read_row_sets
from steelyard_evaluation.engine.compact import Compactor
from steelyard_evaluation.engine.epoch import Epoch, claim_verification
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.indexes import ABSENT, IndexMap
from steelyard_evaluation.engine.manifest import Manifest, RecordEntry, RowCounts, read_manifest
from steelyard_evaluation.engine.parts import Calls, read_calls
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.engine.record import read_servers
from steelyard_evaluation.engine.recount import check_complete
from steelyard_evaluation.engine.resume import positions
from steelyard_evaluation.engine.rowset import RowSet
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSES
from steelyard_evaluation.engine.source import Source, open_source
from steelyard_evaluation.storage.checked import CheckedStore, check_object, check_record
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store, probe, sync_reader

FILE_BYTES = 256 << 20
NAMED_ROWS = 10
"""Number of rows that a message names."""


async def verify(
    plan: Plan, dataset: Store, output: Store, epoch: str, file_bytes: int = FILE_BYTES
) -> Manifest:
    """The manifest of `output`, made now or found; EvaluationFailed (OutputInvalid) says which rows are wrong."""
    try:
        manifest = await read_manifest(output)
    except ObjectMissing:
        pass
    else:  # an earlier attempt's, or an edited one: what it says is counted, not believed
        await check_complete(manifest, dataset, output)
        return manifest
    await probe(output)
    claimed = await claim_verification(output, epoch)
    source = await open_source(dataset)
    counted, late = await list_parts(output)
    digests = digests_of_parts(await read_row_sets(output, counted))
    parts = CheckedStore(output, digests)
    with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch:
        check = await asyncio.to_thread(_Check, plan, source, Path(scratch), file_bytes)
        for name in counted:
            for path in await asyncio.to_thread(check.take, parts, name):
                await _publish(output, claimed, path)
        for path in await asyncio.to_thread(check.finish):
            await _publish(output, claimed, path)
    manifest = check.manifest(counted, late, await _records(output, digests))
    return await _seal(output, claimed, manifest)


async def _records(output: Store, digests: Mapping[str, str]) -> list[RecordEntry]:
    """Return the records beside the rows with their digests, each compared once more: nobody changes them later."""
    known = {key: digest for key, digest in digests.items() if key.startswith(layout.ERRORS)}
    for key, digest in known.items():
        await check_object(output, key, digest)
    for key, data in (await read_servers(output)).items():
        known[key] = hashlib.sha256(data).hexdigest()
    try:
        run = await output.get(layout.RUN)
    except ObjectMissing:
        pass  # outputs of earlier versions have none
    else:
        check_record(run, output.url, layout.RUN)
        known[layout.RUN] = hashlib.sha256(run).hexdigest()
    return [RecordEntry(path=key, sha256=digest) for key, digest in sorted(known.items())]


async def _publish(output: Store, claimed: Epoch, path: Path) -> None:
    """Put one finished file at the root. It may replace what an interrupted verification left there."""
    # A verification that was replaced must not put a file over one that the other's manifest names already.
    await claimed.check()
    await output.put_file(path.name, path)
    # At once: the scratch folder of a Pod is small, the output may be large.
    await asyncio.to_thread(path.unlink)


async def _seal(output: Store, claimed: Epoch, manifest: Manifest) -> Manifest:
    """Remove files that are not the manifest's, then write it; once it is there, it stays."""
    await claimed.check()
    files = {entry.path for entry in manifest.files}
    # An interrupted verification may have cut the rows into other files; left there, readers that list the folder
    # would count rows twice.
    stray = [info.key async for info in output.list("part-") if info.key not in files]
    for key in stray:
        await output.delete(key)
    try:
        await output.create(layout.MANIFEST, manifest.model_dump_json(indent=2).encode())
    # A verification that was replaced got there first. It read the same parts, so its manifest is as good.
    except ObjectExists:
        return await read_manifest(output)
    return manifest


class _Check:
    """The state of one pass over the parts. Blocking: its methods run in threads."""

    def __init__(self, plan: Plan, source: Source, scratch: Path, file_bytes: int) -> None:
        self._plan = plan
        self._source = source
        self._indexes = IndexMap(source)
        self._seen = RowSet(source.rows * len(plan.replications))
        self._files = Compactor(plan.schema, scratch, file_bytes)
        self._calls = Calls()
        self._written = self._errors = self._duplicates = 0

    def take(self, output: Store, name: str) -> Sequence[Path]:
        """Check one part and copy its rows; the files that it completed."""
        key = layout.PARTS + name
        try:
            with sync_reader(output, key) as reader:
                parquet = open_parquet(reader)
                _check_schema(name, parquet.schema_arrow, self._plan.schema)
                self._calls += read_calls(parquet.schema_arrow)
                for batch in batches(reader, 65536):
                    self._take_batch(name, batch)
        except (pa.ArrowException, OSError) as error:
            raise _invalid(f"the part {name} cannot be read: {error}") from error
        return self._files.take_completed()

    def finish(self) -> Sequence[Path]:
        """Finish after the last part. Raises EvaluationFailed when rows are missing and may not be."""
        missing = self._seen.total - len(self._seen)
        if missing and self._plan.client.missingOutputPolicy == "Error":
            some = [position for position, _ in zip(self._seen.missing(), range(NAMED_ROWS), strict=False)]
            raise _invalid(
                f"{missing} of {self._seen.total} rows are missing: {self._names(some)}", self._row(some[0])
            )
        return self._files.close()

    def manifest(
        self, counted: Sequence[str], late: Sequence[str], records: Sequence[RecordEntry]
    ) -> Manifest:
        rows = RowCounts(
            total=self._seen.total,
            present=len(self._seen),
            errors=self._errors,
            missing=self._seen.total - len(self._seen),
            duplicates=self._duplicates,
        )
        return Manifest(
            evaluation=self._plan.evaluation,
            replications=list(self._plan.replications),
            inputs=list(self._source.files),
            files=list(self._files.entries),
            rows=rows,
            parts=list(counted),
            leftOut=list(late),
            asked=dict(sorted(self._calls.replicas.items())),
            unknownEndings=dict(sorted(self._calls.endings.items())),
            records=list(records),
        )

    def _take_batch(self, name: str, batch: pa.RecordBatch) -> None:
        if batch.column(INDEX).null_count or batch.column(REPLICATION).null_count:
            raise _invalid(f"the part {name} has rows without {INDEX} or {REPLICATION}")
        row_positions = positions(batch, self._indexes, self._plan.replications)
        # The dataset was changed in its place after the attempt began, or the part is not of this evaluation.
        if (row_positions == ABSENT).any():
            row = (
                batch.slice(int((row_positions == ABSENT).argmax()), 1)
                .select([INDEX, REPLICATION])
                .to_pylist()[0]
            )
            raise _invalid(f"the part {name} has a row that was not asked for: {row}", str(row[INDEX]))
        new = self._seen.add_new(row_positions)
        doubles = row_positions[~new]
        self._duplicates += len(doubles)
        policy = self._plan.client.duplicateOutputPolicy
        # Fencing leaves none; a folder that was copied together or edited by hand may have some.
        if len(doubles) and policy == "Error":
            some = [int(position) for position in doubles[:NAMED_ROWS]]
            raise _invalid(
                f"rows stand twice, again in the part {name}: {self._names(some)}", self._row(some[0])
            )
        if len(doubles) and policy == "Deduplicate":
            batch = batch.filter(pa.array(new))
        self._errors += batch.column(RESPONSES).null_count
        self._files.write(batch)

    def _row(self, position: int) -> str:
        return self._place(position)[0]

    def _names(self, some: Sequence[int]) -> str:
        places = [self._place(position) for position in some]
        return ", ".join(f"index {index} replication {replication}" for index, replication in places)

    def _place(self, position: int) -> tuple[str, int]:
        ordinal, replication = divmod(position, len(self._plan.replications))
        return str(self._indexes.index(ordinal)), replication


def _check_schema(name: str, actual: pa.Schema, expected: pa.Schema) -> None:
    if actual.names != expected.names:
        raise _invalid(f"the part {name} has the columns {actual.names}, not {expected.names}")
    for field in expected:
        if actual.field(field.name).type != field.type:
            kind = actual.field(field.name).type
            raise _invalid(f"the part {name}: {field.name} is {kind}, the interface says {field.type}")


def _invalid(message: str, row: str | None = None) -> EvaluationFailed:
    return EvaluationFailed("OutputInvalid", message, permanent=True, row=row)
