"""A package of an installation: a folder, or one tar file, of named files with their digests in a manifest.

The manifest is written last. A package without one, or with a file that is not what the manifest says, is refused with
one line that names the file, before anything is read from it.
"""

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard.services.backup.record_files import Damaged
from steelyard_common.durable import rename_durably, sync_folder
from steelyard_common.errors import UsageError, one_line
from steelyard_common.whole_files import TooLarge, check_values, read_whole

MANIFEST = "manifest.json"
FORMAT = 1
_PIECE = 1 << 20
_MOST_HEADERS = 100
"""Most headers of a member of a tar file."""
_MANIFEST_BYTES, _ENTRY_BYTES, _MANIFEST_PARTS = 1 << 20, 2 << 10, 1000
"""A manifest has no more bytes, lists and objects than these, and no more than so many for each file of its package."""


class File(BaseModel):
    """One file of a package."""

    model_config = ConfigDict(frozen=True)

    size: int
    sha256: str


class Manifest(BaseModel):
    """Description of a package. `log` and `epoch` are those of the log that it was made from."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    made: str
    log: str
    epoch: int
    files: dict[str, File]


@contextmanager
def write_package(target: Path) -> Iterator["PackageWriter"]:
    """Write to a folder that is new or empty, or to a file whose name ends in .tar. Raises UsageError."""
    if target.suffix == ".tar":
        if target.exists():
            raise UsageError(f"{target}: is there already")
        half = target.with_name(f"{target.name}.half")
        half.unlink(missing_ok=True)
        # For its owner alone: the keys that sign tokens are in it.
        with (
            os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
            tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            yield PackageWriter(lambda name, path: tar.add(path, name, recursive=False))
        # The installation may be removed as soon as the command has ended.
        rename_durably(half, target)
        return
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target}: should be a new or empty folder, or a file whose name ends in .tar")
    target.mkdir(parents=True, exist_ok=True, mode=0o700)

    def copy(name: str, path: Path) -> None:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as source, place.open("wb") as file:
            shutil.copyfileobj(source, file, _PIECE)
            file.flush()
            os.fsync(file.fileno())

    yield PackageWriter(copy)
    for folder in {target, target.parent, *(path for path in target.rglob("*") if path.is_dir())}:
        sync_folder(folder)


class PackageWriter:
    """Adds files, and remembers their digests."""

    def __init__(self, put: "Put") -> None:
        self._put = put
        self.files: dict[str, File] = {}

    def add(self, name: str, path: Path) -> None:
        with path.open("rb") as file:
            self.files[name] = _digest(file)
        self._put(name, path)

    def add_bytes(self, name: str, data: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            self.add(name, Path(file.name))

    def finish(self, made: str, log: str, epoch: int) -> None:
        """Write the manifest: the package is whole."""
        manifest = Manifest(made=made, log=log, epoch=epoch, files=dict(self.files))
        self.add_bytes(MANIFEST, manifest.model_dump_json().encode())


class Put(Protocol):
    """Function that puts a file into a package."""

    def __call__(self, name: str, path: Path, /) -> None: ...


class Package:
    """A package that is read."""

    def __init__(self, name: Path, opened: "Open", members: int) -> None:
        self._name, self._open = name, opened
        with self.file(MANIFEST) as file:
            try:
                content = read_whole(file, _MANIFEST_BYTES + _ENTRY_BYTES * members)
                check_values(content, _MANIFEST_PARTS + 4 * members, _MANIFEST_PARTS + members)
                self.manifest = Manifest.model_validate_json(content)
            except TooLarge as error:
                raise Damaged(f"{name}/{MANIFEST}: {error} for the files that it holds") from error
            except ValidationError as error:
                raise Damaged(f"{name}/{MANIFEST}: is damaged: it is not a manifest of a package") from error
        if self.manifest.format > FORMAT:
            raise Damaged(
                f"{name}: has format {self.manifest.format}, which a newer version of Steelyard reads"
            )

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        """One file. Raises Damaged where it is missing."""
        try:
            file = self._open(name)
        except (KeyError, FileNotFoundError) as error:
            raise Damaged(f"{self._name}/{name}: is missing: the package is not whole") from error
        except (tarfile.TarError, EOFError, OSError) as error:
            raise Damaged(f"{self._name}/{name}: cannot be read: {error}") from error
        with file:
            yield file

    def check(self) -> None:
        """Compare every file with the manifest. Raises Damaged, which names the file."""
        for name, expected in self.manifest.files.items():
            with self.file(name) as file:
                try:
                    there = _digest(file)
                except (tarfile.TarError, EOFError, OSError) as error:
                    raise Damaged(f"{self._name}/{name}: is cut short: {error}") from error
            if there.size != expected.size:
                raise Damaged(
                    f"{self._name}/{name}: is damaged or cut short: it has {there.size} bytes of {expected.size}"
                )
            if there != expected:
                raise Damaged(f"{self._name}/{name}: is damaged: its SHA-256 is not that of the manifest")

    def names(self, prefix: str) -> list[str]:
        """Names of files that begin so, sorted."""
        return sorted(name for name in self.manifest.files if name.startswith(prefix))


class Open(Protocol):
    """Function that opens a file of a package."""

    def __call__(self, name: str, /) -> BinaryIO: ...


@contextmanager
def read_package(source: Path) -> Iterator[Package]:
    """Open a package. Raises UsageError where there is none, Damaged."""
    if source.is_dir():
        files = sum(1 for path in source.rglob("*") if path.is_file())
        yield Package(source, lambda name: (source / name).open("rb"), files)
        return
    if not source.is_file():
        raise UsageError(f"{source}: there is no such file or folder")
    damaged = (tarfile.TarError, EOFError, OSError, ValueError, RecursionError)
    try:
        opened = tarfile.open(source, "r:")  # noqa: SIM115 - closed below
    except damaged as error:
        raise Damaged(f"{source}: is damaged or cut short, or no tar file: {error}") from error
    with opened as tar:
        try:
            members = {member.name: member for member in _safe_members(tar, source)}
        except damaged as error:
            raise Damaged(f"{source}: is damaged or cut short, or no tar file: {error}") from error

        def member(name: str) -> BinaryIO:
            file = tar.extractfile(members[name])
            if file is None:
                raise KeyError(name)
            return file  # type: ignore[return-value]

        yield Package(source, member, len(members))


def _safe_members(tar: tarfile.TarFile, source: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the members, one after the other. Raises Damaged for one that a package never has.

    A sparse file stands for as many zeros as it says, a symbolic link may lead to itself, and what a header says of all
    members is kept once for each of them.
    """
    while member := tar.next():
        if member.issparse() or not (member.isreg() or member.islnk() or member.isdir()):
            kind = "a sparse file" if member.issparse() else "neither a file nor a folder"
            raise Damaged(f"{one_line(f'{source}/{member.name}')}: is {kind}, which no package holds")
        if len(member.pax_headers) > _MOST_HEADERS:
            raise Damaged(f"{source}: its members have more than {_MOST_HEADERS} headers, which are allowed")
        yield member


def _digest(file: BinaryIO) -> File:
    digest, size = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        digest.update(piece)
        size += len(piece)
    return File(size=size, sha256=digest.hexdigest())
