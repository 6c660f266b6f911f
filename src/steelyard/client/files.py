"""Files on this machine: those of a folder, their descriptions and digests. Flows call these functions."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from steelyard.client.errors import BadFiles
from steelyard_common.whole_files import TooLarge, check_values, read_whole
from steelyard_schema.bounds import FREE_DEPTH, Unkeepable, check_json
from steelyard_schema.data import Artifact, Digest, File
from steelyard_schema.paths import BadFolder, check_artifact_path, files_below

CHUNK = 1 << 20
Paths = Path | str | Mapping[str, Path | str]
"""A folder with the files, or the files by their paths in the entity."""


def name_files(files: Paths) -> dict[str, Path]:
    """Return files by their paths in the entity. Raises BadFiles."""
    if isinstance(files, Mapping):
        paths = {name: Path(path) for name, path in files.items()}
    else:
        folder = Path(files)
        paths = {path.relative_to(folder).as_posix(): path for path in _below(folder)}
    for name, path in paths.items():
        if not path.is_file():
            raise BadFiles(f"{path}: there is no such file")
        try:
            check_artifact_path(name)
        except ValueError as error:
            raise BadFiles(f"{path}: {error}") from error
    return paths


def by_name(paths: Sequence[Path | str]) -> dict[str, Path]:
    """Return files by their own names. Raises BadFiles for two of one name."""
    named: dict[str, Path] = {}
    for path in map(Path, paths):
        if path.name in named:
            raise BadFiles(f"{path}: {named[path.name]} has the same name; give their folder")
        named[path.name] = path
    if not named:
        raise BadFiles("there is no file; give one or more")
    return named


def json_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file. Raises BadFiles, also for one that the platform would not take."""
    try:
        text = read_whole(path)
    except TooLarge as error:
        raise BadFiles(str(error)) from error
    except OSError as error:
        raise BadFiles(f"{path}: cannot be read: {error.strerror}") from error
    try:
        check_values(text)
        content = json.loads(text)
    except TooLarge as error:
        raise BadFiles(f"{path}: {error}") from error
    except ValueError as error:
        raise BadFiles(f"{path}: is not JSON: {error}") from error
    except RecursionError as error:
        raise BadFiles(f"{path}: is nested too deeply; at most {FREE_DEPTH} levels are taken") from error
    if not isinstance(content, dict):
        raise BadFiles(f"{path}: is not a JSON object")
    try:
        check_json(content, FREE_DEPTH)
    except Unkeepable as error:
        raise BadFiles(f"{path}: {error}") from error
    return content


def locate_files(files: Paths, names: Sequence[str]) -> dict[str, Path]:
    """Return the paths of the files that an entity names. Raises BadFiles if any of them is missing."""
    if isinstance(files, Mapping):
        paths = {name: Path(files[name]) for name in names if name in files}
    else:
        paths = {name: Path(files) / name for name in names}
    for name in names:
        if name not in paths:
            raise BadFiles(f"{name}: the entity names it, and it is not among the files given")
        if not paths[name].is_file():
            raise BadFiles(f"{paths[name]}: there is no such file, and the entity names it")
    return paths


def _below(folder: Path) -> Sequence[Path]:
    """Return the files of a folder's content, sorted. Raises BadFiles where there are none."""
    if not folder.is_dir():
        raise BadFiles(f"{folder}: there is no such folder")
    try:
        paths = files_below(folder)
    except BadFolder as error:
        raise BadFiles(str(error)) from error
    if not paths:
        raise BadFiles(f"{folder}: there is no file in it; those that begin with a dot are left out")
    return paths


def list_artifacts(files: Mapping[str, Path]) -> list[Artifact]:
    """Describe files as a dataset or a module does."""
    return [
        Artifact(
            kind=PurePath(name).suffix.lstrip(".") or None, path=name, digest=Digest(md5=md5_digest(path))
        )
        for name, path in files.items()
    ]


def list_volume(files: Mapping[str, Path]) -> list[File]:
    """Describe files as a model's volume does."""
    return [
        File(path=name, size=path.stat().st_size, digest=Digest(md5=md5_digest(path)))
        for name, path in files.items()
    ]


def md5_digest(path: Path) -> str:
    """Return the MD5 digest of a file in base64, as in Content-MD5. Raises BadFiles."""
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces(path):
        digest.update(piece)
    return base64.b64encode(digest.digest()).decode()


def pieces(path: Path) -> Iterator[bytes]:
    """Yield a file's content in pieces. Raises BadFiles."""
    try:
        with path.open("rb") as file:
            while piece := file.read(CHUNK):
                yield piece
    except OSError as error:
        raise BadFiles(f"{path}: cannot be read: {error.strerror}") from error
