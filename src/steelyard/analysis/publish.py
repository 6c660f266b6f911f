"""Writes the checked output of an analysis to its store, the manifest last: what the manifest does not name does not
count.

The manifest is create-only. An attempt that is killed before it leaves files that the next attempt replaces; one that
is killed after it has succeeded, which the next attempt sees.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict

from steelyard.analysis.errors import AnalysisFailed
from steelyard.analysis.outputs import Outputs
from steelyard.evaluation.epoch import Epoch
from steelyard.schema.names import LOG_PIECES, MANIFEST, OWN_RECORDS, WHOLE_LOG
from steelyard.storage.digest import sha256_of
from steelyard.storage.store import ObjectExists, ObjectMissing, Store

_LAST = "index.html"
"""Page of a safety case: where it is, everything else is."""


_FILES_PER_CHECK = 16
"""Files that are written between two looks for a later attempt."""


class AnalysisFile(BaseModel):
    """One file of the output: its path and its content."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    path: str
    size: int
    sha256: str


class AnalysisManifest(BaseModel):
    """All files of the output, sorted by path, and the attempt that made them."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schemaVersion: str = "0.1"  # noqa: N815 - as everywhere in our JSON
    analysis: str
    epoch: str
    rows: int | None = None
    """Rows of a measurement."""
    files: list[AnalysisFile]


async def is_published(store: Store) -> bool:
    """Return whether an attempt has published its output."""
    try:
        await store.head(MANIFEST)
    except ObjectMissing:
        return False
    return True


async def clear(store: Store, epoch: Epoch) -> None:
    """Delete what an attempt has left that was killed before its manifest. Raises Fenced."""
    left = [info.key async for info in store.list() if not _stays(info.key)]
    await epoch.check()
    for key in left:
        await store.delete(key)


async def publish(id: str, outputs: Outputs, epoch: Epoch) -> AnalysisManifest:
    """Write all files, then the manifest. Raises Fenced where a later attempt has begun."""
    store = epoch.store
    entries = await asyncio.to_thread(_entries, outputs.files)
    for path, content in outputs.records.items():
        await epoch.check()
        await store.put(path, content)
    for number, path in enumerate(sorted(outputs.files, key=lambda path: (path == _LAST, path))):
        if number % _FILES_PER_CHECK == 0 or path == _LAST:
            await epoch.check()
        await store.put_file(path, outputs.files[path])
    manifest = AnalysisManifest(analysis=id, epoch=epoch.name, rows=outputs.rows, files=entries)
    await epoch.check()
    try:
        await store.create(MANIFEST, orjson.dumps(manifest.model_dump(exclude_none=True)))
    except ObjectExists as error:
        message = "another attempt has published its output"
        raise AnalysisFailed("Superseded", message, permanent=False) from error
    return manifest


def _entries(files: Mapping[str, Path]) -> list[AnalysisFile]:
    return [
        AnalysisFile(path=path, size=file.stat().st_size, sha256=sha256_of(file))
        for path, file in sorted(files.items())
    ]


def _stays(key: str) -> bool:
    """Return whether an object is of the platform: records, among them the claims of attempts, and logs."""
    return key.startswith((OWN_RECORDS, LOG_PIECES)) or key == WHOLE_LOG
