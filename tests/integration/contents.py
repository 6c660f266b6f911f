"""Contents of a folder that programs use: what they remove before it is read is left out."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the regular files below a folder, each with its content.

    Files of Pods that end, and folders with them, vanish between their listing and their reading.
    """
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            try:
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path, path.read_bytes()
            except FileNotFoundError:
                continue
