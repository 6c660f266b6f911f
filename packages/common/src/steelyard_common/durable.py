"""Files that are there whole or not at all, also after a power loss."""

import os
import tempfile
from pathlib import Path


def rename_durably(scratch: Path, path: Path) -> None:
    """Give a complete file its name, in the place of what may be there.

    A rename may reach the disk before the content does, so that a name would stand for an empty file; and it survives
    only once its folder is on the disk, too.
    """
    descriptor = os.open(scratch, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    scratch.replace(path)
    sync_folder(path.parent)


def write_atomically(path: Path, content: str) -> None:
    """Readers see the old content or the new one, also after a power loss; mode 0600."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
        rename_durably(Path(name), path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Keep the names in a folder through a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
