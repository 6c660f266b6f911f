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
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

from steelyard_common.durable import sync_folder
from steelyard_evaluation.storage.folder_walk import TEMPORARY, walk
from steelyard_evaluation.storage.signing import check_signable
from steelyard_evaluation.storage.store import (
    BadLocation,
    Full,
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    StorageError,
    StorageFull,
    check_key,
    display_name,
)

T = TypeVar("T")


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

    async def place(self, key: str, path: Path, *, replace: bool) -> None:
        """Make a file an object without copying it: a complete file of the same file system, on the disk already.

        It loses its own name if this succeeds. Raises ObjectExists for an object that should not be replaced,
        StorageFull.
        """

        def rename(target: Path) -> None:
            self._prepare(target, replace=replace)
            _name(path, target, replace=replace)

        await self._run(key, rename)

    async def sign(self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta) -> None:
        """Files have no URLs of their own."""
        check_signable(method, key)

    async def copy(self, source: str, target: str) -> None:
        with self._translate_errors(source):
            self.path(source).stat()  # so that a missing source is named, and not the target
        await self._run(target, lambda path: self._link(self.root / source, path))

    async def download(self, key: str, path: Path) -> None:
        def copy(source: Path) -> None:
            with source.open("rb") as reader, path.open("wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)

        await self._run(key, copy)

    async def head(self, key: str) -> ObjectInfo:
        return await self._run(key, lambda path: _info(key, path))

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        # The whole in a thread: the reading of folders would hold the loop.
        with self._translate_errors(prefix):
            infos = await asyncio.to_thread(lambda: list(self.page(prefix)))
        for info in infos:
            yield info

    def page(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """The objects whose keys start with `prefix` and come after `after`, sorted, as a generator for a thread."""
        for key in walk(self.root, prefix, after):
            try:
                yield _info(key, self.root / key)
            except FileNotFoundError:
                continue  # deleted meanwhile

    async def delete(self, key: str) -> None:
        def remove(path: Path) -> None:
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                sync_folder(path.parent)

        await self._run(key, remove)

    def reader(self, key: str) -> BinaryIO:
        with self._translate_errors(key):
            return self.path(key).open("rb")

    def path(self, key: str) -> Path:
        """The file of a key, whether it is there or not. Raises BadLocation."""
        check_key(key)
        if any(segment.startswith(TEMPORARY) for segment in key.split("/")):
            raise BadLocation(
                f"key {key!r}: names that begin with {TEMPORARY} are those of half-written files"
            )
        return self.root / key

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
        self._prepare(path, replace=replace)
        temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                fill(file)
                file.flush()
                # Before the name appears: after a power loss a name must not stand for an empty file.
                os.fsync(file.fileno())
            _name(temporary, path, replace=replace)
        finally:
            temporary.unlink(missing_ok=True)  # after a failure it is there still

    def _prepare(self, path: Path, *, replace: bool) -> None:
        """Make the folder of an object that is about to be written."""
        if path.is_dir():
            raise IsADirectoryError(path)
        # An early answer that saves the writing; the link decides.
        if not replace and path.exists():
            raise FileExistsError(path)
        self._make_folder(path.parent)

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
        path = self.path(key)
        while True:
            try:
                with self._translate_errors(key):
                    return await asyncio.to_thread(work, path)
            except StorageFull as error:
                if self._when_full is None:
                    raise
                await self._when_full(error)

    @contextmanager
    def _translate_errors(self, key: str) -> Iterator[None]:
        """The operating system's errors in our words."""
        where = display_name(self.url, key)
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


def _name(temporary: Path, path: Path, *, replace: bool) -> None:
    """Give a complete file its name, durably."""
    if replace:
        temporary.rename(path)
    else:
        path.hardlink_to(temporary)  # fails where the target exists: the kernel is the judge
        temporary.unlink()
    sync_folder(path.parent)


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
