"""Stored files, each compared with its known digest before its content is used or delivered.

Whoever keeps files writes a manifest with their digests last: uploads, fetched volumes, datasets, verified outputs,
analyses, reports and audits. Whoever reads kept files does so through `CheckedStore`, or with `check_pieces` where
they are passed on. Each record of an evaluation that is not verified yet holds its own digest. Any other
file that a manifest does not name is read as it is.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Literal

import orjson

from steelyard_common.errors import ContentError
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import DOCUMENT_BYTES, TooLarge, parse_json
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import (
    ObjectInfo,
    ObjectMissing,
    SignedURL,
    StorageError,
    Store,
    display_name,
    sync_reader,
)
from steelyard_schema.names import MANIFEST, OWN_RECORDS

PUBLISHED = f"{OWN_RECORDS}published/"
"""Folder of the manifests of reports and audits; the last one in the order of names is of the last resource."""
PIECE = 4 << 20
_WITH_DIGEST, _WITHOUT_DIGEST = "0.2", "0.1"
"""Versions of the format of records: with their own digest, and without it, as earlier versions wrote them."""


class DigestMismatch(StorageError, ContentError):
    """The content of a file is not that of its known digest; `key` names the file without its store."""

    def __init__(self, store: str, key: str, how: str) -> None:
        super().__init__(f"{display_name(store, key)} {how}")
        self.public = f"{key} {how}"


async def read_digests(store: Store, folder: str = "") -> Mapping[str, str]:
    """Return the SHA-256 digests of the files of a folder by their paths in it; none where no manifest is.

    Raises DigestMismatch for a manifest that cannot be read as one.
    """
    place = f"{folder}/" if folder else ""
    try:
        return _digests_in(await store.get(f"{place}{MANIFEST}"), store, f"{place}{MANIFEST}")
    except ObjectMissing:
        pass
    published = [info.key async for info in store.list(f"{place}{PUBLISHED}")]
    return _digests_in(await store.get(published[-1]), store, published[-1]) if published else {}


class EntityDigests:
    """The known digests of files in the platform's storage, by their keys; whoever reads all keys reads each manifest
    once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = ""
        self._digests: Mapping[str, str] = {}

    async def find(self, key: str) -> str | None:
        """Return the digest of a file of an entity; None for one that no manifest names."""
        kind, _, rest = key.partition("/")
        id, _, path = rest.partition("/")
        if not path:
            return None
        if (folder := f"{kind}/{id}") != self._folder:
            self._digests = await read_digests(self._store, folder)
            self._folder = folder
        return self._digests.get(path)


async def find_digest(store: Store, key: str) -> str | None:
    """Return the digest of a file of an entity, in the platform's storage; None for one that no manifest names."""
    return await EntityDigests(store).find(key)


def check_digest(store: Store, key: str, sha256: str, expected: str | None) -> None:
    """Raise DigestMismatch unless the content of an object has the expected digest, if one is known."""
    if expected is not None and sha256 != expected:
        how = f"is not what was kept: its SHA-256 is {sha256}, and what was recorded with it says {expected}"
        raise DigestMismatch(store.url, key, how)


def add_digest(record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a record with its own digest, for `check_record`."""
    content = {**record, "schemaVersion": _WITH_DIGEST}
    return {**content, "sha256": _record_digest(content)}


def check_record(data: bytes, store: str, key: str) -> dict[str, JsonValue]:
    """Return the content of a record without its digest, which is compared. Records of earlier versions lack it.

    Raises DigestMismatch.
    """
    try:
        content = dict(parse_json(data))
        if content.get("schemaVersion") == _WITHOUT_DIGEST and "sha256" not in content:
            return content
        stated = content.pop("sha256")
    except (TooLarge, ValueError, LookupError, TypeError) as error:
        raise DigestMismatch(store, key, "was changed: it is not a record as it is written here") from error
    if stated != _record_digest(content):
        raise DigestMismatch(store, key, "was changed: its content has another SHA-256 than the one it holds")
    return content


async def get_document(store: Store, key: str) -> bytes:
    """Return a manifest or a record. Raises TooLarge before it is read, ObjectMissing."""
    if (await store.head(key)).size > DOCUMENT_BYTES:
        raise TooLarge(
            f"{display_name(store.url, key)}: has more than {DOCUMENT_BYTES} bytes, which are allowed"
        )
    return await store.get(key)


async def check_object(store: Store, key: str, expected: str | None) -> None:
    """Read an object, in constant memory, and compare its digest, if one is known. Raises DigestMismatch."""
    if expected is not None:
        check_digest(store, key, await compute_sha256(store, key), expected)


async def compute_sha256(store: Store, key: str) -> str:
    """Return the digest of an object, in constant memory."""
    digest = hashlib.sha256()
    async for piece in _pieces(store, key, (await store.head(key)).size):
        await asyncio.to_thread(digest.update, piece)
    return digest.hexdigest()


async def check_pieces(store: Store, key: str, size: int, expected: str | None) -> AsyncIterator[bytes]:
    """Yield an object in pieces while its digest is computed; the last piece comes only if the digest is right.

    So a recipient never has the whole of a file that was changed. Raises DigestMismatch.
    """
    if expected is None:
        async for piece in _pieces(store, key, size):
            yield piece
        return
    digest, last = hashlib.sha256(), b""
    async for piece in _pieces(store, key, size):
        if last:
            yield last
        await asyncio.to_thread(digest.update, piece)
        last = piece
    check_digest(store, key, digest.hexdigest(), expected)
    yield last


class CheckedStore:
    """A folder of kept files, to read: the first use of each file compares it with the digest of the manifest."""

    def __init__(self, store: Store, known: Mapping[str, str] | None = None) -> None:
        """`known` are the digests where they are recorded elsewhere than in a manifest."""
        self.url = store.url
        self.unchecked = store
        self._known = known
        self._right: set[str] = set()

    async def digests(self) -> Mapping[str, str]:
        """Return the digests of the manifest, which is read once."""
        if self._known is None:
            self._known = await read_digests(self.unchecked)
        return self._known

    async def get(self, key: str) -> bytes:
        digests, data = await self.digests(), await self.unchecked.get(key)
        if key in digests:
            self._compare(key, await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest()), digests)
        return data

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        await self._check(key)
        return await self.unchecked.get_range(key, start, length)

    async def download(self, key: str, path: Path) -> None:
        """Copy the object to a file, which is removed again if its content has changed."""
        digests = await self.digests()
        await self.unchecked.download(key, path)
        if key in digests:
            try:
                self._compare(key, await asyncio.to_thread(file_sha256, path), digests)
            except DigestMismatch:
                await asyncio.to_thread(path.unlink)
                raise

    def reader(self, key: str) -> BinaryIO:
        """Return a seekable file of the object, which was read once before. Blocking."""
        if self._known is None:
            self._known = _read_digests(self.unchecked)
        digests = self._known
        if key in digests and key not in self._right:
            with sync_reader(self.unchecked, key) as file:
                self._compare(key, hashlib.file_digest(file, "sha256").hexdigest(), digests)  # type: ignore[arg-type]
        return sync_reader(self.unchecked, key)

    async def head(self, key: str) -> ObjectInfo:
        return await self.unchecked.head(key)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        """Yield the objects; raises DigestMismatch at the end where one that the manifest names is missing."""
        missing = {key for key in await self.digests() if key.startswith(prefix)}
        async for info in self.unchecked.list(prefix):
            missing.discard(info.key)
            yield info
        if missing:
            raise DigestMismatch(self.url, min(missing), "is missing, and its manifest names it")

    async def sign(self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta) -> SignedURL | None:
        await self._check(key)
        return await self.unchecked.sign(method, key, lifetime)

    async def put(self, key: str, data: bytes) -> None:
        raise self._read_only(key)

    async def create(self, key: str, data: bytes) -> None:
        raise self._read_only(key)

    async def put_file(self, key: str, path: Path) -> None:
        raise self._read_only(key)

    async def create_file(self, key: str, path: Path) -> None:
        raise self._read_only(key)

    async def copy(self, source: str, target: str) -> None:
        raise self._read_only(target)

    async def delete(self, key: str) -> None:
        raise self._read_only(key)

    def _read_only(self, key: str) -> StorageError:
        return StorageError(f"{display_name(self.url, key)}: kept files are read here, and not changed")

    async def _check(self, key: str) -> None:
        digests = await self.digests()
        if key in digests and key not in self._right:
            self._compare(key, await compute_sha256(self.unchecked, key), digests)

    def _compare(self, key: str, sha256: str, digests: Mapping[str, str]) -> None:
        check_digest(self, key, sha256, digests[key])
        self._right.add(key)


def with_checks(store: Store) -> CheckedStore:
    """Return the store with its files compared; one that compares already as it is."""
    return store if isinstance(store, CheckedStore) else CheckedStore(store)


def without_checks(store: Store) -> Store:
    """Return the store without comparison, for a reader that computes the digests itself and compares them."""
    return store.unchecked if isinstance(store, CheckedStore) else store


async def _pieces(store: Store, key: str, size: int) -> AsyncIterator[bytes]:
    for start in range(0, size, PIECE):
        yield await store.get_range(key, start, min(PIECE, size - start))


def _read_digests(store: Store) -> Mapping[str, str]:
    """Return the digests of a manifest. Blocking; those of reports and audits have no fixed name, and are not found."""
    try:
        with sync_reader(store, MANIFEST) as file:
            return _digests_in(file.read(), store, MANIFEST)
    except ObjectMissing:
        return {}


def _record_digest(content: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _digests_in(manifest: bytes, store: Store, key: str) -> Mapping[str, str]:
    try:
        content = orjson.loads(manifest)
        files = [*content["files"], *(content.get("records") or ())]
        return {str(file["path"]): str(file["sha256"]) for file in files if file.get("sha256")}
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise DigestMismatch(store.url, key, "is not the manifest that was written here") from error
