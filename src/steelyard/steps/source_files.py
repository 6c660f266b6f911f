"""Files of a data source: what its server states about each, and whether what arrived is that.

`hub_datasets.py` and `zenodo_records.py` make the listing, `fetch_data_source.py` fetches it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from steelyard.steps.common import StepFailed
from steelyard.steps.volume import PIECE
from steelyard_evaluation.storage.store import Store

FETCH_FAILED = "FetchFailed"


@dataclass(frozen=True)
class Digests:
    """Digests of one content, in hexadecimal."""

    sha256: str
    md5: str
    git: str
    """SHA-1 of the content as an object of git, by which a repository knows its small files."""


@dataclass(frozen=True)
class SourceFile:
    """A file of a data source, with the size and the digests that its server states."""

    path: str
    url: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    git: str | None = None

    @property
    def is_digested(self) -> bool:
        """Return whether the server states a digest of the content."""
        return any((self.sha256, self.md5, self.git))

    def fault(self, size: int, digests: Digests) -> str | None:
        """Return how a content differs from what the server states, or None."""
        if self.size is not None and size != self.size:
            return f"it has {size} bytes instead of {self.size}"
        pairs = (
            ("SHA-256", self.sha256, digests.sha256),
            ("MD5", self.md5, digests.md5),
            ("git SHA-1", self.git, digests.git),
        )
        for name, stated, actual in pairs:
            if stated is not None and stated.lower() != actual:
                return f"its {name} is {actual} instead of {stated}"
        return None


@dataclass(frozen=True)
class Listing:
    """The files of one version of a data source."""

    version: str
    """Commit or record: what stands for these files, and never for others."""
    origin: dict[str, str]
    """Origin of the files, as the manifest states it."""
    files: Sequence[SourceFile]


def choose(files: Iterable[SourceFile], patterns: Sequence[str]) -> list[SourceFile]:
    """Return the files that match one of the patterns, sorted by path; all of them without patterns."""
    return sorted(
        (file for file in files if not patterns or is_chosen(file.path, patterns)), key=lambda file: file.path
    )


def is_chosen(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a path matches a pattern: `*` also matches `/`, and a pattern that ends in `/` is a folder."""
    return any(fnmatchcase(path, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in patterns)


def digest_file(path: Path) -> Digests:
    """Return the digests of a local file. Blocking."""
    with path.open("rb") as file:
        return _digests(path.stat().st_size, iter(lambda: file.read(PIECE), b""))


async def digest_object(store: Store, key: str, size: int) -> Digests:
    """Return the digests of an object, in constant memory."""
    digester = _Digester(size)
    for start in range(0, size, PIECE):
        digester.update(await store.get_range(key, start, min(PIECE, size - start)))
    return digester.digests()


def fail(message: str, *, permanent: bool = True) -> StepFailed:
    """Return the failure of a fetch."""
    return StepFailed(FETCH_FAILED, message, permanent=permanent)


class _Digester:
    def __init__(self, size: int) -> None:
        # MD5 and SHA-1 compare what arrived with what the server states; what is recorded is SHA-256.
        self._sha256 = hashlib.sha256()
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)

    def update(self, piece: bytes) -> None:
        for digest in (self._sha256, self._md5, self._git):
            digest.update(piece)

    def digests(self) -> Digests:
        return Digests(self._sha256.hexdigest(), self._md5.hexdigest(), self._git.hexdigest())


def _digests(size: int, pieces: Iterator[bytes]) -> Digests:
    digester = _Digester(size)
    for piece in pieces:
        digester.update(piece)
    return digester.digests()
