"""Bodies on their way into the storage folder, and uploads in several parts.

They lie in one folder of the store, by names of half-written files, which no listing shows:

    .steelyard/incoming/.#TOKEN           a body that is being received
    .steelyard/incoming/.#UPLOAD.begun    the key of an upload, its metadata, and the boot of the machine
    .steelyard/incoming/.#UPLOAD.NUMBER   a part
    .steelyard/incoming/.#UPLOAD.done     what was asked for at its end, and the ETag of the object

An object appears by a rename or a link of a whole file that is on the disk. What a killed process leaves is removed
a day later. Parts are not forced to the disk one by one, only the object is: an upload therefore ends with the boot of
the machine in which it began, and a process that is started again continues it.
"""

import asyncio
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from steelyard.services.storage_server.attributes import etag, store_metadata
from steelyard.services.storage_server.bodies import Digests, receive
from steelyard.services.storage_server.documents import MOST_PARTS
from steelyard.services.storage_server.faults import S3Error
from steelyard.services.storage_server.objects import check_inside
from steelyard_common.types import Json
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.folder_walk import TEMPORARY

FOLDER = ".steelyard/incoming"
KEPT = timedelta(days=1)
"""Time after which an upload in which nothing has happened, or a body that nobody receives, is a leftover."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NO_COPY = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@dataclass(frozen=True)
class Upload:
    """An upload in several parts, as its record has it."""

    key: str
    metadata: Mapping[str, str]
    boot: str


@dataclass(frozen=True)
class _Completion:
    """The end of an upload that is at work, and what was asked for."""

    key: str
    parts: Sequence[tuple[int, str]]
    replace: bool
    task: asyncio.Task[str]

    def equals(self, key: str, parts: Sequence[tuple[int, str]], *, replace: bool) -> bool:
        """Return whether another request asks for the same."""
        return (self.key, list(self.parts), self.replace) == (key, list(parts), replace)


class Uploads:
    """The incoming files of one store."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._folder = store.root / FOLDER
        self._completing: dict[str, _Completion] = {}

    async def put(
        self,
        key: str,
        body: AsyncIterator[bytes],
        digests: Digests,
        *,
        metadata: Mapping[str, str],
        replace: bool,
    ) -> str:
        """Make a body an object; return its ETag. Raises S3Error, StorageError, OSError."""

        def begin() -> BinaryIO:
            check_inside(self._store, key)
            with discarding(self._new().open("xb")) as file:  # a full disk may have no place for the metadata
                store_metadata(file.fileno(), metadata)
                return file

        with discarding(await asyncio.to_thread(begin)) as file:
            facts = await receive(body, digests, file, durable=True)
            await self._store.place(key, Path(file.name), replace=replace)
            return etag(facts)

    def begin(self, key: str, metadata: Mapping[str, str]) -> str:
        """Return the id of a new upload. Raises OSError."""
        id = secrets.token_hex(16)
        self._write_record(id, "begun", asdict(Upload(key, metadata, boot())))
        return id

    async def add(self, id: str, key: str, number: int, body: AsyncIterator[bytes], digests: Digests) -> str:
        """Receive a part; return its ETag. Raises S3Error, OSError."""
        if not 1 <= number <= MOST_PARTS:
            raise S3Error("InvalidArgument", f"A part number should be 1 to {MOST_PARTS}.")

        def begin() -> BinaryIO:
            self.find(id, key)
            return self._new().open("xb")

        def keep_part(path: Path) -> None:
            self.find(id, key)  # it may have ended meanwhile
            path.rename(self._record(id, str(number)))

        with discarding(await asyncio.to_thread(begin)) as file:
            facts = await receive(body, digests, file, durable=False)
            await asyncio.to_thread(keep_part, Path(file.name))
            return etag(facts)

    async def complete(self, id: str, key: str, parts: Sequence[tuple[int, str]], *, replace: bool) -> str:
        """Make the parts an object; return its ETag. Raises S3Error, StorageError, OSError.

        To join the parts of a large object may take longer than a client waits: a request that is sent again waits for
        the same work, and one whose work is done gets the same answer. A request for something else waits as well, and
        then finds what the first one has left: no upload, or one that it may still complete.
        """
        running = self._completing.get(id)
        while running is not None and not running.equals(key, parts, replace=replace):
            await asyncio.wait({running.task})
            running = self._completing.get(id)
        if running is None:
            task = asyncio.create_task(self._join(id, key, parts, replace=replace))
            running = self._completing[id] = _Completion(key, parts, replace, task)

            def forget(task: asyncio.Task[str]) -> None:
                del self._completing[id]
                if not task.cancelled():
                    task.exception()  # its clients may all have gone: nobody else looks at it then

            task.add_done_callback(forget)
        return await asyncio.shield(running.task)

    def abort(self, id: str, key: str) -> None:
        """Remove an upload. Raises S3Error, OSError."""
        self.find(id, key)
        self._remove(id)

    def find(self, id: str, key: str) -> Upload:
        """Return an upload that has begun and not ended. Raises S3Error."""
        upload = self._read(id, "begun")
        if upload is None or upload["key"] != key or upload["boot"] != boot():
            raise S3Error("NoSuchUpload", "There is no such upload of this key; it may have ended.")
        return Upload(upload["key"], upload["metadata"], upload["boot"])

    def remove_leftovers(self, now: datetime) -> int:
        """Remove what belongs to no upload or body any more; return the number of files. Raises OSError."""
        newest: dict[str, float] = {}
        paths = list(self._folder.glob(f"{TEMPORARY}*"))
        for path in paths:
            try:
                changed = path.stat().st_mtime
            except FileNotFoundError:
                continue
            name = _upload_name(path)
            newest[name] = max(newest.get(name, 0.0), changed)
        limit = (now - KEPT).timestamp()
        old = [path for path in paths if newest.get(_upload_name(path), limit) < limit]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)

    async def _join(self, id: str, key: str, parts: Sequence[tuple[int, str]], *, replace: bool) -> str:
        done = await asyncio.to_thread(self._read, id, "done")
        asked = {"key": key, "parts": [list(part) for part in parts], "replace": replace}
        if done is not None and {**asked, "etag": done["etag"]} == done:
            return str(done["etag"])
        path = await asyncio.to_thread(self._new)
        try:
            tag = await asyncio.to_thread(self.assemble, id, key, parts, path)
            await self._store.place(key, path, replace=replace)
        finally:
            path.unlink(missing_ok=True)

        def end() -> None:
            # First, so that a client which asks again after a kill finds one of both.
            self._write_record(id, "done", {**asked, "etag": tag})
            self._remove(id)

        await asyncio.to_thread(end)
        return tag

    def assemble(self, id: str, key: str, parts: Sequence[tuple[int, str]], path: Path) -> str:
        """Join the parts to a new file, durably; return its ETag. Blocks. Raises S3Error, OSError."""
        upload = self.find(id, key)
        with path.open("xb") as file:
            store_metadata(file.fileno(), upload.metadata)
            for number, expected in parts:
                try:
                    part = self._record(id, str(number)).open("rb")
                except FileNotFoundError:
                    raise S3Error("InvalidPart", f"There is no part {number}.") from None
                with part:
                    if etag(os.fstat(part.fileno())) != expected:
                        raise S3Error("InvalidPart", f"Part {number} has another ETag.")
                    append_file(part, file)
            os.fsync(file.fileno())
            return etag(os.fstat(file.fileno()))

    def _remove(self, id: str) -> None:
        for path in self._folder.glob(f"{TEMPORARY}{id}.*"):
            if path.suffix != ".done":
                path.unlink(missing_ok=True)

    def _new(self) -> Path:
        """Return the path of a new incoming file, in a folder that is there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{TEMPORARY}{secrets.token_hex(16)}"

    def _record(self, id: str, name: str) -> Path:
        if not re.fullmatch("[0-9a-f]{32}", id):
            raise S3Error("NoSuchUpload", "There is no such upload.")
        return self._folder / f"{TEMPORARY}{id}.{name}"

    def _write_record(self, id: str, name: str, content: Json) -> None:
        path = self._new()
        path.write_text(json.dumps(content))
        path.rename(self._record(id, name))

    def _read(self, id: str, name: str) -> Json | None:
        try:
            return dict(json.loads(self._record(id, name).read_text()))
        except FileNotFoundError:
            return None


@contextmanager
def discarding(file: BinaryIO) -> Iterator[BinaryIO]:
    """Remove a new file unless the block gives it another name."""
    try:
        yield file
    except BaseException:
        with suppress(OSError):  # on a full disk, its last bytes cannot be written
            file.close()
        Path(file.name).unlink(missing_ok=True)
        raise


def boot() -> str:
    """Return the id of the machine's boot."""
    return _BOOT.read_text().strip()


def _upload_name(path: Path) -> str:
    return path.name.removeprefix(TEMPORARY).partition(".")[0]


def append_file(part: BinaryIO, file: BinaryIO) -> None:
    """Copy a file to the end of another one, within the kernel where it can."""
    size = os.fstat(part.fileno()).st_size
    at = 0
    try:
        while at < size:
            copied = os.copy_file_range(part.fileno(), file.fileno(), size - at)
            if copied == 0:
                raise OSError(errno.EIO, "a part is shorter than it was")
            at += copied
    except OSError as error:
        if error.errno not in _NO_COPY:
            raise
        part.seek(at)
        file.seek(0, os.SEEK_END)
        shutil.copyfileobj(part, file, 1 << 20)
        file.flush()
