"""SHA-256 digests of local files. Everything that records or checks a file uses these functions."""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

MOST_AT_ONCE = 8
PIECE = 1 << 20


class KnownDigests(Protocol):
    """Digests of files that were read before."""

    def get(self, path: Path) -> str | None: ...
    def add(self, path: Path, before: os.stat_result, digest: str) -> None: ...
    def save(self) -> None: ...


def file_sha256(path: Path) -> str:
    """Return the digest of a file as hexadecimal text, in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256_unless(stopped: Callable[[], bool], path: Path) -> str:
    """Return the digest of a file that may be so large that a user would not wait for it after Ctrl-C."""
    digest, piece = hashlib.sha256(), memoryview(bytearray(PIECE))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(piece):
            if stopped():
                raise InterruptedError(f"{path}: was not read to its end")
            digest.update(piece[:size])
    return digest.hexdigest()


def sha256_of_all(
    paths: Sequence[Path],
    known: KnownDigests | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Return the digests of files in their order; several are read at once, and none whose digest is known.

    Raises InterruptedError soon after `stopped` says so.
    """

    def file_digest(path: Path) -> str:
        if known is None:
            return _sha256_unless(stopped, path)
        if (kept := known.get(path)) is not None:
            return kept
        before = path.stat()
        digest = _sha256_unless(stopped, path)
        known.add(path, before, digest)
        return digest

    with ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1)) as pool:
        digests = list(pool.map(file_digest, paths))
    if known is not None:
        known.save()
    return digests
