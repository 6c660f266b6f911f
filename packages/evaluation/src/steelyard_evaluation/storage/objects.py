"""Object stores through obstore: memory for tests, S3, GCS and Azure for clusters."""

import asyncio
import io
import os
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Literal
from urllib.parse import urlsplit

import obstore
from obstore import store as stores
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, NotFoundError

from steelyard_evaluation.storage.signing import check_signable
from steelyard_evaluation.storage.store import (
    PATIENCE,
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    SignedURL,
    StorageError,
    check_key,
)

_MEMORY: dict[str, stores.MemoryStore] = {}
"""The in-memory stores of this process by name, so that two openers of one URL see the same objects."""

MOST_RETRIES = 10_000
"""More than there can be: time alone ends the retries of a request."""
LONGEST_PAUSE = timedelta(seconds=5)
"""Longest pause between two tries: an outage seems at most this much longer than it is."""
RETRY_SECONDS = 1.0
UNSEEN_SECONDS = 0.1
"""Pause before a write is repeated that was refused because of an object that is not to be seen."""
_NO_ANSWER = "HTTP error: "
"""Part of the library's message where no answer of the server came, so that it has no status."""
_NO_BUCKET = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")
"""Parts of the library's message where a bucket is missing, and not the object alone."""
LARGEST_COPY = 5 << 30
"""Most bytes that S3 copies by one request."""
_METADATA = ("//169.254.169.254/", "//metadata.google.internal/", "//metadata/")
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT, the path of a service account's key file,",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""Variables with credentials, by the schemes of addresses."""
LONGEST_SIGNED = timedelta(days=7)
"""Longest time for which S3 and Google Cloud Storage take a signed URL."""
_PLAIN = re.compile(r"[A-Za-z0-9/._~!$&'()*+,;=:@-]*")
"""Paths without escapes: Azure checks a signature for the path as it is meant, and the library signs it as sent."""
_MARK = "steelyardwrite"
"""Metadata of an object: by which write it was created. Letters alone, as Azure asks."""


_GIVEN = re.compile(
    r"(AWS|GOOGLE|AZURE)_.*(KEY|TOKEN|SECRET|SKIP_SIGNATURE|CREDENTIALS|SERVICE_ACCOUNT|CLIENT_ID|CLI$|EMULATOR|METADATA"
    r"|IDENTITY|MSI)|(MSI|IDENTITY)_ENDPOINT"
)
"""Names of variables with which a request is signed, or the service of a machine's own rights is found."""
_OWN_RIGHTS = {"s3": "169.254.169.254", "gs": "metadata.google.internal", "az": "169.254.169.254"}
"""Addresses at which machines of the three clouds ask for rights of their own, by the schemes of stores."""
OWN_RIGHTS_SECONDS = 2.0


def credentials_fault(
    scheme: str,
    environment: Mapping[str, str] = os.environ,
    connect: Callable[[str], None] | None = None,
) -> str:
    """Say that there are neither credentials nor a machine's own rights; empty where there may be some.

    The library would ask for the rights of the machine until its patience is over, for minutes and without a word:
    whether that service is there at all is known after two seconds.
    """
    host = _OWN_RIGHTS.get(scheme)
    if host is None or any(_GIVEN.match(name.upper()) for name, value in environment.items() if value):
        return ""
    if scheme == "gs" and Path("~/.config/gcloud/application_default_credentials.json").expanduser().exists():
        return ""
    try:
        (connect or ask_machine)(host)
    except OSError as error:
        words = error.strerror or str(error)
        return f"no credentials: set {_CREDENTIALS[scheme]}; nor has this machine rights of its own ({host}: {words})"
    return ""


def ask_machine(host: str) -> None:
    """Connect to the service of the machine's own rights. Raises OSError."""
    socket.create_connection((host, 80), OWN_RIGHTS_SECONDS).close()


class ObjectStore:
    """One bucket or container below a prefix."""

    def __init__(
        self,
        url: str,
        new_mark: Callable[[], str] = lambda: secrets.token_hex(16),
        *,
        patience: timedelta = PATIENCE,
    ) -> None:
        """`new_mark` names one write: no two are equal. Requests without an answer are sent again for `patience`."""
        self.url = url.rstrip("/")
        self._patience = patience
        self._new_mark = new_mark
        parts = urlsplit(url)
        self._prefix = parts.path.strip("/")
        # S3 and GCS promise the order of keys, so that a listing of any length takes constant memory. Azure does not.
        self._lists_in_order = parts.scheme in {"s3", "gs"}
        try:
            self._store = (
                _MEMORY.setdefault(parts.netloc, stores.MemoryStore())
                if parts.scheme == "memory"
                else stores.from_url(
                    f"{parts.scheme}://{parts.netloc}",
                    retry_config={
                        "max_retries": MOST_RETRIES,
                        "retry_timeout": patience,
                        "backoff": {"max_backoff": LONGEST_PAUSE},
                    },
                )
            )
        except BaseError as error:
            raise StorageError(f"{self.url}: {reason(error, parts.scheme)}") from error
        if fault := credentials_fault(parts.scheme):
            raise StorageError(f"{self.url}: {fault}")

    async def get(self, key: str) -> bytes:
        with self._object_path(key) as path:
            return bytes(await (await obstore.get_async(self._store, path)).bytes_async())

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        # Stores answer a range beyond the end with an error (416), not with what there is.
        end = min(start + length, (await self.head(key)).size)
        if end <= start:
            return b""
        with self._object_path(key) as path:
            return bytes(await obstore.get_range_async(self._store, path, start=start, end=end))

    async def put(self, key: str, data: bytes) -> None:
        with self._object_path(key) as path:
            await obstore.put_async(self._store, path, data)

    async def create(self, key: str, data: bytes) -> None:
        with self._object_path(key) as path:
            await self._create(path, data)

    async def put_file(self, key: str, path: Path) -> None:
        with self._object_path(key) as target:
            await obstore.put_async(self._store, target, path)

    async def create_file(self, key: str, path: Path) -> None:
        # A create-only write is one request everywhere, so it takes the bytes; our parts are at most 256 MB.
        with self._object_path(key) as target:
            await self._create(target, await asyncio.to_thread(path.read_bytes))

    async def copy(self, source: str, target: str) -> None:
        with self._object_path(source) as path:
            size = (await obstore.head_async(self._store, path))["size"]
        with self._object_path(target) as other:
            if size <= LARGEST_COPY:
                await obstore.copy_async(self._store, path, other)
                return
            # Appears whole: the parts become an object when the writer is closed without an error.
            async with obstore.open_writer_async(self._store, other) as writer:
                async for piece in (await obstore.get_async(self._store, path)).stream():
                    await writer.write(piece)

    async def _create(self, path: str, data: bytes) -> None:
        """Create an object. A write whose answer was lost is sent again; the server then says that the object exists.
        Its mark shows who wrote it: another writer's object may have the same content.

        A server may refuse a write because of an object that it does not show yet, and that its writer may never
        finish: the write is sent again then, so that a writer who hears of another's object can read it.
        """
        mark = self._new_mark()
        end = time.monotonic() + self._patience.total_seconds()
        while True:
            try:
                await self._put_new(path, data, mark, end)
                return
            except (AlreadyExistsError, FileExistsError):
                there = await self._read_mark(path)
                if there == mark:
                    return
                if there is not None or time.monotonic() > end:
                    raise
            await asyncio.sleep(UNSEEN_SECONDS)

    async def _read_mark(self, path: str) -> str | None:
        """Return by which write an object was created, empty for one without a mark; None where there is no object."""
        try:
            there = await obstore.get_async(self._store, path, options={"head": True})
        except (NotFoundError, FileNotFoundError):
            return None
        return str(there.attributes.get(_MARK) or "")

    async def _put_new(self, path: str, data: bytes, mark: str, end: float) -> None:
        while True:
            try:
                await obstore.put_async(
                    self._store, path, data, mode="create", use_multipart=False, attributes={_MARK: mark}
                )
                return
            except GenericError as error:
                # The library repeats this request if it was not sent completely, but not if its answer is missing.
                if _NO_ANSWER not in str(error) or time.monotonic() > end:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def download(self, key: str, path: Path) -> None:
        with self._object_path(key) as source, path.open("wb") as file:
            async for piece in (await obstore.get_async(self._store, source)).stream():
                file.write(piece)

    async def head(self, key: str) -> ObjectInfo:
        with self._object_path(key) as path:
            meta = await obstore.head_async(self._store, path)
        return ObjectInfo(key, meta["size"], meta["last_modified"])

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        # The library's prefixes are whole folders; the rest of the prefix is compared here.
        folder = "/".join(part for part in (self._prefix, prefix.rpartition("/")[0]) if part)
        skip = len(self._prefix) + 1 if self._prefix else 0
        infos: list[ObjectInfo] = []
        last = ""
        with self._in_words(self.url):
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
                        raise StorageError(
                            f"{self.url}: lists {key!r} after {last!r}; this store cannot be used"
                        )
                    last = key
                    yield info
        for info in sorted(infos, key=lambda info: info.key):
            yield info

    async def delete(self, key: str) -> None:
        with self._object_path(key) as path:
            try:
                await obstore.delete_async(self._store, path)
            except (NotFoundError, FileNotFoundError):
                return

    async def sign(self, method: Literal["GET", "PUT"], key: str, lifetime: timedelta) -> SignedURL | None:
        check_signable(method, key)
        store = self._store
        if not isinstance(store, stores.S3Store | stores.GCSStore | stores.AzureStore):
            return None
        with self._object_path(key) as path:
            azure = isinstance(store, stores.AzureStore)
            if azure and not _PLAIN.fullmatch(path):
                return None
            url = await obstore.sign_async(store, method, path, min(lifetime, LONGEST_SIGNED))
        return SignedURL(url, method, {"x-ms-blob-type": "BlockBlob"} if azure and method == "PUT" else {})

    def reader(self, key: str) -> BinaryIO:
        with self._object_path(key) as path:
            size = obstore.head(self._store, path)["size"]
        return io.BufferedReader(_Ranges(self._store, path, size), 1 << 20)

    @contextmanager
    def _object_path(self, key: str) -> Iterator[str]:
        """The object's full path; the library's errors in our words."""
        check_key(key)
        with self._in_words(f"{self.url}/{key}"):
            yield f"{self._prefix}/{key}" if self._prefix else key

    @contextmanager
    def _in_words(self, url: str) -> Iterator[None]:
        """The library's errors in our words, about what the URL names."""
        try:
            yield
        except (AlreadyExistsError, FileExistsError) as error:
            raise ObjectExists(f"{url}: is there already") from error
        except (NotFoundError, FileNotFoundError) as error:
            if any(code in str(error) for code in _NO_BUCKET):
                raise StorageError(f"{self.url}: there is no such bucket") from error
            raise ObjectMissing(f"{url}: is not there") from error
        except BaseError as error:
            raise StorageError(f"{url}: {reason(error, self.url.partition(':')[0])}") from error


def reason(error: BaseError, scheme: str) -> str:
    """One line: the library adds its own structures to a message, and whole documents in which a server explains."""
    text = str(error).partition("\n\nDebug source:")[0]
    explained = re.search(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", text, re.DOTALL)
    if any(address in text for address in _METADATA):
        # Without credentials the library asks the cloud's machines for some, and says only that this failed.
        return f"no credentials: set {_CREDENTIALS[scheme]} (this machine offers none of its own)"
    if text.endswith("Account must be specified"):
        return f"no storage account: set {_CREDENTIALS[scheme]}"
    text = text.partition("<?xml")[0].partition("<Error>")[0].strip().rstrip(":")
    return " ".join((f"{text}: {explained[1]}: {explained[2]}" if explained else text).split())


class _Ranges(io.RawIOBase):
    """A seekable file that fetches the bytes that are read."""

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
