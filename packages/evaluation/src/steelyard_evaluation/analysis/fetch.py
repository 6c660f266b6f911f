"""Inputs and modules of an analysis, copied from storage into its working folder, each file checked by its digest."""

from collections.abc import AsyncIterator
from pathlib import Path

from steelyard_evaluation.analysis.errors import AnalysisFailed
from steelyard_evaluation.storage.checked import CheckedStore, DigestMismatch, with_checks
from steelyard_evaluation.storage.store import BadLocation, ObjectMissing, Store, check_key, display_name
from steelyard_schema.names import OWN_LOGS, OWN_RECORDS

BESIDE = ".files"
"""Folder of an input's files that do not hold rows: among the Parquet files, a reader would take them for rows."""


async def fetch_module(store: Store, folder: Path) -> int:
    """Copy the files of a module; return their number. Raises AnalysisFailed, ObjectMissing."""
    return await _fetch(store, folder, rows_apart=False)


async def fetch_input(store: Store, folder: Path) -> int:
    """Copy the files of an input; return their number. Raises AnalysisFailed, ObjectMissing.

    Parquet files lie as in storage, so that the folder opens as one dataset; any other file lies below `.files`.
    """
    return await _fetch(store, folder, rows_apart=True)


async def _fetch(store: Store, folder: Path, *, rows_apart: bool) -> int:
    count, kept = 0, with_checks(store)
    async for path in _paths(kept):
        try:
            check_key(path)
        except BadLocation as error:
            raise AnalysisFailed("BadRequest", f"{display_name(store.url)}: {error}") from error
        apart = rows_apart and not path.endswith(".parquet")
        target = folder / BESIDE / path if apart else folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            await kept.download(path, target)
        except DigestMismatch as error:
            raise AnalysisFailed("DigestMismatch", str(error)) from error
        count += 1
    if not count:
        # Worth a retry: the files may still be on their way.
        raise ObjectMissing(f"below {display_name(store.url)}")
    return count


async def _paths(store: CheckedStore) -> AsyncIterator[str]:
    """Yield the files of the manifest; without one, all files. The platform's own records are left out."""
    named = await store.digests()
    for path in named:
        if not path.startswith((OWN_RECORDS, OWN_LOGS)):
            yield path
    if not named:
        async for info in store.list():
            if not info.key.startswith((OWN_RECORDS, OWN_LOGS)):
                yield info.key
