"""A folder as object storage, durable: a confirmed write survives a power loss, and appears whole or not at all.

A library's rename before its fsync could leave an empty object behind a power loss, so writes are our own: a temporary
file next to the target, fsync, then link (create-only) or rename, then fsync of the folder.
"""

import asyncio
import errno
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

from steelyard.durable import sync_folder
from steelyard.storage.signing import check_signable
from steelyard.storage.store import (
    BadLocation,
    Full,
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    StorageError,
    StorageFull,
    check_key,
    name_of,
)

T = TypeVar("T")
TEMPORARY = ".#"
"""Prefix of half-written files; listings pass them over."""


class FileStore:
    """Objects as files below `root`, which is made when the first object is written."""

    def __init__(self, root: Path, when_full: Full | None = None) -> None:
        self.root = root
        self._when_full = when_full
        self._durable: set[Path] = set()  # folders whose names are known to be on disk
        self.url = f"file://{root}"

    async def get(self, key: str) -> bytes:
        return await self._run(key, lambda path: path.read_bytes())

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        def read(path: Path) -> bytes:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(length)

        return await self._run(key, read)

    async def put(self, key: str, data: bytes) -> None:
        await self._run(key, lambda path: self._write(path, lambda file: _all(file, data), replace=True))

    async def create(self, key: str, data: bytes) -> None:
        await self._run(key, lambda path: self._write(path, lambda file: _all(file, data), replace=False))

    async def put_file(self, key: str, path: Path) -> None:
        await self._run(key, lambda target: self._write(target, lambda file: _copy(path, file), replace=True))

    async def create_file(self, key: str, path: Path) -> None:
        await self._run(
            key, lambda target: self._write(target, lambda file: _copy(path, file), replace=False)
        )

    async def sign(self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta) -> None:
        """Files have no URLs of their own."""
        check_signable(method, key)

    async def copy(self, source: str, target: str) -> None:
        with self._named(check_key(source)):
            (self.root / source).stat()  # so that a missing source is named, and not the target
        await self._run(target, lambda path: self._link(self.root / source, path))

    async def download(self, key: str, path: Path) -> None:
        def copy(source: Path) -> None:
            with source.open("rb") as reader, path.open("wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)

        await self._run(key, copy)

    async def head(self, key: str) -> ObjectInfo:
        return await self._run(key, lambda path: _info(key, path))

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        # Sorted whole in a thread: a folder gives its names in no order, and its reading would hold the loop.
        for info in await asyncio.to_thread(lambda: sorted(self._walk(prefix), key=attrgetter("key"))):
            yield info

    async def delete(self, key: str) -> None:
        def remove(path: Path) -> None:
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                sync_folder(path.parent)

        await self._run(key, remove)

    def reader(self, key: str) -> BinaryIO:
        with self._named(key):
            return (self.root / key).open("rb")

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        # Only the folder that the prefix names in full can hold matches.
        base = self.root / prefix.rpartition("/")[0]
        for folder, folders, names in os.walk(base):
            folders.sort()
            for name in names:
                path = Path(folder, name)
                key = path.relative_to(self.root).as_posix()
                if not key.startswith(prefix) or name.startswith(TEMPORARY):
                    continue
                try:
                    yield _info(key, path)
                except FileNotFoundError:
                    continue  # deleted meanwhile

    def _link(self, source: Path, path: Path) -> None:
        """Give the file of `source` a second name. No write changes a file in place, so neither changes the other."""
        if path.is_dir() or source.is_dir():
            raise IsADirectoryError(path)
        self._make_folder(path.parent)
        temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        temporary.hardlink_to(source)
        # A rename of two names of one file does nothing, and leaves both.
        try:
            temporary.rename(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)

    def _write(self, path: Path, fill: Callable[[BinaryIO], None], *, replace: bool) -> None:
        if path.is_dir():
            raise IsADirectoryError(path)
        # An early answer that saves the writing; the link below decides.
        if not replace and path.exists():
            raise FileExistsError(path)
        self._make_folder(path.parent)
        temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                fill(file)
                file.flush()
                # Before the name appears: after a power loss a name must not stand for an empty file.
                os.fsync(file.fileno())
            if replace:
                temporary.rename(path)
            else:
                path.hardlink_to(temporary)  # fails where the target exists: the kernel is the judge
        finally:
            # After a rename it is gone already; after a link or a failure it is not.
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)

    def _make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, durable: each is synced into its parent.

        Also one that is there already, once per process: another writer may have made it and not synced it yet, and a
        power loss would take the object with it.
        """
        if folder in self._durable and folder.is_dir():
            return
        for part in reversed((folder, *folder.parents)):
            if part.is_dir() and (part == self.root or self.root not in part.parents):
                continue
            try:
                part.mkdir(exist_ok=True)
            except FileExistsError as error:
                raise NotADirectoryError(part) from error
            sync_folder(part.parent)
            self._durable.add(part)

    async def _run(self, key: str, work: Callable[[Path], T]) -> T:
        check_key(key)
        while True:
            try:
                with self._named(key):
                    return await asyncio.to_thread(work, self.root / key)
            except StorageFull as error:
                if self._when_full is None:
                    raise
                await self._when_full(error)

    @contextmanager
    def _named(self, key: str) -> Iterator[None]:
        """The operating system's errors in our words."""
        where = name_of(self.url, key)
        try:
            yield
        except FileExistsError as error:
            raise ObjectExists(f"{where}: is there already") from error
        except (IsADirectoryError, NotADirectoryError) as error:
            # Object stores hold `a` and `a/b` at once, a folder cannot: this must not read as "missing".
            raise StorageError(
                f"{where}: a key cannot be an object and a folder of others at once"
            ) from error
        except FileNotFoundError as error:
            raise ObjectMissing(f"{where}: is not there") from error
        except OSError as error:
            # Its own error: the writer may wait for room, while any other fault is reported at once.
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise StorageFull(f"{where}: {error.strerror}") from error
            if error.errno in {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP}:
                raise BadLocation(f"{where}: {error.strerror}") from error
            raise StorageError(f"{where}: {error.strerror}") from error


def _all(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _copy(source: Path, file: BinaryIO) -> None:
    with source.open("rb") as reader:
        shutil.copyfileobj(reader, file, 1 << 20)


def _info(key: str, path: Path) -> ObjectInfo:
    facts = path.stat()
    if path.is_dir():
        raise IsADirectoryError(path)
    return ObjectInfo(key, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))
