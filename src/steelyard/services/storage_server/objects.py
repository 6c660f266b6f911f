"""Reading of objects: conditions, ranges, and bytes that are sent as they are read."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from steelyard.services.storage_server.attributes import etag, load_metadata
from steelyard.services.storage_server.faults import S3Error
from steelyard_evaluation.storage.files import FileStore

PIECE_BYTES = 1 << 20
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True)
class OpenObject:
    """An object that is read: its file stays the same, whatever happens to its name."""

    descriptor: int
    size: int
    etag: str
    last_modified: datetime
    metadata: Mapping[str, str]

    def headers(self) -> dict[str, str]:
        """Return the headers that describe the object."""
        return {
            "ETag": f'"{self.etag}"',
            "Last-Modified": format_datetime(self.last_modified, usegmt=True),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
            **self.metadata,
        }


def open_object(store: FileStore, key: str) -> OpenObject:
    """Open an object; the descriptor is the caller's. Blocks. Raises StorageError, S3Error, OSError."""
    with store.reader(key) as file:
        descriptor = os.dup(file.fileno())
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or not is_inside(
            store, os.readlink(f"/proc/self/fd/{descriptor}")
        ):
            raise S3Error("AccessDenied", "The key leads out of the storage.")
        written = datetime.fromtimestamp(int(facts.st_mtime), UTC)
        return OpenObject(descriptor, facts.st_size, etag(facts), written, load_metadata(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def check_inside(store: FileStore, key: str) -> None:
    """Raises S3Error where a symbolic link among the folders of a key leads out of the storage; BadLocation."""
    if not is_inside(store, os.path.realpath(store.path(key).parent)):
        raise S3Error("AccessDenied", "The key leads out of the storage.")


def is_inside(store: FileStore, path: str) -> bool:
    """Return whether a path without links is the folder of the store, or lies in it."""
    root = os.path.realpath(store.root)
    return path == root or path.startswith(f"{root}/")


def check_conditions(headers: Mapping[str, str], opened: OpenObject) -> bool:
    """Return whether the object is sent, and is not the one that the client has already (304).

    Raises S3Error where the client wants only another one.
    """
    if (match := headers.get("if-match")) is not None:
        if not _names(match, opened.etag):
            raise S3Error("PreconditionFailed", "The object has another ETag.")
    elif (since := _read_date(headers.get("if-unmodified-since"))) and opened.last_modified > since:
        raise S3Error("PreconditionFailed", "The object was written later.")
    if (match := headers.get("if-none-match")) is not None:
        return not _names(match, opened.etag)
    since = _read_date(headers.get("if-modified-since"))
    return since is None or opened.last_modified > since


def _names(header: str, tag: str) -> bool:
    names = {name.strip().removeprefix("W/").strip('"') for name in header.split(",")}
    return tag in names or "*" in names


def _read_date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None  # as HTTP has it
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_range(headers: Mapping[str, str], opened: OpenObject) -> range | None:
    """Return the bytes that the client asks for, None for the whole. Raises S3Error where there are none such."""
    parts = _RANGE.fullmatch(headers.get("range", "").strip())
    if parts is None or not (parts[1] or parts[2]):
        return None
    if (wanted := headers.get("if-range")) is not None and not _names(wanted, opened.etag):
        return None
    if not parts[1]:
        asked = range(max(0, opened.size - int(parts[2])), opened.size)
    else:
        if parts[2] and int(parts[2]) < int(parts[1]):
            return None
        end = min(int(parts[2]) + 1, opened.size) if parts[2] else opened.size
        asked = range(int(parts[1]), end)
    if not asked:
        raise S3Error("InvalidRange", f"The object has {opened.size} bytes.")
    return asked


@dataclass(frozen=True)
class Answer:
    """An answer to GetObject or HeadObject. Its body is `body`, or else the bytes `asked` of `opened`, which the caller
    then closes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | None
    opened: OpenObject
    asked: range


def read_object(store: FileStore, key: str, headers: Mapping[str, str], *, body: bool) -> Answer:
    """Return the answer that the headers of a request ask for; blocks. Raises StorageError, S3Error, OSError."""
    opened = open_object(store, key)
    streamed = False
    try:
        described = opened.headers()
        if not check_conditions(headers, opened):
            return Answer(304, described, b"", opened, range(0))
        part = read_range(headers, opened)
        asked = range(opened.size) if part is None else part
        if part is not None:
            described["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{opened.size}"
        described["Content-Length"] = str(len(asked))
        streamed = body and len(asked) > PIECE_BYTES
        data = b"".join(read_pieces(opened, asked)) if body and not streamed else None if streamed else b""
        return Answer(200 if part is None else 206, described, data, opened, asked)
    finally:
        if not streamed:
            os.close(opened.descriptor)


def read_pieces(opened: OpenObject, asked: range) -> Iterator[bytes]:
    """The bytes of a range. Raises OSError."""
    at = asked.start
    while at < asked.stop:
        piece = os.pread(opened.descriptor, min(PIECE_BYTES, asked.stop - at), at)
        if not piece:
            raise OSError("the file is shorter than it was")
        at += len(piece)
        yield piece
