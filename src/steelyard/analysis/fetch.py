"""Inputs and modules of an analysis, copied from storage into its working folder, each file checked by its digest."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson

from steelyard.analysis.errors import AnalysisFailed
from steelyard.schema.names import MANIFEST, OWN_LOGS, OWN_RECORDS
from steelyard.storage.digest import sha256_of
from steelyard.storage.store import BadLocation, ObjectMissing, Store, check_key
from steelyard.types import Json

BESIDE = ".files"
"""Folder of an input's files that are no rows: among the Parquet files, a reader would take them for rows."""


async def fetch_module(store: Store, folder: Path) -> int:
    """Copy the files of a module; return their number. Raises AnalysisFailed, ObjectMissing."""
    return await _fetch(store, folder, rows_apart=False)


async def fetch_input(store: Store, folder: Path) -> int:
    """Copy the files of an input; return their number. Raises AnalysisFailed, ObjectMissing.

    Parquet files lie as in storage, so that the folder opens as one dataset; any other file lies below `.files`.
    """
    return await _fetch(store, folder, rows_apart=True)


async def _fetch(store: Store, folder: Path, *, rows_apart: bool) -> int:
    count = 0
    async for file in _files(store):
        path = str(file["path"])
        try:
            check_key(path)
        except BadLocation as error:
            raise AnalysisFailed("BadRequest", f"{store.url}: {error}") from error
        apart = rows_apart and not path.endswith(".parquet")
        target = folder / BESIDE / path if apart else folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        await store.download(path, target)
        await asyncio.to_thread(_check, store, target, file)
        count += 1
    if not count:
        # Worth a retry: the files may still be on their way.
        raise ObjectMissing(f"below {store.url}")
    return count


async def _files(store: Store) -> AsyncIterator[Json]:
    """Yield the files of the manifest; without one, all files. The platform's own records are left out."""
    try:
        manifest = orjson.loads(await store.get(MANIFEST))
    except ObjectMissing:
        async for info in store.list():
            if not info.key.startswith((OWN_RECORDS, OWN_LOGS)):
                yield {"path": info.key}
        return
    for file in manifest["files"]:
        yield file


def _check(store: Store, path: Path, file: Json) -> None:
    expected = file.get("sha256")
    if isinstance(expected, str) and expected and (there := sha256_of(path)) != expected:
        path.unlink()
        raise AnalysisFailed(
            "DigestMismatch",
            f"{store.url}/{file['path']} is not the file that was verified: its SHA-256 is {there}, "
            f"the manifest says {expected}",
        )
