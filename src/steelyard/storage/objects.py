"""Object stores through obstore: memory for tests, S3, GCS and Azure for clusters."""

import asyncio
import io
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import obstore
from obstore import store as stores
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

from steelyard.storage.store import ObjectExists, ObjectInfo, ObjectMissing, StorageError, check_key

_MEMORY: dict[str, stores.MemoryStore] = {}
"""The in-memory stores of this process by name, so that two openers of one URL see the same objects."""

LARGEST_COPY = 5 << 30
"""Most bytes that S3 copies by one request."""
_METADATA = "//169.254.169.254/"
_MARK = "steelyardwrite"
"""Metadata of an object: by which write it was created. Letters alone, as Azure asks."""


class ObjectStore:
    """One bucket or container below a prefix."""

    def __init__(self, url: str, new_mark: Callable[[], str] = lambda: secrets.token_hex(16)) -> None:
        """`new_mark` names one write: no two are equal."""
        self.url = url.rstrip("/")
        self._new_mark = new_mark
        parts = urlsplit(url)
        self._prefix = parts.path.strip("/")
        # S3 and GCS promise the order of keys, so that a listing of any length takes constant memory. Azure does not.
        self._lists_in_order = parts.scheme in {"s3", "gs"}
        self._store = (
            _MEMORY.setdefault(parts.netloc, stores.MemoryStore())
            if parts.scheme == "memory"
            else stores.from_url(f"{parts.scheme}://{parts.netloc}")
        )

    async def get(self, key: str) -> bytes:
        with self._named(key) as path:
            return bytes(await (await obstore.get_async(self._store, path)).bytes_async())

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        # Stores answer a range beyond the end with an error (416), not with what there is.
        end = min(start + length, (await self.head(key)).size)
        if end <= start:
            return b""
        with self._named(key) as path:
            return bytes(await obstore.get_range_async(self._store, path, start=start, end=end))

    async def put(self, key: str, data: bytes) -> None:
        with self._named(key) as path:
            await obstore.put_async(self._store, path, data)

    async def create(self, key: str, data: bytes) -> None:
        with self._named(key) as path:
            await self._create(path, data)

    async def put_file(self, key: str, path: Path) -> None:
        with self._named(key) as target:
            await obstore.put_async(self._store, target, path)

    async def create_file(self, key: str, path: Path) -> None:
        # A create-only write is one request everywhere, so it takes the bytes; our parts are at most 256 MB.
        with self._named(key) as target:
            await self._create(target, await asyncio.to_thread(path.read_bytes))

    async def copy(self, source: str, target: str) -> None:
        with self._named(source) as path:
            size = (await obstore.head_async(self._store, path))["size"]
        with self._named(target) as other:
            if size <= LARGEST_COPY:
                await obstore.copy_async(self._store, path, other)
                return
            # Appears whole: the parts become an object when the writer is closed without an error.
            async with obstore.open_writer_async(self._store, other) as writer:
                async for piece in (await obstore.get_async(self._store, path)).stream():
                    await writer.write(piece)

    async def _create(self, path: str, data: bytes) -> None:
        """The library sends a write again whose answer was lost, and is told then that the object is there already.
        Whose it is, its mark says: another writer's object may have the same content.
        """
        mark = self._new_mark()
        try:
            await self._put_new(path, data, mark)
        except (AlreadyExistsError, FileExistsError) as exists:
            try:
                there = await obstore.get_async(self._store, path, options={"head": True})
            except (NotFoundError, FileNotFoundError):
                # Another writer's: it was deleted at once, or the server shows it a moment later than it refuses ours.
                raise exists from None
            if there.attributes.get(_MARK) != mark:
                raise

    async def _put_new(self, path: str, data: bytes, mark: str) -> None:
        await obstore.put_async(
            self._store, path, data, mode="create", use_multipart=False, attributes={_MARK: mark}
        )

    async def download(self, key: str, path: Path) -> None:
        with self._named(key) as source, path.open("wb") as file:
            async for piece in (await obstore.get_async(self._store, source)).stream():
                file.write(piece)

    async def head(self, key: str) -> ObjectInfo:
        with self._named(key) as path:
            meta = await obstore.head_async(self._store, path)
        return ObjectInfo(key, meta["size"], meta["last_modified"])

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        # The library's prefixes are whole folders; the rest of the prefix is compared here.
        folder = "/".join(part for part in (self._prefix, prefix.rpartition("/")[0]) if part)
        skip = len(self._prefix) + 1 if self._prefix else 0
        infos: list[ObjectInfo] = []
        last = ""
        async for batch in obstore.list(self._store, prefix=folder or None):
            for meta in batch:
                key = meta["path"][skip:]
                if not key.startswith(prefix):
                    continue
                info = ObjectInfo(key, meta["size"], meta["last_modified"])
                if not self._lists_in_order:
                    infos.append(info)
                    continue
                if key < last:
                    raise StorageError(f"{self.url}: lists {key!r} after {last!r}; this store cannot be used")
                last = key
                yield info
        for info in sorted(infos, key=lambda info: info.key):
            yield info

    async def delete(self, key: str) -> None:
        with self._named(key) as path:
            try:
                await obstore.delete_async(self._store, path)
            except (NotFoundError, FileNotFoundError):
                return

    def reader(self, key: str) -> BinaryIO:
        with self._named(key) as path:
            size = obstore.head(self._store, path)["size"]
        return io.BufferedReader(_Ranges(self._store, path, size), 1 << 20)

    @contextmanager
    def _named(self, key: str) -> Iterator[str]:
        """The object's full path; the library's errors in our words."""
        check_key(key)
        try:
            yield f"{self._prefix}/{key}" if self._prefix else key
        except (AlreadyExistsError, FileExistsError) as error:
            raise ObjectExists(f"{self.url}/{key}: is there already") from error
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(f"{self.url}/{key}: is not there") from error
        except BaseError as error:
            raise StorageError(f"{self.url}/{key}: {reason(error)}") from error


def reason(error: BaseError) -> str:
    """One line: the library adds its own structures to a message, and whole documents in which a server explains."""
    text = str(error).partition("\n\nDebug source:")[0]
    explained = re.search(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", text, re.DOTALL)
    if _METADATA in text:
        # Without credentials the library asks the cloud's machines for some, and says only that this failed.
        return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (this machine offers none of its own)"
    text = text.partition("<?xml")[0].partition("<Error>")[0].strip().rstrip(":")
    return " ".join((f"{text}: {explained[1]}: {explained[2]}" if explained else text).split())


class _Ranges(io.RawIOBase):
    """A seekable file that fetches what is read."""

    def __init__(self, store: stores.ObjectStore, path: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        piece = bytes(obstore.get_range(self._store, self._path, start=self._at, end=end))
        buffer[: len(piece)] = piece
        self._at = end
        return len(piece)
