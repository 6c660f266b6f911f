"""The storage protocol. Steps, the evaluation engine and reports read and write through it, and nothing else.

Keys are relative to the store's root, with `/` between segments. The one conditional write is create-only.
"""

import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Literal, Protocol
from urllib.parse import unquote, urlsplit

from steelyard_common.errors import ContentError, EngineError

SCHEMES = ("file", "memory", "s3", "gs", "az")


class StorageError(EngineError):
    """Storage refused or failed; the message names the store and the key."""


class ObjectMissing(StorageError, ContentError):
    """No object has this key."""


class ObjectExists(StorageError, ContentError):
    """A create-only write met an object of this key."""


class StorageFull(StorageError):
    """No space, or no quota, is left."""


class BadLocation(StorageError, ContentError, ValueError):
    """A URL or a key is not one of ours."""


@dataclass(frozen=True)
class ObjectInfo:
    """One object: its key, its size in bytes, and when it was written (UTC)."""

    key: str
    size: int
    last_modified: datetime


@dataclass(frozen=True)
class SignedURL:
    """A signed request: `headers` are mandatory, with these values."""

    url: str
    method: str
    headers: Mapping[str, str]


class Store(Protocol):
    """A place for objects. Every method may raise StorageError, and BadLocation for an invalid key."""

    url: str

    async def get(self, key: str) -> bytes:
        """The whole object. Raises ObjectMissing."""
        ...

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer at the object's end. Raises ObjectMissing."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Write or replace, atomically; durable when it returns. Raises StorageFull."""
        ...

    async def create(self, key: str, data: bytes) -> None:
        """Write only if there is no such object; durable when it returns. Raises ObjectExists, StorageFull."""
        ...

    async def put_file(self, key: str, path: Path) -> None:
        """Put a file, in constant memory."""
        ...

    async def create_file(self, key: str, path: Path) -> None:
        """Create an object from a file, in constant memory."""
        ...

    async def copy(self, source: str, target: str) -> None:
        """Write or replace `target` with the content of `source`, atomically; durable when it returns.

        The bytes stay in the store, except for those of objects above its limit for one copy. Raises ObjectMissing for
        the source, StorageFull.
        """
        ...

    async def download(self, key: str, path: Path) -> None:
        """The object into a file, in constant memory. Raises ObjectMissing."""
        ...

    async def head(self, key: str) -> ObjectInfo:
        """Return size and times of an object. Raises ObjectMissing."""
        ...

    def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        """Every object whose key starts with `prefix`, at any depth, sorted by key (by its UTF-8 bytes)."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object; a missing one is fine."""
        ...

    async def sign(self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta) -> SignedURL | None:
        """A URL of the store's own: its holder may do one thing with one object until it expires, and the store itself
        answers.

        None where the store signs none, or none for this key. A signature cannot be taken back: a PUT is signed for
        uploads alone, BadLocation is raised for other keys.
        """
        ...


def check_key(key: str) -> str:
    """The key itself. Raises BadLocation for one with an empty, `.`, `..` or %-encoded segment."""
    for segment in key.split("/"):
        if (
            segment in {"", ".", ".."}
            or "\\" in segment
            or "\0" in segment
            or re.search(r"%[0-9A-Fa-f]{2}", segment)
        ):
            raise BadLocation(f"key {key!r}: segment {segment!r} is not allowed")
    return key


Full = Callable[[StorageFull], Awaitable[None]]
"""Function that is awaited when a folder's disk is full, before another attempt; it raises to give up."""


PATIENCE = timedelta(seconds=60)
"""Time for which a request to an object store that does not answer is sent again: a caller waits for it.

The library gives up one request after 30 s: with no more than that, one whose answer is lost was never sent again.
"""
LONG_PATIENCE = timedelta(seconds=180)
"""The same where work that has taken hours would be lost with the request."""


def open_store(url: str, when_full: Full | None = None, *, patience: timedelta = PATIENCE) -> Store:
    """The store at `url`: file:///…, memory://name, s3://…, gs://… or az://… (credentials from the environment).

    Without `when_full` a full disk is the caller's matter. An object store that is away is asked again for `patience`.
    Raises BadLocation, which says what is wrong with the URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise BadLocation(f"storage URL {url!r}: the scheme should be one of {', '.join(SCHEMES)}")
    if parts.query or parts.fragment:
        raise BadLocation(f"storage URL {url!r}: neither ? nor # may be in it")
    if parts.scheme not in {"file", "memory"} and not parts.netloc:
        raise BadLocation(
            f"storage URL {url!r}: should be {parts.scheme}://BUCKET or {parts.scheme}://BUCKET/PREFIX"
        )
    if parts.path.strip("/"):
        check_key(parts.path.strip("/") if parts.scheme != "file" else unquote(parts.path).strip("/"))
    if parts.scheme != "file":
        from steelyard_evaluation.storage.objects import ObjectStore  # whose library is large

        return ObjectStore(url, patience=patience)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise BadLocation(f"storage URL {url!r}: should be file:/// and an absolute path")
    from steelyard_evaluation.storage.files import FileStore

    return FileStore(Path(unquote(parts.path)), when_full)


def display_name(url: str, key: str = "") -> str:
    """Return where a store or an object of it is, for messages: of files their path, of others their URL."""
    whole = f"{url}/{key}" if key else url
    return whole.removeprefix("file://")


async def probe(store: Store) -> None:
    """Raises StorageError for a store whose create-only write replaces: nothing of ours would be safe on it."""
    key = f".steelyard/probe/{secrets.token_hex(8)}"
    await store.create(key, b"first")
    try:
        await store.create(key, b"second")
    except ObjectExists:
        return
    finally:
        await store.delete(key)
    raise StorageError(
        f"{display_name(store.url)}: a create-only write replaced an object; this store cannot be used"
    )


def sync_reader(store: Store, key: str) -> BinaryIO:
    """A seekable file over one object, for readers that are not async (Parquet). Raises ObjectMissing."""
    from steelyard_evaluation.storage.checked import CheckedStore
    from steelyard_evaluation.storage.files import FileStore
    from steelyard_evaluation.storage.objects import ObjectStore

    check_key(key)
    if isinstance(store, FileStore | ObjectStore | CheckedStore):
        return store.reader(key)
    raise TypeError(f"{type(store).__name__} offers no reader")
