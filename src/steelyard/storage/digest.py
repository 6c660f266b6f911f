"""SHA-256 digests of local files. Everything that records or checks a file uses these functions."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

MOST_AT_ONCE = 8


class KnownDigests(Protocol):
    """Digests of files that were read before."""

    def get(self, path: Path) -> str | None: ...
    def add(self, path: Path, before: os.stat_result, digest: str) -> None: ...
    def save(self) -> None: ...


def sha256_of(path: Path) -> str:
    """Return the digest of a file as hexadecimal text, in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_all(paths: Sequence[Path], known: KnownDigests | None = None) -> list[str]:
    """Return the digests of files in their order; several are read at once, and none whose digest is known."""

    def digest(path: Path) -> str:
        if known is None:
            return sha256_of(path)
        if (kept := known.get(path)) is not None:
            return kept
        before = path.stat()
        made = sha256_of(path)
        known.add(path, before, made)
        return made

    with ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1)) as pool:
        digests = list(pool.map(digest, paths))
    if known is not None:
        known.save()
    return digests
