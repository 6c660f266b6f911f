"""Paths and digests of uploaded files, as the published schema allows them."""

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

from steelyard_schema.names import OWN_LOGS, OWN_RECORDS


class BadFolder(ValueError):
    """A folder whose content cannot be taken as a whole; the text names the path."""


PATH_BYTES, SEGMENT_BYTES = 900, 255
_OWN = frozenset({OWN_RECORDS, OWN_LOGS})
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f#?%<>:"|*\\]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def is_left_out(path: PurePath) -> bool:
    """Return True for hidden and compiled files, which do not count to the content of the folder that they lie in."""
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def files_below(folder: Path) -> list[Path]:
    """Return the files of a folder's content, sorted. Links are followed: model caches consist of them.

    Raises BadFolder for a link that leads nowhere or back to a folder above it: nothing is left out in silence.
    """
    return sorted(walk(folder, lambda path: is_left_out(path.relative_to(folder)))) if folder.is_dir() else []


def walk(folder: Path, left_out: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the files below a folder, in linked folders too. Raises BadFolder as `files_below` does."""
    try:
        yield from _walk(folder, left_out, (folder.resolve(),))
    except OSError as error:
        raise BadFolder(f"{error.filename}: {error.strerror}") from error


def _walk(folder: Path, left_out: Callable[[Path], bool], above: tuple[Path, ...]) -> Iterator[Path]:
    for path in folder.iterdir():
        if left_out(path):
            continue
        if path.is_dir():
            place = path.resolve()
            if place in above:
                raise BadFolder(f"{path}: is a link to {place}, a folder that it lies in itself")
            yield from _walk(path, left_out, (*above, place))
        elif path.is_file():
            yield path
        elif path.is_symlink():
            raise BadFolder(f"{path}: is a link to {path.readlink()}, where nothing is")
        else:
            raise BadFolder(f"{path}: is neither a file nor a folder")


def check_artifact_path(path: str) -> str:
    """The path itself. Raises ValueError, which says what is wrong with which segment.

    The rules are those of the published schema's create requests: relative, no `.` or `..`, nothing that Windows or a
    URL would read otherwise.
    """
    if len(path.encode()) > PATH_BYTES:
        raise ValueError(f"path {path[:40]!r}…: is longer than {PATH_BYTES} bytes")
    for segment in path.split("/"):
        if fault := _fault(segment):
            raise ValueError(f"path {path!r}: segment {segment!r} {fault}")
    return path


def check_artifact_paths(paths: Sequence[str]) -> None:
    """Raise ValueError for a path that is not allowed, occurs twice, is a folder of another, or the platform's own."""
    known: set[str] = set()
    for path in paths:
        check_artifact_path(path)
        if path in known:
            raise ValueError(f"path {path!r} is there twice")
        # In any case of letters: a store on a file system that ignores it would take them for the same
        # folder.
        if f"{path.partition('/')[0].casefold()}/" in _OWN:
            raise ValueError(f"path {path!r}: {OWN_RECORDS} and {OWN_LOGS} hold the platform's own files")
        known.add(path)
    for path in known:
        folder, slash, _ = path.rpartition("/")
        # A store of files cannot have a file and a folder of one name; an object store can, and a copy would
        # fail later.
        while slash:
            if folder in known:
                raise ValueError(f"path {path!r}: {folder!r} is a file, and so no folder of other files")
            folder, slash, _ = folder.rpartition("/")


def _fault(segment: str) -> str:
    if segment in {"", ".", ".."}:
        return "is not allowed; a path is relative, with / between its segments"
    if match := _FORBIDDEN.search(segment):
        return f"has the character {match[0]!r}, which is not allowed"
    # Windows drops both from the end of a name: two files would become one.
    if segment[-1] in " .":
        return "ends in a space or a dot, which is not allowed"
    if _DEVICES.fullmatch(segment):
        return "is the name of a device on Windows, which is not allowed"
    if len(segment.encode()) > SEGMENT_BYTES:
        return f"is longer than {SEGMENT_BYTES} bytes"
    return ""


def check_md5(md5: str | None, path: str) -> str | None:
    """Return the digest, base64 of 16 bytes as in Content-MD5. Raises ValueError."""
    if md5 is None:
        return None
    try:
        content = base64.b64decode(md5, validate=True)
    except ValueError:  # binascii.Error is one
        content = b""
    if len(content) != 16:
        raise ValueError(f"{path}: digest.md5 {md5!r} should be the base64 of the 16 bytes of the MD5")
    return md5
