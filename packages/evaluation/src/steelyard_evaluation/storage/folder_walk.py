"""Walks the files of a folder in the order of their keys, from any key on: a page begins where the last one ended.

`FileStore` lists with it, and so does the server of a storage folder.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".#"
"""Prefix of half-written files; listings pass them over."""


def walk(
    root: Path, prefix: str = "", after: str = "", *, flat: bool = False, at: str | None = None
) -> Iterator[str]:
    """Every key that starts with `prefix` and comes after the key `after`, in the order of their UTF-8 bytes.

    If `flat`, a folder below the prefix stands for all its keys: its own key, which ends with `/`, comes once, if there
    are any; `after` may be one. Folders are read as the walk comes to them. One that is removed meanwhile has no keys.
    `at` is the folder in which the walk begins; by default the one that the prefix names in full.
    """
    if at is None:
        at = prefix[: prefix.rfind("/") + 1]
        if any(segment in {"", ".", ".."} or "\0" in segment for segment in at.split("/")[:-1]):
            return  # no key begins so, and the path would lead out of the folder
    for name in list_names(root / at):
        key = at + name
        if not name.endswith("/"):
            if key > after and key.startswith(prefix):
                yield key
        elif not (key.startswith(prefix) and (key > after or after.startswith(key))):
            continue
        elif not flat:
            yield from walk(root, prefix, after, at=key)
        elif key != after and next(walk(root, prefix, after, at=key), None) is not None:
            yield key


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; those of folders with a `/`, which decides where their keys stand."""
    try:
        with os.scandir(folder) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in entries
                if not entry.name.startswith(TEMPORARY) and not (entry.is_symlink() and entry.is_dir())
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return []
    return sorted(names)
