"""Layers of images: folders packed so that the same content gives the same bytes.

Owner, times and order are fixed. Of the modes only two things count: whether a file may be executed, and whether
everybody may write into a folder.
"""

import hashlib
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

ENTRY_SECONDS = 315_532_800
"""Time of every entry, 1980-01-01: a layer without a change is the same one in the next version, and nodes have it."""
_COMPRESSION, _GZIP = 6, 31
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Layer:
    """A packed layer: its file, and what a manifest says of it."""

    path: Path
    title: str
    digest: str
    """SHA-256 of the compressed bytes, in hexadecimal digits."""
    size: int
    """Compressed bytes."""
    content_digest: str
    """SHA-256 of the archive before it was compressed."""
    files_size: int
    """Bytes of all files."""


class _Gzip:
    """Writes gzip without name and time, and takes the digests of what comes in and goes out."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._compress = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, _GZIP)
        self.content, self.compressed, self.size = hashlib.sha256(), hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.content.update(data)
        self._put(self._compress.compress(data))
        return len(data)

    def close(self) -> None:
        self._put(self._compress.flush())

    def _put(self, data: bytes) -> None:
        self.compressed.update(data)
        self.size += len(data)
        self._file.write(data)


def pack(folder: Path, path: Path, title: str) -> Layer:
    """Write the content of a folder, which becomes the root, as a layer."""
    sources = _sorted_paths(folder)
    entries = ((_entry(source, source.relative_to(folder).as_posix()), source) for source in sources)
    return pack_entries(entries, path, title)


def pack_entries(entries: Iterable[tuple[tarfile.TarInfo, Path | bytes]], path: Path, title: str) -> Layer:
    """Write entries as a layer, those of files with their content."""
    files_size = 0
    with path.open("wb") as file:
        packed = _Gzip(file)
        with tarfile.open(fileobj=cast("IO[bytes]", packed), mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for entry, source in entries:
                if entry.isreg():
                    files_size += entry.size
                    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as content:
                        archive.addfile(entry, content)
                else:
                    archive.addfile(entry)
        packed.close()
    return Layer(
        path, title, packed.compressed.hexdigest(), packed.size, packed.content.hexdigest(), files_size
    )


def _sorted_paths(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder; each folder stands before its content."""
    for name in sorted(os.listdir(folder)):
        path = folder / name
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _sorted_paths(path)


def _entry(source: Path, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mtime = ENTRY_SECONDS
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(source), 0o777
    elif stat.S_ISDIR(status.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if status.st_mode & stat.S_IWOTH else 0o755
    else:
        entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    return entry


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
