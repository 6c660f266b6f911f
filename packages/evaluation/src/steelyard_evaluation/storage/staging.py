"""Uploads: files arrive in `staging/<id>/<nonce>/`, and only verified files are copied to where they stay.

The API calls it. `finalise` may be repeated after a crash between any two of its steps:

1. verify that every file is there, with the size and the MD5 that were announced; what is wrong leaves the area open;
2. close the area: one create-only object next to it holds the manifest, and no URL signed earlier writes any more;
3. copy each file within the store, first to a key that is known here alone: its content has to be the manifest's, and
   only that copy goes to where it stays. A store's own signed URL, or an upload that had begun, may still change a file
   of a closed area; a copy cannot change any more. What comes after that is a leftover, which the reaper removes;
4. write the manifest, create-only, next to the copies: from then on they are final.

Where a crash came after the second step, whoever repeats the upload sends files to a closed area: `read_closed` names
the verified files, so that the same files are accepted without being written, and the repeat goes on to `finalise`.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store, check_key, sync_reader
from steelyard_schema.names import MANIFEST

_PIECE = 1 << 20


class UploadError(Exception):
    """The uploaded files are not those that were announced; `path` names one."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class NotUploaded(UploadError):
    """A file is not there yet."""


class NotAsAnnounced(UploadError):
    """A file has another size or another MD5."""


class ChangedMeanwhile(UploadError):
    """A file changed after it was verified: this upload cannot be finished."""


@dataclass(frozen=True)
class ExpectedFile:
    """A file that was announced; `md5` is base64 of the 16 bytes."""

    path: str
    size: int | None = None
    md5: str | None = None


class Entry(BaseModel):
    """One file of the manifest."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    path: str
    size: int
    sha256: str
    md5: str


class UploadManifest(BaseModel):
    """The files that were verified."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    files: list[Entry]


@dataclass(frozen=True)
class Area:
    """The folder into which the files of one upload arrive."""

    id: str
    nonce: str

    @property
    def prefix(self) -> str:
        return f"staging/{self.id}/{self.nonce}/"

    @property
    def closing_mark(self) -> str:
        """Key of the mark that the area is closed.

        It is not below the prefix: no uploaded file can stand in its place.
        """
        return f"staging/{self.id}/{self.nonce}.closed"

    @property
    def copies_prefix(self) -> str:
        """Prefix of copies while their content is checked; what a crash leaves there is discarded with the area."""
        return f"staging/{self.id}/{self.nonce}.checked/"

    def key(self, path: str) -> str:
        """Raises BadLocation."""
        return check_key(self.prefix + path)


def find_area(key: str) -> Area | None:
    """The area that a signed key lies in."""
    parts = key.split("/", 3)
    return Area(parts[1], parts[2]) if len(parts) == 4 and parts[0] == "staging" else None


async def is_closed(store: Store, area: Area) -> bool:
    """Return whether the area was closed: nothing more is written into it."""
    return await _is_there(store, area.closing_mark)


async def read_closed(store: Store, key: str) -> Entry | None:
    """Return the verified facts of a file of a closed area, as long as the area is not discarded; None else."""
    area = find_area(key)
    manifest = await _read(store, area.closing_mark) if area is not None else None
    if area is None or manifest is None or not await _is_there(store, key):
        return None
    return next((entry for entry in manifest.files if area.key(entry.path) == key), None)


async def _is_there(store: Store, key: str) -> bool:
    try:
        await store.head(key)
    except ObjectMissing:
        return False
    return True


async def finalise(
    store: Store, area: Area, expected: Sequence[ExpectedFile], final: str, most_bytes: int | None = None
) -> UploadManifest:
    """Verify, close, copy below the prefix `final` and write the manifest there. Raises UploadError.

    A file above `most_bytes` is refused before it is read: a store's own URL takes any size.
    """
    # The manifest is the last thing written: with it, everything before has been done.
    done = await _read(store, f"{final}/{MANIFEST}")
    if done is not None:
        return done
    manifest = await _read(store, area.closing_mark) or await _close(store, area, expected, most_bytes)
    for entry in manifest.files:
        await _copy(store, area, entry, f"{final}/{entry.path}")
    await _create(store, f"{final}/{MANIFEST}", manifest)
    return manifest


async def discard(store: Store, area: Area) -> None:
    """Remove the uploaded files; the area stays closed."""
    for prefix in (area.prefix, area.copies_prefix):
        for info in [info async for info in store.list(prefix)]:
            await store.delete(info.key)


async def _close(
    store: Store, area: Area, expected: Sequence[ExpectedFile], most_bytes: int | None
) -> UploadManifest:
    files = [await _verify(store, area.key(file.path), file, most_bytes) for file in expected]
    verified = UploadManifest(files=files)
    await _create(store, area.closing_mark, verified)
    closed = await _read(store, area.closing_mark)  # of two who close at once, one decides for both
    assert closed is not None
    return closed


async def _verify(store: Store, key: str, expected: ExpectedFile, most_bytes: int | None) -> Entry:
    try:
        size = (await store.head(key)).size
        if most_bytes is not None and size > most_bytes:
            raise NotAsAnnounced(
                expected.path, f"has {size} bytes, more than the {most_bytes} that are allowed"
            )
        digest = await asyncio.to_thread(_digest, store, key, expected.path)
    except ObjectMissing as error:
        raise NotUploaded(expected.path, "has not been uploaded") from error
    if expected.size is not None and digest.size != expected.size:
        raise NotAsAnnounced(expected.path, f"has {digest.size} bytes, {expected.size} were announced")
    if expected.md5 is not None and digest.md5 != expected.md5:
        raise NotAsAnnounced(expected.path, f"has the MD5 {digest.md5}, {expected.md5} was announced")
    return digest


async def _copy(store: Store, area: Area, entry: Entry, target: str) -> None:
    if await _holds(store, target, entry):
        return  # writes appear whole, and only `finalise` writes here: it was copied before a crash
    # A name of its own for each try: another one who finalises the same area must not replace what was checked here.
    checked = f"{area.copies_prefix}{secrets.token_hex(8)}/{entry.path}"
    try:
        await store.copy(area.key(entry.path), checked)
    except ObjectMissing as error:
        # Another one may have finalised the area meanwhile, and discarded what it no longer needed.
        if await _holds(store, target, entry):
            return
        raise ChangedMeanwhile(entry.path, "went away while it was finalised") from error
    if await asyncio.to_thread(_digest, store, checked, entry.path) != entry:
        await store.delete(checked)
        raise ChangedMeanwhile(entry.path, "changed while it was finalised")
    await store.copy(checked, target)
    await store.delete(checked)


async def _holds(store: Store, key: str, entry: Entry) -> bool:
    """Return whether the object has the content of the entry: one of equal size may have another."""
    try:
        if (await store.head(key)).size != entry.size:
            return False
        return await asyncio.to_thread(_digest, store, key, entry.path) == entry
    except ObjectMissing:
        return False


async def _create(store: Store, key: str, manifest: UploadManifest) -> None:
    try:
        await store.create(key, manifest.model_dump_json().encode())
    except ObjectExists:
        return  # written before a crash, or by another one who finalises


async def _read(store: Store, key: str) -> UploadManifest | None:
    try:
        return UploadManifest.model_validate_json(await store.get(key))
    except ObjectMissing:
        return None


def _digest(store: Store, key: str, path: str) -> Entry:
    # MD5 is the published contract of uploads (Content-MD5); what the platform vouches for is the SHA-256.
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with sync_reader(store, key) as file:
        while piece := file.read(_PIECE):
            sha256.update(piece)
            md5.update(piece)
            size += len(piece)
    return Entry(path=path, size=size, sha256=sha256.hexdigest(), md5=base64.b64encode(md5.digest()).decode())
