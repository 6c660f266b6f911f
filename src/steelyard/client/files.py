"""Files on this machine: which ones a folder holds, what they are, and their digests. Called by flows."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from steelyard.client.errors import BadFiles
from steelyard.schema.data import Artifact, Digest, File
from steelyard.schema.paths import check_artifact_path

CHUNK = 1 << 20
Paths = Path | str | Mapping[str, Path | str]
"""A folder with the files, or each file by the path that it has in the entity."""


def named(files: Paths) -> dict[str, Path]:
    """Files by their paths in the entity. Raises BadFiles."""
    if isinstance(files, Mapping):
        found = {name: Path(path) for name, path in files.items()}
    else:
        folder = Path(files)
        found = {path.relative_to(folder).as_posix(): path for path in _below(folder)}
    for name, path in found.items():
        if not path.is_file():
            raise BadFiles(f"{path}: there is no such file")
        try:
            check_artifact_path(name)
        except ValueError as error:
            raise BadFiles(f"{path}: {error}") from error
    return found


def by_name(paths: Sequence[Path | str]) -> dict[str, Path]:
    """Files under their own names. Raises BadFiles for two of one name."""
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        if path.name in found:
            raise BadFiles(f"{path}: {found[path.name]} has the same name; give their folder")
        found[path.name] = path
    if not found:
        raise BadFiles("there is no file; give one or more")
    return found


def located(files: Paths, names: Sequence[str]) -> dict[str, Path]:
    """Where the files are that an entity names. Raises BadFiles before any of them is needed."""
    if isinstance(files, Mapping):
        found = {name: Path(files[name]) for name in names if name in files}
    else:
        found = {name: Path(files) / name for name in names}
    for name in names:
        if name not in found:
            raise BadFiles(f"{name}: the entity names it, and it is not among the files given")
        if not found[name].is_file():
            raise BadFiles(f"{found[name]}: there is no such file, and the entity names it")
    return found


def _below(folder: Path) -> Sequence[Path]:
    """Every file, sorted, but what is hidden or compiled. Links are followed, as caches of models are made of them."""
    if not folder.is_dir():
        raise BadFiles(f"{folder}: there is no such folder")
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not _left_out(path, folder))
    if not found:
        raise BadFiles(f"{folder}: there is no file in it; those that begin with a dot are left out")
    return found


def _left_out(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return any(part.startswith(".") or part == "__pycache__" for part in parts)


def artifacts_of(files: Mapping[str, Path]) -> list[Artifact]:
    """The files as a dataset or a module names them."""
    return [
        Artifact(kind=_kind(name), path=name, digest=Digest(md5=md5_of(path))) for name, path in files.items()
    ]


def _kind(name: str) -> str | None:
    return PurePath(name).suffix.lstrip(".") or None


def volume_of(files: Mapping[str, Path]) -> list[File]:
    """The files as a model's volume names them."""
    return [
        File(path=name, size=path.stat().st_size, digest=Digest(md5=md5_of(path)))
        for name, path in files.items()
    ]


def md5_of(path: Path) -> str:
    """Base64 of the MD5, as in Content-MD5. Raises BadFiles."""
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces(path):
        digest.update(piece)
    return base64.b64encode(digest.digest()).decode()


def pieces(path: Path) -> Iterator[bytes]:
    """A file's content. Raises BadFiles."""
    try:
        with path.open("rb") as file:
            while piece := file.read(CHUNK):
                yield piece
    except OSError as error:
        raise BadFiles(f"{path}: cannot be read: {error.strerror}") from error
