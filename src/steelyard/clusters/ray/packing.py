"""Working directories as archives: packed and measured before anything is sent, and cut into pieces.

Pieces travel in Secrets, which Kubernetes limits to 1 MiB each; the job's submitter joins them.
"""

import fnmatch
import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.clusters.errors import BadConfig, Fault
from steelyard_schema.paths import BadFolder, walk

PIECE = 700 << 10
"""Bytes of a piece: base64 makes a third more of them, and a Secret has 1 MiB."""
MOST_PIECES = 64
UPLOAD_LIMIT = 100 << 20
"""Bytes that Ray's own API takes as one package."""
ALWAYS_EXCLUDED = (".git", "__pycache__", ".venv", ".ipynb_checkpoints")


@dataclass(frozen=True)
class Package:
    """A packed working directory."""

    content: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:32]

    @property
    def uri(self) -> str:
        """The address under which Ray keeps it."""
        return f"gcs://_ray_pkg_{self.digest}.zip"

    @property
    def names(self) -> Sequence[str]:
        """Paths of the files in it."""
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            return archive.namelist()

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        for start in range(0, len(self.content), size):
            yield self.content[start : start + size]


def pack(folder: Path, excludes: Sequence[str] = (), *, limit: int) -> Package:
    """Return the folder as a package; equal folders give equal packages. Raises BadConfig where it is too large."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_files(folder, excludes)):
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (path.stat().st_mode & 0o777) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    package = Package(buffer.getvalue())
    if len(package.content) > limit:
        size = f"{len(package.content) / (1 << 20):.1f} MiB packed, and at most {limit >> 20} can be sent"
        hint = "leave out files with runtime_env.excludes, or name an object store in runtime_env.working_dir"
        raise BadConfig("JobConfig", [Fault("working_dir", f"{folder}: {size}; {hint}")])
    return package


def _files(folder: Path, excludes: Sequence[str]) -> Iterator[Path]:
    patterns = (*ALWAYS_EXCLUDED, *excludes)

    def is_hidden(path: Path) -> bool:
        relative = path.relative_to(folder)
        return any(
            fnmatch.fnmatch(part, pattern) or fnmatch.fnmatch(str(relative), pattern)
            for part in relative.parts
            for pattern in patterns
        )

    try:
        yield from walk(folder, is_hidden)
    except BadFolder as error:
        raise BadConfig("JobConfig", [Fault("working_dir", str(error))]) from error
