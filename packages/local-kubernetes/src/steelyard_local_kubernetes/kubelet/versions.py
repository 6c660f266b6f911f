"""Folders whose files change all at once: what a container sees of ConfigMaps, Secrets, tokens and fields of its Pod.

The layout is that of a cluster's kubelet, which programs rely on: the files lie in a hidden folder of their version,
the link `..data` leads to the present one, and each name of the volume is a link through it. One rename of `..data`
changes every file. `volumes.py` makes such folders, the Pod's worker renews them.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CURRENT = "..data"


@dataclass(frozen=True)
class File:
    """Content and mode of one file."""

    data: bytes
    mode: int = 0o644


def make(folder: Path, files: Mapping[str, File]) -> None:
    """Write the first version into an empty folder, which is not read yet; files are named by relative path."""
    _write(folder / "..1", files)
    (folder / CURRENT).symlink_to("..1")
    for name in _names(files):
        (folder / name).symlink_to(f"{CURRENT}/{name}")


def write(folder: Path, files: Mapping[str, File]) -> bool:
    """Bring a folder to these files; tell whether it had others. After a crash at any step a reader finds the old
    version or the new one, and the next write completes what is left."""
    current = folder / CURRENT
    number = int(os.readlink(current).removeprefix("..")) if current.is_symlink() else 0
    changed = number == 0 or read(folder) != files
    if changed:
        version = folder / f"..{number + 1}"
        if version.exists():
            shutil.rmtree(version)
        _write(version, files)
        _link(folder, CURRENT, version.name)
    _show(folder, _names(files))
    _remove_others(folder)
    return changed


def _names(files: Mapping[str, File]) -> set[str]:
    """Return the names at the top of the volume: of files, and of folders with files."""
    return {relative.partition("/")[0] for relative in files}


def _write(version: Path, files: Mapping[str, File]) -> None:
    version.mkdir()
    for relative, file in files.items():
        path = version / relative
        if "/" in relative:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)


def read(folder: Path) -> dict[str, File]:
    """Return the present files."""
    current = folder / CURRENT
    base = current.resolve() if current.is_symlink() else folder
    return {
        str(path.relative_to(base)): File(path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(base.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _link(folder: Path, name: str, target: str) -> None:
    """Make a link, in the place of what may be there."""
    making = folder / f"..making-{name}"
    making.unlink(missing_ok=True)
    making.symlink_to(target)
    place = folder / name
    if place.is_dir() and not place.is_symlink():  # of a volume that an earlier version has made
        shutil.rmtree(place)
    os.replace(making, place)


def _show(folder: Path, names: set[str]) -> None:
    """Link the names of the volume to the present version; take away those that it no longer has."""
    for name in names:
        if not (folder / name).is_symlink():
            _link(folder, name, f"{CURRENT}/{name}")
    for path in folder.iterdir():
        if not path.name.startswith("..") and path.name not in names:
            _remove(path)


def _remove_others(folder: Path) -> None:
    """Remove earlier versions, and what a crash has left."""
    kept = {CURRENT, os.readlink(folder / CURRENT)}
    for path in folder.iterdir():
        if path.name.startswith("..") and path.name not in kept:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
