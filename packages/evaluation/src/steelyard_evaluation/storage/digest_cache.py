"""Digests of large files, kept between commands: reading 100 GB again for each run would take minutes.

A file counts as the same while its device, inode, size and both its times are; the time of its last change of state
cannot be set back by a program. Verification reads the files themselves.
"""

import json
import os
import tempfile
import time
from pathlib import Path

MOST = 20_000
SETTLED_SECONDS = 2.0
"""Age of a file from which a further write cannot leave its times as they are."""


class DigestCache:
    """The digests in one file. Commands that write it at once may lose entries, and then only read files again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._added: dict[str, str] = {}
        self._known = self._read()

    def get(self, path: Path) -> str | None:
        return self._known.get(_key(path.stat()))

    def add(self, path: Path, before: os.stat_result, digest: str) -> None:
        """Keep a digest, unless the file was written while it was read, or a moment ago."""
        after = path.stat()
        if _key(after) == _key(before) and time.time() - after.st_ctime > SETTLED_SECONDS:
            self._added[_key(after)] = digest

    def save(self) -> None:
        """Write the additions. A folder that cannot be written costs the next command its time, and no result."""
        if not self._added:
            return
        entries = {**self._read(), **self._added}
        kept = dict(list(entries.items())[-MOST:])
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._file.parent, delete=False) as file:
                json.dump(kept, file)
            Path(file.name).replace(self._file)
        except OSError:
            return
        self._added = {}

    def _read(self) -> dict[str, str]:
        try:
            content = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        entries = content.items() if isinstance(content, dict) else ()
        return {key: digest for key, digest in entries if isinstance(digest, str)}


def _key(stat: os.stat_result) -> str:
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
